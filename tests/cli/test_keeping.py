"""What the command line says of logs and room, and how it is rid of runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.on_terminal import Terminal
from cli.user import Shell
from rankdeck_runs.record import Record
from tui.records import BEGIN, ended, happen, log, started, write_run

OLD = "20261117-091500-resnet-aaaa"


def ended_run(rankdeck: Shell, run: str, codes: dict[int, int], before: float) -> Record:
    """A run that ended so many seconds before `BEGIN`, and was collected."""
    record = write_run(rankdeck.folder / "data", run)
    *events, complete = [*started(record), *ended(record, codes)]
    # Its nodes are no machines: nothing of it is left there.
    for node in ("n1", "n2"):
        events += [
            {"ev": "node_fetched", "t": BEGIN, "node": node, "files": {}, "unverified": []},
            {"ev": "node_cleared", "t": BEGIN, "node": node},
        ]
    happen(record, [*events, complete])
    told = [json.loads(line) for line in record.events_path.read_text().splitlines()]
    record.events_path.write_text("".join(json.dumps({**e, "t": e["t"] - before}) + "\n" for e in told))
    record.refresh_summary()
    return record


@pytest.fixture
def local(rankdeck: Shell) -> str:
    """The id of a real run of two local nodes that has ended and is complete."""
    rankdeck.save_pool()
    rankdeck.save_profile("hello")
    rankdeck("run", "hello")
    return str(rankdeck.json("runs")[0]["id"])


def on_nodes(rankdeck: Shell, run: str) -> list[str]:
    return sorted(path.name for path in rankdeck.folder.glob(f"node/runs/{run}/*"))


def test_a_run_shows_its_size_and_where_its_logs_are(rankdeck: Shell, local: str) -> None:
    (listed,) = rankdeck.json("runs")
    assert (listed["logs"], listed["lacks"]) == ("shared", None)
    shown = rankdeck.json("show", local)
    assert 0 < listed["disk_bytes"] <= shown["disk_bytes"]
    assert [node["state"] for node in shown["collection"]] == ["shared", "shared"]
    text = rankdeck("runs")
    assert "SIZE" in text.stdout
    assert f"1 run, {text.stdout.split('shared')[0].split()[-2]}" in text.stderr
    assert "logs of 2 nodes were written straight into the record" in rankdeck("show", local).stdout


def test_what_is_missing_is_told_with_node_and_reason(rankdeck: Shell) -> None:
    record = write_run(rankdeck.folder / "data", OLD)
    events = [{**e, "out_bytes": 1204} if e.get("rank") == 2 else e for e in ended(record)]
    lost = {"ev": "link_lost", "t": BEGIN + 70, "node": "n2", "message": "connect: timed out"}
    happen(record, [*started(record), *events[:-1], lost])
    log(record, 2, b"four")
    record.refresh_summary()
    assert "1,200 bytes missing on n2 (connect: timed out)" in rankdeck("runs").stderr
    assert "1,200 bytes missing on n2 (connect: timed out)" in rankdeck("show", OLD, "--offline").stdout
    stays = rankdeck("runs", "--prune", OLD)
    assert "no run is to go" in stays.stderr
    assert "stays: its logs are not all here: " in stays.stderr
    preview = rankdeck.json("runs", "--prune", OLD, "--uncollected")
    assert [run["id"] for run in preview["would_remove"]] == [OLD]


def test_a_real_run_goes_from_here_and_from_its_nodes(rankdeck: Shell, local: str) -> None:
    assert on_nodes(rankdeck, local) == ["0", "1"]
    refused = rankdeck("runs", "--prune", "--keep", "0", status=2)
    assert local in refused.stdout
    assert "no terminal to ask on" in refused.stderr
    assert "--yes" in refused.stderr
    assert on_nodes(rankdeck, local) == ["0", "1"]
    done = rankdeck("runs", "--prune", local, "--yes")
    assert "removed 1 run, " in done.stderr
    assert on_nodes(rankdeck, local) == []
    assert rankdeck.json("runs") == []
    assert list((rankdeck.folder / "data/runs").iterdir()) == []


def test_json_shows_and_only_with_yes_removes(rankdeck: Shell, local: str) -> None:
    preview = rankdeck.json("runs", "--prune", local)
    assert [run["id"] for run in preview["would_remove"]] == [local]
    assert preview["bytes"] > 0
    assert [run["id"] for run in rankdeck.json("runs")] == [local]
    done = rankdeck.json("runs", "--prune", local, "--yes")
    (removed,) = done["removed"]
    assert removed["id"] == local
    assert set(removed["nodes"]["freed"]) == {"127.0.0.1", "127.0.0.2"}
    assert rankdeck.json("runs") == []


def test_a_run_that_goes_on_stays(rankdeck: Shell) -> None:
    rankdeck.save_pool()
    rankdeck.save_profile("waits", "until=go")
    run = rankdeck.json("run", "waits", "--detach")["id"]
    done = rankdeck("runs", "--prune", run, "--yes")
    assert "not known to have ended" in done.stderr
    assert f"run {run} goes on (" in rankdeck("collect", run).stderr
    assert "logs are verified once it has ended" in rankdeck("collect", run, "--remove-from-nodes").stderr
    assert on_nodes(rankdeck, run) == ["0", "1"]
    (rankdeck.folder / "go").touch()


def test_age_state_and_count_narrow_it_down(rankdeck: Shell) -> None:
    day = 86400.0
    for number, (codes, before) in enumerate([({}, 0.0), ({2: 1}, day), ({}, 40 * day), ({2: 1}, 41 * day)]):
        ended_run(rankdeck, f"20261118-0000{number:02}-resnet-aaaa", codes, before + 400 * day)

    def going(*options: str) -> list[str]:
        preview = rankdeck.json("runs", "--prune", *options)
        return [run["id"][13:15] for run in preview["would_remove"]]

    assert going("--older-than", "30d") == ["00", "01", "02", "03"]
    assert going("--failed") == ["01", "03"]
    assert going("--keep", "1") == ["01", "02", "03"]
    assert going("--keep", "2", "--failed") == ["03"]
    assert going("--older-than", "3650d") == []
    rankdeck("runs", "--prune", "--failed", "--yes")
    assert [run["id"][13:15] for run in rankdeck.json("runs")] == ["00", "02"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--prune"], "which runs are to go"),
        (["--prune", "--older-than", "500000d"], "is more than ten years"),
        (["--prune", "--older-than", "soon"], "is no length of time"),
        (["--prune", "--keep", "-1"], "is no number of runs"),
        (["--prune", "--keep", "x"], "is no number of runs"),
        (["--prune", "nothing-like-it"], "no run is named"),
        (["--failed"], "--failed goes with --prune"),
        (["last"], "RUN goes with --prune"),
    ],
)
def test_what_can_not_be_is_told(rankdeck: Shell, options: list[str], told: str) -> None:
    assert told in rankdeck("runs", *options, status=2).stderr


@pytest.mark.parametrize(("answer", "left"), [("y", 0), ("n", 1), ("", 1)])
def test_the_question_on_a_terminal(rankdeck: Shell, local: str, answer: str, left: int) -> None:
    terminal = Terminal(rankdeck, "runs", "--prune", local)
    try:
        assert "Remove 1 run, " in terminal.until(" [n]: ")
        terminal.type(answer + "\r")
        assert terminal.end() == (0 if left == 0 else 130)
    finally:
        terminal.close()
    assert len(rankdeck.json("runs")) == left


def test_collecting_a_run_that_is_here(rankdeck: Shell, local: str) -> None:
    done = rankdeck.json("collect", local)
    assert done["id"] == local
    assert [node["missing_bytes"] for node in done["collection"]] == [0, 0]
    assert on_nodes(rankdeck, local) == ["0", "1"]
    freed = rankdeck.json("collect", local, "--remove-from-nodes")
    assert set(freed["freed"]) == {"127.0.0.1", "127.0.0.2"}
    assert on_nodes(rankdeck, local) == []
    assert "folder was removed from 127.0.0.1, 127.0.0.2" in rankdeck("show", local).stdout
    assert rankdeck("logs", local, "--rank", "0", "--stream", "out", "--raw").stdout.startswith("rank 0 of 4")


def test_what_a_killed_removal_left_goes_with_the_next(rankdeck: Shell, local: str) -> None:
    left = Path(rankdeck.folder / "data/runs/.removed-20260101-000000-x-aaaa-00000000")
    left.mkdir()
    (left / "plan.json").write_text("{}")
    assert [run["id"] for run in rankdeck.json("runs")] == [local]
    rankdeck("runs", "--prune", local, "--yes")
    assert not left.exists()
