from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from rankdeck_runs import events
from rankdeck_runs.home import RunNotFoundError
from rankdeck_runs.record import Record


@pytest.fixture
def made(home, plan):
    """Makes records of runs that began at a given second and ended well, or did not end."""

    def make(run_id, t, ended=True):
        folder = os.path.join(home.runs, run_id)
        os.makedirs(os.path.join(folder, "logs"))
        record = Record(folder)
        (record.path / "plan.json").write_text(json.dumps(plan))
        told = [{"t": t, "ev": "run_created", "profile": "resnet", "pool": "h100", "backend": "ssh"}]
        for node, ranks in (("n1", (0, 1)), ("n2", (2, 3))):
            seq = 0
            for rank in ranks:
                seq += 1
                told.append(
                    {"t": t + 1, "ev": "rank_started", "node": node, "seq": seq, "rank": rank, "pid": 5}
                )
            for rank in ranks if ended else ():
                seq += 1
                told.append(
                    {"t": t + 2, "ev": "rank_ended", "node": node, "seq": seq, "rank": rank, "exit_code": 0}
                )
            if ended:
                told.append(
                    {"t": t + 3, "ev": "node_ended", "node": node, "seq": seq + 1, "state": "succeeded"}
                )
        for event in told:
            events.append(record.events_path, event)
        return record

    return make


def test_no_runs_yet(home):
    assert home.list() == []
    with pytest.raises(RunNotFoundError, match="no run yet"):
        home.find("last")


def test_runs_are_listed_newest_first(home, made):
    made("20260101-000000-b-2222", 100.0)
    made("20260101-000000-a-3333", 300.0)
    made("20260101-000000-c-1111", 200.0, ended=False)
    listed = home.list()
    assert [(run.id[16:17], run.state) for run in listed] == [
        ("a", "succeeded"),
        ("c", "running"),
        ("b", "succeeded"),
    ]
    assert home.find("last").id == listed[0].id
    shown = listed[0].to_json()
    assert (shown["profile"], shown["pool"], shown["world_size"], shown["nodes"]) == ("resnet", "h100", 4, 2)
    assert shown["created"] == "1970-01-01T00:05:00.000000Z"
    assert shown["ended"] == "1970-01-01T00:05:03.000000Z"


def test_a_missing_or_damaged_summary_is_made_anew(home, made):
    record = made("20260101-000000-a-1111", 100.0)
    first = home.list()[0].to_json()
    summary = record.path / "summary.json"
    assert summary.stat().st_mode & 0o777 == 0o600
    for damage in (b"", b"{", b"[]", b"\xff"):
        summary.write_bytes(damage)
        assert home.list()[0].to_json() == first
        assert json.loads(summary.read_bytes()) == first


def test_a_damaged_record_is_listed_as_unknown(home):
    os.makedirs(os.path.join(home.runs, "20260101-000000-x-1111"))
    run = home.list()[0]
    assert (run.id, run.state, run.created, run.complete) == (
        "20260101-000000-x-1111",
        "unknown",
        None,
        False,
    )


def test_runs_are_found_by_id_prefix_and_last(home, made):
    for name in ("20260101-000000-a-1111", "20260101-000000-a-2222", "20260102-000000-b-3333"):
        made(name, float(name[7]))
    assert home.find("20260101-000000-a-1111").id == "20260101-000000-a-1111"
    assert home.find("20260102").id == "20260102-000000-b-3333"
    assert home.find("20260101-000000-a-2").id == "20260101-000000-a-2222"
    with pytest.raises(RunNotFoundError) as caught:
        home.find("20260101")
    assert "20260101-000000-a-1111" in caught.value.message
    assert "20260101-000000-a-2222" in caught.value.message
    assert caught.value.exit_status == 2
    for name in ("nope", "", "../runs", "/", "."):
        with pytest.raises(RunNotFoundError, match="no run is named"):
            home.find(name)


def test_ids_sort_by_time_and_can_be_typed(home):
    run_id = home.new_id("ResNet 50/ü_x" + "y" * 100)
    stamp, time_of_day, rest = run_id.split("-", 2)
    assert (len(stamp), len(time_of_day)) == (8, 6)
    assert rest.startswith("resnet-50---x")
    assert len(run_id) < 70
    assert run_id.isascii()
    assert home.new_id("///").split("-")[2] == "run"
    assert len({home.new_id("a") for _ in range(50)}) > 45


def test_hundreds_of_runs_are_listed_without_looking_into_them(home, made):
    for number in range(300):
        made(f"20260101-000000-a-{number:04d}", float(number), ended=True)
    home.list()
    for summary in home.list():
        os.unlink(os.path.join(home.runs, summary.id, "events.jsonl"))
    assert {run.state for run in home.list()} == {"succeeded"}


def test_listing_imports_next_to_nothing(home, made):
    made("20260101-000000-a-1111", 1.0)
    home.list()
    code = (
        "import sys; before = set(sys.modules)\n"
        "from rankdeck_runs.home import RunHome\n"
        f"assert len(RunHome({home.path!r}).list()) == 1\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    imported = set(done.stdout.split())
    heavy = {
        "asyncio",
        "dataclasses",
        "typing",
        "pathlib",
        "datetime",
        "asyncssh",
        "msgspec",
        "inspect",
        "logging",
    }
    assert not imported & heavy
    assert "rankdeck_runs.summary" in imported
