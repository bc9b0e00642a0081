"""Real runs on this machine: two nodes, two ranks each, agents and all."""

from __future__ import annotations

import os
import shutil
import stat
import time
from dataclasses import replace

import pytest

from rankdeck_backends.base import NodeError, Step
from rankdeck_profiles.errors import ProfileError
from rankdeck_profiles.library import Library
from rankdeck_profiles.model import OnRankFailure, StopPolicy
from rankdeck_runs.causes import CauseKind
from rankdeck_runs.engine import Engine
from rankdeck_runs.errors import LaunchError, PrepareError
from rankdeck_runs.live import LinkState
from rankdeck_runs.states import NodeState, RankState, RunState
from runs.waiting import LIMIT, finished, launched, wait_for


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_run_that_succeeds(engine, home, ring, pool, tmp_path):
    said = []
    prepared = engine.prepare(ring("--own-copy", str(tmp_path / "copies")), pool, said.append).result(LIMIT)
    assert prepared.problems == ()
    assert prepared.plan.world_size == 4
    assert any("127.0.0.2" in line for line in said)
    live = engine.attach(engine.launch(prepared, said.append).result(LIMIT))
    snapshot = finished(live)
    assert snapshot.state is RunState.SUCCEEDED
    assert snapshot.exit_status == 0
    assert [rank.exit_code for rank in snapshot.ranks] == [0, 0, 0, 0]
    assert [node.state for node in snapshot.nodes] == [NodeState.SUCCEEDED] * 2
    assert {link.state for link in live.links.values()} == {LinkState.ENDED}
    record = home.find(live.run_id)
    for rank in snapshot.ranks:
        written = (tmp_path / "copies" / f"rank-{rank.rank:05d}.copy").read_bytes()
        assert b"ring ok world=4" in written
        assert record.log_path(f"rank-{rank.rank:05d}.out").read_bytes() == written
        assert rank.out_bytes == len(written)
    assert engine.attach(live.run_id) is live
    assert record.snapshot() == snapshot
    summary = home.list()[0]
    assert (summary.id, summary.state, summary.complete) == (live.run_id, "succeeded", True)


def test_a_record_is_private_and_whole(engine, home, ring, pool):
    finished(engine.attach(launched(engine, ring("--steps", "1"), pool)))
    record = home.find("last")
    for folder, _, names in os.walk(home.path):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        for name in names:
            assert stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) == 0o600, name
    for name in ("run.toml", "pool.toml", "plan.json", "facts.json", "findings.json", "events.jsonl", "logs"):
        assert (record.path / name).exists(), name
    assert record.plan()["world_size"] == 4
    assert set(record.facts()) == {"127.0.0.1", "127.0.0.2"}


def test_a_run_is_repeated_from_its_record(engine, home, ring, pool, tmp_path):
    first = launched(engine, ring("--steps", "2"), pool)
    finished(engine.attach(first))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    library = Library(tmp_path / "config", elsewhere)
    profile = library.profile(str(home.find(first).profile_path))
    again = launched(engine, profile, library.pool_for(profile))
    snapshot = finished(engine.attach(again))
    assert again != first
    assert snapshot.state is RunState.SUCCEEDED
    assert (snapshot.profile, snapshot.pool, snapshot.world_size) == ("ring", "two", 4)
    plans = [home.find(run).plan() for run in (first, again)]
    ours = [[p["argv"] for node in plan["nodes"] for p in node["processes"]] for plan in plans]
    assert ours[0] == ours[1]


def test_a_failing_rank_is_named_and_the_others_are_stopped(engine, ring, pool):
    live = engine.attach(
        launched(
            engine, ring("--steps", "10000", "--sleep", "0.02", "--fail-rank", "3", "--fail-at", "5"), pool
        )
    )
    snapshot = finished(live)
    assert snapshot.state is RunState.FAILED
    assert snapshot.exit_status == 1
    cause = snapshot.cause
    assert (cause.rank, cause.node, cause.kind) == (3, "127.0.0.2", CauseKind.EXIT)
    assert cause.message == "ValueError: told to fail at step 5"
    assert snapshot.ranks[3].exit_code == 7
    assert snapshot.ranks[3].state is RankState.FAILED
    assert not any(alive(rank.pid) for rank in snapshot.ranks)


