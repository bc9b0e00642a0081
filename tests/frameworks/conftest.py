"""Fixtures of the real runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import Cluster
from whole.site import Site


@pytest.fixture
def site(tmp_path: Path, cluster4: Cluster) -> Iterator[Site]:
    """A user with an empty home and four nodes; whatever runs at the test's end is ended."""
    made = Site.make(tmp_path, cluster4)
    yield made
    made.shell.end()
