"""Leaving a run and coming back: nothing is lost, nothing is doubled, whatever ended the one who followed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rankdeck_runs import events, follow, layout
from rankdeck_runs.causes import CauseKind
from rankdeck_runs.engine import Engine
from rankdeck_runs.live import LinkState, LiveRun
from rankdeck_runs.record import Record
from rankdeck_runs.runwriter import RunWriter
from rankdeck_runs.states import NodeState, RankState, RunState
from runs.waiting import LIMIT, finished, launched, wait_for

FOLLOWER = """
import sys, time
from pathlib import Path
from rankdeck_runs.engine import Engine
from rankdeck_runs.home import RunHome
live = Engine(RunHome(Path(sys.argv[1]))).attach(sys.argv[2])
seen = 0
while True:
    seen = live.wait(seen, 1.0)
    if all(live.growth(rank, "out").size > int(sys.argv[3]) for rank in range(4)):
        print("seen", flush=True)
        time.sleep(600)
"""
CHATTY = """
copy = open(f'copies/{RANK}', 'wb', buffering=0)
for step in range(%d):
    line = b'rank %%d step %%d ' %% (RANK, step) + os.urandom(20) + b'\\x1b[31m\\r\\n'
    os.write(1, line)
    copy.write(line)
    time.sleep(0.002)
"""


@pytest.fixture
def chatty(program, tmp_path):
    (tmp_path / "copies").mkdir()
    return lambda steps: program(CHATTY % steps)


def assert_whole(home, run_id, tmp_path):
    record = home.find(run_id)
    for rank in range(4):
        written = (tmp_path / "copies" / str(rank)).read_bytes()
        assert record.log_path(f"rank-{rank:05d}.out").read_bytes() == written
    seqs = {}
    for event in events.read(record.events_path):
        if "seq" in event:
            seqs.setdefault(event["node"], set()).add(event["seq"])
    assert all(found == set(range(1, len(found) + 1)) for found in seqs.values())


@pytest.fixture
def mirrored(monkeypatch):
    """Nodes that do not share the record's file system: their logs are copied."""
    from rankdeck_runs import launching

    async def never(connection, path, token):
        return False

    monkeypatch.setattr(launching, "_is_shared", never)