def test_ranks_of_other_nodes_that_would_wait_for_ever_are_stopped(engine, program, pool):
    source = "if RANK == 1: time.sleep(0.5); sys.exit('fatal: bad shard')\ntime.sleep(3600)\n"
    snapshot = finished(engine.attach(launched(engine, program(source), pool)))
    assert snapshot.cause.rank == 1
    assert snapshot.cause.message == "fatal: bad shard"
    assert [rank.state for rank in snapshot.ranks] == [
        RankState.STOPPED,
        RankState.FAILED,
        RankState.STOPPED,
        RankState.STOPPED,
    ]


def test_with_keep_the_others_go_on(engine, program, pool):
    source = "if RANK == 0: sys.exit(3)\ntime.sleep(1)\n"
    policy = StopPolicy(on_rank_failure=OnRankFailure.KEEP)
    snapshot = finished(engine.attach(launched(engine, program(source, stop=policy), pool)))
    assert snapshot.state is RunState.FAILED
    assert [rank.exit_code for rank in snapshot.ranks] == [3, 0, 0, 0]


def test_a_rank_ended_by_a_signal(engine, program, pool):
    source = "if RANK == 2: os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(3600)\n"
    snapshot = finished(engine.attach(launched(engine, program(source), pool)))
    rank = snapshot.ranks[2]
    assert (rank.exit_code, rank.signal) == (None, "KILL")
    assert (snapshot.cause.rank, snapshot.cause.kind) == (2, CauseKind.SIGNAL)


def test_stop_ends_everything_and_says_so(engine, home, program, pool):
    live = engine.attach(launched(engine, program("print('up', flush=True)\ntime.sleep(3600)\n"), pool))
    running = wait_for(live, lambda s: s.state is RunState.RUNNING, "running")
    result = engine.stop(live.run_id).result(LIMIT)
    assert result.gone
    assert result.left == result.unreached == ()
    assert not any(alive(rank.pid) for rank in running.ranks)
    snapshot = live.snapshot()
    assert snapshot.complete
    assert snapshot.state is RunState.STOPPED
    assert snapshot.cause is None
    assert home.list()[0].state == "stopped"
    assert engine.stop(live.run_id).result(LIMIT).gone


def test_stop_without_following_leaves_a_whole_record(home, engine, program, pool):
    run_id = launched(engine, program("print('up', flush=True)\ntime.sleep(3600)\n"), pool)
    other = Engine(home)
    try:
        assert other.stop(run_id, force=True).result(LIMIT).gone
        snapshot = home.find(run_id).snapshot()
    finally:
        other.close()
    assert snapshot.state is RunState.STOPPED
    assert snapshot.complete


@pytest.mark.parametrize("force", [False, True])
def test_ranks_whose_folder_a_cleaner_took_are_ended(engine, home, program, pool, tmp_path, force):
    live = engine.attach(launched(engine, program("print('up', flush=True)\ntime.sleep(3600)\n"), pool))
    running = wait_for(live, lambda s: s.state is RunState.RUNNING, "running")
    shutil.rmtree(tmp_path / "node" / "runs" / live.run_id / "1")
    other = Engine(home)
    try:
        other.sync(live.run_id).result(LIMIT)
        assert any(alive(rank.pid) for rank in running.ranks[2:])
        assert other.stop(live.run_id, force=force).result(LIMIT).gone
    finally:
        other.close()
    assert not any(alive(rank.pid) for rank in running.ranks)


def test_what_ignores_the_signal_is_killed_after_the_grace(engine, program, pool):
    source = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up', flush=True)\ntime.sleep(3600)\n"
    live = engine.attach(launched(engine, program(source), pool))
    wait_for(live, lambda s: all(live.growth(r, "out").size for r in range(4)), "all up")
    progress = []
    assert engine.stop(live.run_id, grace=1.5, progress=progress.append).result(LIMIT).gone
    assert {rank.signal for rank in live.snapshot().ranks} == {"KILL"}
    assert {step.node for step in progress} == {"127.0.0.1", "127.0.0.2"}
    assert any(rank is not None for step in progress for rank, _ in step.left)


