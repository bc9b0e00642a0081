"""What is kept of a run: its logs, proven to be the nodes' own; and what goes when it is removed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rankdeck_runs import events
from rankdeck_runs.collection import CopyState
from rankdeck_runs.home import RunHome
from rankdeck_runs.removing import RemoveError
from runs.waiting import LIMIT, finished, launched, wait_for

PRINTS = "os.write(1, b'rank %d ' % RANK + bytes(range(256)) * 8); os.write(2, b'trouble\\n')\n"


@pytest.fixture
def mirrored(monkeypatch):
    """Nodes that do not share the record's file system: their logs are copied."""
    from rankdeck_runs import launching

    async def never(connection, path, token):
        return False

    monkeypatch.setattr(launching, "_is_shared", never)


@pytest.fixture
def done(mirrored, engine, home, program, pool):
    """The record of a run that was followed to its end."""
    run_id = launched(engine, program(PRINTS), pool)
    assert finished(engine.attach(run_id)).state == "succeeded"
    engine.detach(run_id)
    return home.find(run_id)


def node_folders(home: RunHome, run_id: str) -> list[Path]:
    return sorted(Path(home.path).parent.glob(f"node/runs/{run_id}/*"))


def expected(rank: int) -> bytes:
    return b"rank %d " % rank + bytes(range(256)) * 8


def test_a_run_that_has_ended_is_collected_and_verified(done) -> None:
    kept = done.kept(done.snapshot())
    assert [node.state for node in kept.nodes] == [CopyState.COLLECTED] * 2
    assert all(node.copy.verified and node.copy.files == 6 for node in kept.nodes)
    # The summary may just be written anew, by way of a file beside it.
    files = [path for path in done.path.rglob("*") if path.is_file() and not path.name.startswith("summary.")]
    assert kept.disk == sum(path.stat().st_size for path in files)
    summary = done.refresh_summary()
    assert (summary.logs, summary.lacks) == ("collected", None)
    assert summary.disk_bytes == kept.disk
    for event in events.read(done.events_path):
        if event["ev"] == "node_fetched":
            assert event["unverified"] == []
            assert all(len(sha256) == 64 for _, sha256 in event["files"].values())


def test_logs_of_a_shared_folder_need_no_copy(engine, home, program, pool) -> None:
    run_id = launched(engine, program(PRINTS), pool)
    finished(engine.attach(run_id))
    record = home.find(run_id)
    assert record.kept(record.snapshot()).state is CopyState.SHARED


def test_what_was_damaged_before_the_end_is_mended(mirrored, engine, home, program, pool, tmp_path) -> None:
    go = tmp_path / "go"
    wait = f"while not os.path.exists({str(go)!r}): time.sleep(0.02)\n"
    run_id = launched(engine, program(PRINTS + wait), pool)
    live = engine.attach(run_id)
    wait_for(live, lambda _: all(live.growth(rank, "out").size > 2000 for rank in range(4)), "all logs")
    path = home.find(run_id).log_path("rank-00001.out")
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"something else")
    go.touch()
    assert finished(live).state == "succeeded"
    assert path.read_bytes() == expected(1)
    assert home.find(run_id).kept(live.snapshot()).nodes[0].copy.verified


def test_bytes_that_no_node_has_are_kept_and_told(mirrored, engine, home, program, pool, tmp_path) -> None:
    go = tmp_path / "go"
    wait = f"while not os.path.exists({str(go)!r}): time.sleep(0.02)\n"
    run_id = launched(engine, program(PRINTS + wait), pool)
    live = engine.attach(run_id)
    wait_for(live, lambda _: all(live.growth(rank, "out").size > 2000 for rank in range(4)), "all logs")
    path = home.find(run_id).log_path("rank-00001.out")
    with path.open("ab") as file:
        file.write(b"more")
    go.touch()
    finished(live)
    (first, second) = home.find(run_id).kept(live.snapshot()).nodes
    assert (first.copy.verified, first.copy.unverified) == (False, ("1.out",))
    assert second.copy.verified
    assert path.read_bytes() == expected(1) + b"more"
    assert engine.clear_nodes(run_id).result(LIMIT).freed.keys() == {second.node}
    assert [folder.name for folder in node_folders(home, run_id)] == ["0"]


