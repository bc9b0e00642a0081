"""Fixtures for the screens: a folder with profiles and pools, a fixed time zone."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Times on screen are the machine's own: in UTC here, and without settings of whoever runs the tests."""
    for name in ("NO_COLOR", "RANKDECK_GLYPHS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder whose path is always as long, with two profiles, a broken one, and a pool."""
    path = Path(tempfile.mkdtemp(prefix="rd-", dir="/tmp"))
    try:
        for name in ("home", "work", "config/profiles", "config/pools"):
            (path / name).mkdir(parents=True)
        profiles, pools = path / "config" / "profiles", path / "config" / "pools"
        (profiles / "resnet.toml").write_text(
            'framework = "pytorch"\nscript = "train.py"\nargs = ["--epochs", "50"]\n'
            'workdir = "/work/resnet"\n'
            'pool = "h100"\nprocs_per_node = 2\n\n[env]\nNCCL_DEBUG = "INFO"\n'
        )
        (profiles / "bert.toml").write_text(
            'framework = "torchrun"\nmodule = "bert.train"\nworkdir = "/work"\n'
        )
        (profiles / "odd.toml").write_text('framework = "torchrunn"\nscript = "x.py"\n')
        (pools / "h100.toml").write_text('backend = "ssh"\nnodes = ["n[1-2]"]\nslots = 2\n')
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