def follower_of(home, run_id, enough):
    process = subprocess.Popen(
        [sys.executable, "-c", FOLLOWER, home.path, run_id, str(enough)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    return process


def test_a_killed_follower_loses_nothing(mirrored, engine, home, chatty, pool, tmp_path):
    run_id = launched(engine, chatty(1500), pool)
    for enough in (2_000, 10_000):
        process = follower_of(home, run_id, enough)
        try:
            assert process.stdout.readline() == b"seen\n"
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(LIMIT)
            process.stdout.close()
    partial = home.find(run_id)
    assert partial.log(0, "out").size > 0
    snapshot = finished(engine.attach(run_id))
    assert snapshot.state is RunState.SUCCEEDED
    assert_whole(home, run_id, tmp_path)
    # The index of times comes along: its last line tells the sizes at the end.
    for rank in snapshot.ranks:
        told = home.find(run_id).log_path(f"rank-{rank.rank:05d}.times").read_text().split()[-2:]
        assert [int(size) for size in told] == [rank.out_bytes, rank.err_bytes]


def test_two_followers_at_once_do_no_harm(mirrored, engine, home, chatty, pool, tmp_path):
    run_id = launched(engine, chatty(500), pool)
    other = Engine(home)
    try:
        both = [engine.attach(run_id), other.attach(run_id)]
        snapshots = [finished(live) for live in both]
    finally:
        other.close()
    assert [snapshot.state for snapshot in snapshots] == [RunState.SUCCEEDED] * 2
    assert snapshots[0].ranks == snapshots[1].ranks
    assert_whole(home, run_id, tmp_path)


def sessions():
    """The agents' sessions: the children of this process."""
    return [
        int(child)
        for task in Path("/proc/self/task").iterdir()
        for child in (task / "children").read_text().split()
        if b"-S" in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
    ]


def test_a_lost_link_is_shown_and_made_again(mirrored, engine, home, chatty, pool, tmp_path):
    run_id = launched(engine, chatty(1500), pool)
    live = engine.attach(run_id)
    wait_for(live, lambda s: live.growth(0, "out").size > 1000, "some output")
    for pid in sessions():
        os.kill(pid, signal.SIGKILL)
    lost = wait_for(live, lambda s: any(node.state is NodeState.LOST for node in s.nodes), "a lost node")
    unreached = {node.name for node in lost.nodes if node.state is NodeState.LOST}
    assert {rank.node for rank in lost.ranks if rank.state is RankState.LOST} == unreached
    wait_for(
        live, lambda s: all(link.state is LinkState.CONNECTED for link in live.links.values()), "links again"
    )
    assert finished(live).state is RunState.SUCCEEDED
    assert_whole(home, run_id, tmp_path)
    kinds = [event["ev"] for event in events.read(home.find(run_id).events_path)]
    assert "link_lost" in kinds


def test_a_killed_supervisor_is_told_of(mirrored, engine, home, program, pool, tmp_path):
    run_id = launched(engine, program("while not os.path.exists('go'): time.sleep(0.05)\n"), pool)
    live = engine.attach(run_id)
    wait_for(live, lambda s: s.state is RunState.RUNNING, "a running run")
    node = pool.nodes[1].name
    path = home.find(run_id).events_path
    folder = next(e["dir"] for e in events.read(path) if e["ev"] == "start_accepted" and e["node"] == node)
    os.kill(json.loads(Path(folder, "supervisor.json").read_text())["pid"], signal.SIGKILL)
    told = wait_for(live, lambda s: any(s.notes), "a note")
    assert [note.partition(",")[0] for note in told.notes] == [f"{node}: its supervisor was gone (killed"]
    told = wait_for(live, lambda s: not any(node.unguarded for node in s.nodes), "another supervisor")
    assert all(node.message == "" for node in told.nodes)
    kinds = [event["ev"] for event in events.read(path) if event.get("node") == node]
    assert kinds.index("supervisor_gone") < kinds.index("supervisor_resumed")
    (tmp_path / "go").touch()
    assert finished(live).state is RunState.SUCCEEDED


def test_sync_brings_what_there_is_and_leaves(mirrored, engine, home, program, pool, tmp_path):
    source = (
        "print('x' * 300_000, flush=True)\nwhile not os.path.exists('go'): time.sleep(0.05)\nprint('end')\n"
    )
    run_id = launched(engine, program(source), pool)
    record = home.find(run_id)
    deadline = time.monotonic() + LIMIT
    while record.snapshot().state is not RunState.RUNNING and time.monotonic() < deadline:
        assert engine.sync(run_id).result(LIMIT)
    deadline = time.monotonic() + LIMIT
    while any(record.log(rank, "out").size < 300_001 for rank in range(4)) and time.monotonic() < deadline:
        assert engine.sync(run_id).result(LIMIT)
    assert [record.log(rank, "out").size for rank in range(4)] == [300_001] * 4
    assert record.snapshot().state is RunState.RUNNING
    assert home.list()[0].state == "running"
    (tmp_path / "go").touch()
    deadline = time.monotonic() + LIMIT
    while not record.snapshot().complete and time.monotonic() < deadline:
        assert engine.sync(run_id).result(LIMIT)
    assert record.snapshot().state is RunState.SUCCEEDED
    assert home.list()[0].state == "succeeded"
    assert record.log(3, "out").size == 300_005


def test_of_a_large_world_only_the_watched_ranks_are_followed(
    mirrored, engine, home, program, pool, monkeypatch, tmp_path
):
    monkeypatch.setattr(follow, "FOLLOWED_WHOLE", 2)
    source = (
        "print('hello', flush=True)\n"
        "while not os.path.exists('go'): time.sleep(0.05)\n"
        "sys.exit('fatal: told to' if RANK == 2 else 0)\n"
    )
    live = engine.attach(launched(engine, program(source), pool))
    record = home.find(live.run_id)
    wait_for(live, lambda s: all(live.growth(rank, "out").size == 6 for rank in range(4)), "all sizes")
    assert [record.log(rank, "out").size for rank in range(4)] == [0] * 4
    live.watch([1, 3])
    wait_for(live, lambda s: record.log(1, "out").size == record.log(3, "out").size == 6, "watched logs")
    assert record.log(0, "out").size == 0
    live.watch([0, 3])
    wait_for(live, lambda s: record.log(0, "out").size == 6, "a newly watched log")
    (tmp_path / "go").touch()
    snapshot = finished(live)
    assert snapshot.cause.message == "fatal: told to"
    assert [record.log(rank, "out").size for rank in range(4)] == [6] * 4


def test_the_times_of_ranks_come_at_once_where_they_are_wanted(
    mirrored, engine, home, program, pool, tmp_path
):
    source = "print('hello', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.05)\n"
    live = engine.attach(launched(engine, program(source), pool))
    record = home.find(live.run_id)
    wait_for(live, lambda s: all(record.log(rank, "out").size == 6 for rank in range(4)), "all logs")
    indexes = [record.log_path(layout.rank_log(rank, "times")) for rank in range(4)]
    assert not any(path.exists() for path in indexes)
    live.watch([0], timed=[1, 2])
    wait_for(live, lambda s: all(path.exists() and path.read_text() for path in indexes[1:3]), "times")
    assert indexes[1].read_text().split()[1] == "6"
    assert not indexes[0].exists()
    (tmp_path / "go").touch()
    assert finished(live).state is RunState.SUCCEEDED
    assert all(path.read_text() for path in indexes)


def test_leaving_ends_nothing(engine, home, program, pool):
    run_id = launched(engine, program("time.sleep(2)\nprint('done', flush=True)\n"), pool)
    live = engine.attach(run_id)
    wait_for(live, lambda s: s.state is RunState.RUNNING, "running")
    engine.detach(run_id)
    deadline = time.monotonic() + LIMIT
    while home.list()[0].state != "running" and time.monotonic() < deadline:
        time.sleep(0.05)  # written when the follower has left
    assert home.list()[0].state == "running"
    again = engine.attach(run_id)
    assert again is not live
    assert finished(again).state is RunState.SUCCEEDED


def test_a_complete_run_is_not_contacted_any_more(engine, home, program, pool):
    run_id = launched(engine, program(""), pool)
    finished(engine.attach(run_id))
    engine.detach(run_id)
    before = home.find(run_id).events_path.read_bytes()
    assert engine.attach(run_id).snapshot().complete
    assert engine.sync(run_id).result(LIMIT)
    assert home.find(run_id).events_path.read_bytes() == before


def rewrite_events(home, run_id, keep, age=0.0):
    """The record as a rankdeck would have left it that was killed earlier, so many seconds ago."""
    path = home.find(run_id).events_path
    kept = [event for event in events.read(path) if keep(event)]
    for event in kept:
        event["t"] -= age
    path.write_text("".join(json.dumps(event) + "\n" for event in kept))


def before_the_second_start(event):
    told = ("run_created", "start_asked", "start_accepted")
    return event["ev"] in told and event.get("node") != "127.0.0.2"


def test_a_run_is_found_whose_start_was_never_confirmed(engine, home, program, pool):
    run_id = launched(engine, program("print('x')\n"), pool)
    finished(engine.attach(run_id))
    engine.detach(run_id)
    rewrite_events(home, run_id, before_the_second_start)
    assert finished(engine.attach(run_id)).state is RunState.SUCCEEDED


def test_a_start_that_was_cut_short_fails_the_run_and_ends_the_rest(engine, home, program, pool, tmp_path):
    run_id = launched(engine, program("time.sleep(3600)\n"), pool)
    assert engine.stop(run_id, force=True).result(LIMIT).gone
    shutil.rmtree(tmp_path / "node" / "runs" / run_id / "1")
    rewrite_events(home, run_id, before_the_second_start, age=120.0)
    snapshot = finished(engine.attach(run_id))
    assert snapshot.state is RunState.FAILED
    assert (snapshot.cause.kind, snapshot.cause.node) == (CauseKind.NODE, "127.0.0.2")
    assert "cut short" in snapshot.cause.message


def test_a_node_that_lost_the_run_leaves_its_ranks_lost(engine, home, program, pool, tmp_path):
    run_id = launched(engine, program("print('x')\n"), pool)
    finished(engine.attach(run_id))
    engine.detach(run_id)
    rewrite_events(home, run_id, lambda e: "seq" not in e and e["ev"] not in ("complete", "node_fetched"))
    shutil.rmtree(tmp_path / "node" / "runs" / run_id)
    snapshot = finished(engine.attach(run_id))
    assert snapshot.state is RunState.UNKNOWN
    assert {node.state for node in snapshot.nodes} == {NodeState.UNKNOWN}
    assert "gone" in snapshot.nodes[0].message
    assert {str(rank.state) for rank in snapshot.ranks} == {"lost"}


def test_a_stop_by_another_rankdeck_is_told_as_a_stop(engine, home, program, pool):
    # Rank 1 ends by itself, badly, once its peers are gone: a follower of the stop, not a failure.
    source = (
        "if RANK != 1: time.sleep(3600)\n"
        "signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1.5), os._exit(9)))\n"
        "time.sleep(3600)\n"
    )
    run_id = launched(engine, program(source), pool)
    live = engine.attach(run_id)
    wait_for(live, lambda s: s.state is RunState.RUNNING, "running")
    other = Engine(home)
    try:
        assert other.stop(run_id).result(LIMIT).gone
    finally:
        other.close()
    snapshot = finished(live)
    assert snapshot.state is RunState.STOPPED
    assert snapshot.cause is None


def test_what_another_process_wrote_is_taken_in(home, plan):
    os.makedirs(os.path.join(home.runs, "r", "logs"))
    record = Record(os.path.join(home.runs, "r"))
    (record.path / "plan.json").write_text(json.dumps(plan))
    events.append(record.events_path, events.make("start_asked", node="n1"))
    fold, offset = record.fold_and_offset()
    live = LiveRun("r", record.path, fold)
    writer = RunWriter(record, live, offset)
    writer.own_event("note", message="ours")
    events.append(record.events_path, {"t": 5.0, "ev": "stop_asked", "why": "asked", "by": "another"})
    lost = {"t": 5.0, "ev": "link_lost", "node": "n1", "message": "theirs", "by": "another"}
    events.append(record.events_path, lost)
    with open(record.events_path, "ab") as file:
        file.write(b'{"ev":"note","message":"half wri')
    writer.absorb()
    writer.absorb()
    snapshot = live.snapshot()
    assert snapshot.state is RunState.STOPPING
    assert snapshot.notes == ("ours",)
    assert snapshot.nodes[0].state is NodeState.STARTING
    with open(record.events_path, "ab") as file:
        file.write(b'tten"}\n')
    writer.absorb()
    assert live.snapshot().notes == ("ours", "half written")
