"""The command line's fixtures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.user import Shell, environment


@pytest.fixture
def rankdeck(tmp_path: Path) -> Iterator[Shell]:
    """The command, for a user with an empty home; whatever it started is ended after the test."""
    (tmp_path / "home").mkdir()
    shell = Shell(tmp_path, environment(tmp_path))
    yield shell
    shell.end()
