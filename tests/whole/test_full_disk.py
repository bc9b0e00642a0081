"""The disk that the records are on fills up while a run goes on: that is said, and nothing is lost."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from whole.site import LIMIT, Site

pytestmark = pytest.mark.timeout(600)

SMALL, LARGE = "200k", "64m"
LASTING = ["--bytes", "--steps", "200", "--sleep", "0.1", "--limit", "300"]
"""20 s and more, and more than the small disk holds."""


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, timeout=30)


@pytest.fixture
def small_disk(site: Site) -> Iterator[Path]:
    """The user's records are on a disk that a run's logs fill."""
    home = Path(site.shell.environment["RANKDECK_HOME"])
    home.mkdir(parents=True, exist_ok=True)
    mount("-t", "tmpfs", "-o", f"size={SMALL}", "none", str(home))
    try:
        yield home
    finally:
        subprocess.run(["umount", "--lazy", str(home)], check=True, timeout=30)


def test_a_full_disk_is_told_and_what_it_lacked_comes_later(site: Site, small_disk: Path) -> None:
    site.save_ring("ring", *LASTING)
    process = site.shell.start("run", "ring")
    assert process.stderr is not None
    told = ""
    for line in process.stderr:
        told += line
        if "No space left on device" in line:
            break
    assert "can't be written: No space left on device" in told
    assert "the nodes keep it all" in site.shell("show", "last").stderr
    mount("-o", f"remount,size={LARGE}", str(small_disk))
    _, rest = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, told + rest
    assert "the record can be written again" in rest
    assert site.show("last")["state"] == "succeeded"
    site.assert_every_byte(8)
    site.assert_nothing_runs()