def test_a_script_that_is_missing(engine, home, ring, pool):
    profile = ring(script="nowhere/train.py")
    with pytest.raises(PrepareError) as caught:
        engine.prepare(profile, pool).result(LIMIT)
    error = caught.value
    assert error.exit_status == 2
    assert {node for node, _ in error.problems} == {"127.0.0.1", "127.0.0.2"}
    assert "nowhere/train.py" in error.message
    assert "script" in error.message
    assert (error.plan.world_size, error.plan.assumed) == (4, ())
    assert home.list() == []
    prepared = engine.prepare(profile, pool, skip_checks=True).result(LIMIT)
    assert len(prepared.problems) == 2


def test_a_script_that_is_missing_on_one_node(engine, ring, pool, monkeypatch):
    from rankdeck_runs import preparing

    real = preparing.plan

    def moved_on_the_second(*args):
        # Local nodes share their files, so the second one is asked for another path.
        made = real(*args)
        needs = tuple(
            replace(need, value="/moved" + need.value) if need.why == "script" else need
            for need in made.nodes[1].needs
        )
        return replace(made, nodes=(made.nodes[0], replace(made.nodes[1], needs=needs)))

    monkeypatch.setattr(preparing, "plan", moved_on_the_second)
    with pytest.raises(PrepareError, match=r"127\.0\.0\.2: .*/moved/") as caught:
        engine.prepare(ring(), pool).result(LIMIT)
    assert [node for node, _ in caught.value.problems] == ["127.0.0.2"]


def test_one_node_that_refuses_the_start_stops_the_others(engine, home, program, pool, monkeypatch):
    from rankdeck_runs import launching

    real = launching.node_plan

    def broken_on_the_second(plan, node, run_id, log_dir, gpus):
        made = real(plan, node, run_id, log_dir, gpus)
        if node.node_rank == 1:
            made["processes"][0]["ranks"] = [2, 3]  # the agent refuses: no launcher, so it is one rank
        return made

    monkeypatch.setattr(launching, "node_plan", broken_on_the_second)
    prepared = engine.prepare(program("time.sleep(3600)\n"), pool).result(LIMIT)
    with pytest.raises(LaunchError, match=r"127\.0\.0\.2.*one rank") as caught:
        engine.launch(prepared).result(LIMIT)
    assert caught.value.exit_status == 1
    assert engine.sync(caught.value.run_id).result(LIMIT)
    snapshot = home.find(caught.value.run_id).snapshot()
    assert snapshot.state is RunState.FAILED
    assert snapshot.complete
    assert [node.state for node in snapshot.nodes] == [NodeState.STOPPED, NodeState.FAILED]
    assert (snapshot.cause.kind, snapshot.cause.node) == (CauseKind.NODE, "127.0.0.2")
    assert not any(alive(rank.pid) for rank in snapshot.ranks if rank.pid)


@pytest.mark.parametrize(
    ("lost", "messages"),
    [
        ("127.0.0.1", ["torn", "not asked to start, as 127.0.0.1 was not started"]),
        ("127.0.0.2", ["", "torn"]),
    ],
)
def test_a_node_that_was_never_asked_to_start_says_why(
    engine, home, program, pool, monkeypatch, lost, messages
):
    from rankdeck_runs import launching

    real = launching._is_shared

    async def torn_before_the_start(connection, path, token):
        if connection.node == lost:
            raise NodeError(lost, Step.LOST, "torn", "")
        return await real(connection, path, token)

    monkeypatch.setattr(launching, "_is_shared", torn_before_the_start)
    prepared = engine.prepare(program("time.sleep(3600)\n"), pool).result(LIMIT)
    with pytest.raises(LaunchError, match="torn") as caught:
        engine.launch(prepared).result(LIMIT)
    assert engine.sync(caught.value.run_id).result(LIMIT)
    snapshot = home.find(caught.value.run_id).snapshot()
    assert (snapshot.state, snapshot.complete) == (RunState.FAILED, True)
    assert (snapshot.cause.kind, snapshot.cause.node, snapshot.cause.message) == (
        CauseKind.NODE,
        lost,
        "torn",
    )
    assert [node.message for node in snapshot.nodes] == messages
    never = {rank.state for rank in snapshot.ranks if rank.node == "127.0.0.2"}
    assert never == {RankState.FAILED}


