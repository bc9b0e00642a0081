"""Fixtures shared by all tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

import cluster
import terminal

# What tests start inherits these. Textual takes its size from them before it asks the terminal.
for _name in ("COLUMNS", "LINES"):
    os.environ.pop(_name, None)
# Ignored in the background of a script, or under nohup.
for _signal, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, _usual)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever asks for a cluster gets the marker ``cluster``."""
    for item in items:
        if "cluster4" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="session")
def needs_cluster() -> None:
    """Skips, with the reason, where no cluster can be made."""
    if reason := cluster.missing():
        pytest.skip(reason)


@pytest.fixture(scope="module")
def cluster4(needs_cluster: None) -> Iterator[cluster.Cluster]:
    """Four nodes, n1 to n4, for the tests of one module; a test heals what it breaks."""
    with cluster.Cluster(4) as made:
        yield made


@pytest.fixture
def tmux() -> Iterator[terminal.Tmux]:
    """A terminal of 120 x 40 cells; the test starts a program in it."""
    if reason := terminal.missing():
        pytest.skip(reason)
    with terminal.Tmux() as made:
        yield made
