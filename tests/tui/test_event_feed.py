"""The feed of events: in the order of their times, however late they come."""

from __future__ import annotations

import json
from pathlib import Path

from rankdeck_tui.widgets.event_feed import MOST_LINES, EventFeed


def write(path: Path, *events: dict[str, object]) -> None:
    with path.open("a") as file:
        file.writelines(json.dumps(event) + "\n" for event in events)


def test_times_never_run_backwards(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    feed = EventFeed(path)
    write(path, {"ev": "run_created", "t": 10.0}, {"ev": "link_up", "t": 14.0, "node": "n1"})
    assert feed.read()
    write(
        path,
        {"ev": "rank_started", "t": 12.0, "node": "n1", "rank": 0, "pid": 7, "seq": 2},
        {"ev": "link_up", "t": 14.0, "node": "n2"},
        {"ev": "rank_started", "t": 11.5, "node": "n2", "rank": 1, "pid": 8, "seq": 2},
        {"ev": "complete"},
    )
    assert feed.read()
    assert [(happening.node, happening.text.split(",")[0]) for happening in feed.happenings] == [
        ("", "run recorded"),
        ("n2", "rank 1 started"),
        ("n1", "rank 0 started"),
        ("n1", "connected"),
        ("n2", "connected"),
        ("", "everything is in the record"),
    ]
    assert not feed.read()


def test_the_oldest_fall_out(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    write(path, *({"ev": "link_up", "t": float(moment), "node": "n1"} for moment in range(MOST_LINES + 20)))
    feed = EventFeed(path)
    feed.read()
    assert [happening.t for happening in feed.happenings] == list(range(20, MOST_LINES + 20))
