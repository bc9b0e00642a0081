"""Which runs go, by what the list says of them."""

from __future__ import annotations

from typing import Any

import pytest

from rankdeck_runs.pruning import Rule, age, choose
from rankdeck_runs.summary import RunSummary

NOW = 1_795_000_000.0
DAY = 86400.0


def run(name: str = "a", **changes: Any) -> RunSummary:
    """A run that succeeded a day before `NOW`, 2026-11-18 11:06:40 UTC."""
    values = {
        "state": "succeeded",
        "created": "2026-11-17T10:00:00Z",
        "ended": "2026-11-17T11:06:40Z",
        "complete": True,
        "logs": "collected",
        "disk_bytes": 1000,
    }
    return RunSummary(name, {**values, **changes})


def going(runs: list[RunSummary], **rule: Any) -> list[str]:
    return [each.id for each in choose(runs, Rule(**rule), NOW).going]


@pytest.mark.parametrize("state", ["running", "starting", "checking", "stopping", "lost"])
def test_what_may_go_on_stays_whatever_is_asked_for(state: str) -> None:
    choice = choose([run(state=state)], Rule(names=("a",), uncollected=True), NOW)
    assert choice.going == ()
    assert [why for _, why in choice.staying] == [f"not known to have ended: last seen {state}"]


def test_a_record_that_can_not_be_read_stays_and_an_unknown_end_does_not() -> None:
    damaged = choose([RunSummary("a", {})], Rule(uncollected=True), NOW)
    assert [why for _, why in damaged.staying] == ["its record can't be read"]
    assert going([run(state="unknown", complete=True)]) == ["a"]


@pytest.mark.parametrize(
    "changes",
    [{"lacks": "12 bytes missing on n2"}, {"logs": "missing"}, {"complete": False}],
)
def test_logs_that_are_not_here_keep_a_run_until_they_are_given_up(changes: dict[str, Any]) -> None:
    choice = choose([run(**changes)], Rule(), NOW)
    assert choice.going == ()
    assert choice.staying[0][1].startswith("its logs are not all here")
    assert going([run(**changes)], uncollected=True) == ["a"]


def test_age_counts_from_the_end_and_from_the_creation_where_that_is_not_known() -> None:
    assert age(run(), NOW) == DAY
    assert age(run(ended=None), NOW) == DAY + 4000
    assert age(run(ended=None, created="nonsense"), NOW) is None
    assert going([run()], older_than=DAY) == ["a"]
    assert going([run()], older_than=DAY + 1) == []
    assert going([run(ended=None, created=None)], older_than=0.0) == []


def test_the_newest_are_counted_with_those_that_go_on() -> None:
    runs = [run("c", state="running"), run("b"), run("a")]
    assert going(runs, keep=2) == ["a"]
    assert going(runs, keep=5) == []


def test_a_records_size_that_nobody_noted_counts_as_nothing() -> None:
    choice = choose([run("b"), run("a", disk_bytes=None)], Rule(), NOW)
    assert (len(choice.going), choice.size) == (2, 1000)
