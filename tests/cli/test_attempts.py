"""Runs whose launcher has started the ranks again: what `show` and `logs` say of the attempts."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cli.user import Shell
from rankdeck_runs import layout
from rankdeck_runs.home import RunHome
from rankdeck_tui.cli.views import LinesView, ProgressView
from tui.records import BEGIN, happen, write_run


@pytest.fixture
def again(rankdeck: Shell) -> Shell:
    """A finished run: rank 1 failed in its first attempt; in the second the ranks swapped their nodes."""
    record = write_run(rankdeck.folder / "data", "again-1", per_node=1, framework="torchrun")
    plan = dict(record.plan())
    for node in plan["nodes"]:
        node["processes"][0].update(fixed_ranks=False, restarts=3)
    (record.path / layout.PLAN).write_text(json.dumps(plan))
    told = []
    for seq, attempt, places in ((1, 1, ("n1", "n2")), (3, 2, ("n2", "n1"))):
        for rank, node in enumerate(places):
            where = {"node": node, "rank": rank, "attempt": attempt, "local_rank": 0, "t": BEGIN + attempt}
            failed = (attempt, rank) == (1, 1)
            code, signal = (1, None) if failed else (None, "TERM") if attempt == 1 else (0, None)
            told.append({"ev": "rank_started", "seq": seq, "pid": 10 * attempt + rank, **where})
            told.append(
                {"ev": "rank_ended", "seq": seq + 1, "exit_code": code, "signal": signal, "out_bytes": 8,
                 "err_bytes": 0, "asked": False, "may_restart": attempt == 1, **where}
            )  # fmt: skip
            path = record.log_path(layout.rank_log(rank, "out", attempt))
            path.write_text(f"{rank} in {attempt}\n")
    told += [
        {"ev": "node_ended", "seq": 5, "node": n, "state": "succeeded", "t": BEGIN + 3} for n in ("n1", "n2")
    ]
    happen(record, [*told, {"ev": "complete", "t": BEGIN + 4}])
    return rankdeck


def test_show_says_which_attempt_and_why(again: Shell) -> None:
    shown = again("show", "again-1").stdout
    assert "attempt 2 of 4\n" in shown
    assert "attempt 1 ended: rank 1 ended with status 1 (n2)\n" in shown
    told = json.loads(again("show", "again-1", "--json").stdout)
    assert (told["state"], told["attempt"], told["attempts"]) == ("succeeded", 2, 4)
    assert told["earlier_attempts"][0]["cause"]["rank"] == 1
    assert [rank["node"] for rank in told["ranks"]] == ["n2", "n1"]
    assert [rank["earlier"][0]["node"] for rank in told["ranks"]] == ["n1", "n2"]


def test_logs_are_those_of_the_newest_attempt_or_of_the_one_asked_for(again: Shell) -> None:
    newest = again("logs", "again-1").stdout
    assert newest == "[0 n2, attempt 2] 0 in 2\n[1 n1, attempt 2] 1 in 2\n"
    first = again("logs", "again-1", "--attempt", "1").stdout
    assert first == "[0 n1] 0 in 1\n[1 n2] 1 in 1\n"
    raw = ("--rank", "1", "--stream", "out", "--raw")
    assert again("logs", "again-1", *raw).stdout == "1 in 2\n"
    assert again("logs", "again-1", *raw, "--attempt", "1").stdout == "1 in 1\n"


def test_progress_goes_on_with_the_newest_attempt(again: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    """The first attempt was seen before the second was known."""
    record = RunHome(again.folder / "data").find("again-1")
    whole = record.snapshot()
    first = replace(whole, attempt=1, earlier_attempts=(), ranks=tuple(r.earlier[0] for r in whole.ranks))
    view = ProgressView(record)
    assert view.show(first) == len("0 in 1\n")
    assert view.show(whole) == len("0 in 1\n0 in 2\n")
    view.finish(whole)
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if "ranks:" not in line] == [
        "rank 0: 0 in 1",
        "attempt 1 ended: rank 1 ended with status 1 (n2)",
        "rank 0: now of attempt 2",
        "rank 0: 0 in 2",
    ]


def test_an_attempt_that_came_and_went_between_two_looks_is_printed(
    again: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    record = RunHome(again.folder / "data").find("again-1")
    whole = record.snapshot()
    dealt = tuple(replace(rank, node="", attempt=1, earlier=()) for rank in whole.ranks)
    view = LinesView(record.logs_path)
    view.show(replace(whole, attempt=1, earlier_attempts=(), ranks=dealt))
    view.finish(whole)
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "[0 n1] 0 in 1",
        "[0 n2, attempt 2] 0 in 2",
        "[1 n1, attempt 2] 1 in 2",
        "[1 n2] 1 in 1",
    ]
    LinesView(record.logs_path).finish(whole)
    assert " in 1" not in capsys.readouterr().out


def test_an_attempt_that_never_was(again: Shell) -> None:
    done = again("logs", "again-1", "--attempt", "3", status=2)
    assert "--attempt 3: run again-1 is known to have had 2" in done.stderr
