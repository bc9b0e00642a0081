"""Sessions, plans and runs for the agent's tests; whatever a test leaves running is ended."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_client import Client
from agent_runs import end_all_of


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A node folder; processes whose environment names it are ended afterwards."""
    path = tmp_path / "node"
    yield path
    end_all_of(path)


@pytest.fixture
def connect(folder: Path) -> Iterator[Callable[..., Client]]:
    """Opens sessions, each closed at the end."""
    opened: list[Client] = []

    def open_session(**options: Any) -> Client:
        client = Client(options.pop("folder", folder), **options)
        opened.append(client)
        return client

    yield open_session
    for client in opened:
        client.close()


@pytest.fixture
def session(connect: Callable[..., Client]) -> Client:
    return connect(python=sys.executable)