def test_a_program_that_cannot_be_started(engine, home, program, pool):
    profile = replace(program("", framework="command"), script=None, command=("./not-there",))
    prepared = engine.prepare(profile, pool, skip_checks=True).result(LIMIT)
    assert prepared.problems
    snapshot = finished(engine.attach(engine.launch(prepared).result(LIMIT)))
    assert snapshot.state is RunState.FAILED
    assert snapshot.cause.kind is CauseKind.START
    assert "not-there" in snapshot.cause.message


def test_a_failing_setup_line(engine, program, pool):
    profile = program("", setup=("echo looking", "false"))
    with pytest.raises(PrepareError, match="false"):
        engine.prepare(profile, pool).result(LIMIT)


def test_hostile_bytes_arrive_as_they_were_written(engine, home, ring, pool, tmp_path):
    live = engine.attach(
        launched(engine, ring("--bytes", "--own-copy", str(tmp_path / "copies"), "--steps", "20"), pool)
    )
    assert finished(live).state is RunState.SUCCEEDED
    for rank in range(4):
        written = (tmp_path / "copies" / f"rank-{rank:05d}.copy").read_bytes()
        assert b"\x1b]0;" in written
        assert home.find(live.run_id).log_path(f"rank-{rank:05d}.out").read_bytes() == written


def test_values_from_the_shell_reach_the_ranks_and_no_file(
    engine, home, program, pool, monkeypatch, tmp_path
):
    monkeypatch.setenv("MY_API_KEY", "s3cr3t-value-4711")
    profile = program(
        "open(f'got-{RANK}', 'w').write(os.environ['MY_API_KEY'][::-1])\n", env_from=("MY_API_KEY",)
    )
    assert finished(engine.attach(launched(engine, profile, pool))).state is RunState.SUCCEEDED
    assert (tmp_path / "got-3").read_text() == "s3cr3t-value-4711"[::-1]
    for folder, _, names in os.walk(tmp_path):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                assert b"s3cr3t-value-4711" not in file.read(), name


def test_a_missing_value_from_the_shell_is_named(engine, home, program, pool, monkeypatch):
    monkeypatch.delenv("NOT_SET_HERE", raising=False)
    prepared = engine.prepare(program("", env_from=("NOT_SET_HERE",)), pool).result(LIMIT)
    with pytest.raises(ProfileError, match="NOT_SET_HERE"):
        engine.launch(prepared).result(LIMIT)
    assert home.list() == []


def test_a_launchers_output_is_in_the_record(engine, home, program, pool):
    pytest.importorskip("torch")
    profile = replace(program("print('rank', RANK, 'of', os.environ['WORLD_SIZE'])\n"), framework="torchrun")
    snapshot = finished(engine.attach(launched(engine, profile, pool)))
    assert snapshot.state is RunState.SUCCEEDED
    assert [launcher.exit_code for launcher in snapshot.launchers] == [0, 0]
    record = home.find("last")
    for rank in range(4):
        assert record.log_path(f"rank-{rank:05d}.out").read_bytes() == b"rank %d of 4\n" % rank
    names = {path.name for path in record.logs_path.iterdir()}
    assert {launcher.node for launcher in snapshot.launchers} == {"127.0.0.1", "127.0.0.2"}
    assert all(name.startswith(("rank-", "node-")) for name in names)


def test_samples_and_growth_are_seen_while_it_runs(engine, program, pool):
    live = engine.attach(launched(engine, program("print('up', flush=True)\ntime.sleep(3600)\n"), pool))
    wait_for(live, lambda s: len(live.samples) == 2, "a sample of each node")
    sample = live.samples["127.0.0.1"]
    assert sample["mem_total_mib"] > 0
    assert live.history("127.0.0.1")[-1] == live.samples["127.0.0.1"]
    wait_for(live, lambda s: live.growth(3, "out").size == 3, "rank 3's line")
    assert abs(live.growth(3, "out").grown - time.time()) < LIMIT


def test_a_snapshot_is_the_same_object_until_it_changes(engine, program, pool):
    live = engine.attach(launched(engine, program("time.sleep(3600)\n"), pool))
    wait_for(live, lambda s: s.state is RunState.RUNNING, "running")
    one = live.snapshot()
    wait_for(live, lambda s: len(live.samples) == 2, "samples")
    assert live.snapshot() is one
    version = live.version
    assert live.wait(version - 1, LIMIT) >= version