def test_logs_that_went_from_the_record_come_again(done, engine) -> None:
    path = done.log_path("rank-00002.out")
    path.unlink()
    done.log_path("rank-00003.out").write_bytes(expected(3)[:1000])
    kept = done.kept(done.snapshot())
    assert [node.state for node in kept.nodes] == [CopyState.COLLECTED, CopyState.LOST]
    assert kept.nodes[1].missing == len(expected(2)) + len(expected(3)) - 1000
    assert engine.collect(done.id).result(LIMIT).state is CopyState.COLLECTED
    for rank in (2, 3):
        assert done.log_path(f"rank-0000{rank}.out").read_bytes() == expected(rank)


def test_what_was_not_collected_is_told_with_the_reason(
    mirrored, engine, home, program, pool, tmp_path
) -> None:
    go = tmp_path / "go"
    wait = f"while not os.path.exists({str(go)!r}): time.sleep(0.02)\n"
    run_id = launched(engine, program(wait + PRINTS), pool)
    record = home.find(run_id)
    nodes = engine.sync(run_id, LIMIT).result(LIMIT)
    assert nodes
    kept = record.kept(record.snapshot())
    assert {node.state for node in kept.nodes} == {CopyState.MISSING}
    assert {node.missing for node in kept.nodes} == {None}
    assert record.refresh_summary().lacks is None, "it goes on: nothing is amiss"
    go.touch()
    wait_for(live := engine.attach(run_id), lambda snapshot: snapshot.complete, "complete")
    assert record.kept(live.snapshot()).lacks == ""


def test_a_nodes_folder_that_is_gone_is_a_loss_told_in_bytes(done, engine) -> None:
    lines = [json.loads(line) for line in done.events_path.read_text().splitlines()]
    kept_events = [event for event in lines if event["ev"] not in ("node_fetched", "complete")]
    done.events_path.write_text("".join(json.dumps(event) + "\n" for event in kept_events))
    done.log_path("rank-00000.out").unlink()
    done.log_path("rank-00000.err").unlink()
    lacks = done.kept(done.snapshot()).lacks
    assert lacks.startswith(f"{len(expected(0)) + 8:,} bytes missing on 127.0.0.1 (not asked since it ended)")
    import shutil

    shutil.rmtree(next(event["dir"] for event in lines if event["ev"] == "start_accepted"))
    kept = engine.collect(done.id).result(LIMIT)
    assert [node.state for node in kept.nodes] == [CopyState.LOST, CopyState.COLLECTED]
    assert f"{len(expected(0)) + 8:,} bytes lost with 127.0.0.1 (the run's folder" in kept.lacks


def test_a_nodes_copy_goes_when_all_is_verified(done, engine, home) -> None:
    assert len(node_folders(home, done.id)) == 2
    cleared = engine.clear_nodes(done.id).result(LIMIT)
    assert all(size > 2000 for size in cleared.freed.values())
    assert cleared.left == {}
    assert node_folders(home, done.id) == []
    kept = done.kept(done.snapshot())
    assert all(node.copy.cleared and node.state is CopyState.COLLECTED for node in kept.nodes)
    assert engine.clear_nodes(done.id).result(LIMIT).freed == {}, "nothing is left to be asked for"


def test_a_run_is_removed_with_its_folders_on_the_nodes(done, engine, home) -> None:
    assert len(engine.remove(done.id).result(LIMIT).freed) == 2
    assert not done.path.exists()
    assert os.listdir(home.runs) == []
    assert node_folders(home, done.id) == []


def test_a_run_that_goes_on_is_not_removed(mirrored, engine, home, program, pool) -> None:
    run_id = launched(engine, program("time.sleep(300)\n"), pool)
    with pytest.raises(RemoveError, match="not known to have ended"):
        engine.remove(run_id).result(LIMIT)
    assert home.find(run_id).path.exists()
    assert len(node_folders(home, run_id)) == 2


def test_a_node_that_still_has_processes_of_the_run_keeps_the_record(done, engine, home) -> None:
    """The record says that it has ended; the node knows better."""
    import subprocess

    folder = node_folders(home, done.id)[0]
    marks = {
        "RANKDECK_RUN_ID": done.id,
        "RANKDECK_NODE": f"{done.id}/0",
        "RANKDECK_RANK_DIR": os.path.realpath(folder),
    }
    left = subprocess.Popen(["sleep", "300"], env={**os.environ, **marks})
    try:
        with pytest.raises(RemoveError, match=f"process {left.pid} of the run is left"):
            engine.remove(done.id).result(LIMIT)
        assert done.path.exists()
        assert folder.exists()
    finally:
        left.kill()
        left.wait()
    engine.remove(done.id).result(LIMIT)
    assert not done.path.exists()
