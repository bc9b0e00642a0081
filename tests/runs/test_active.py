"""Active tests: who is tried with whom, what a result comes to, and real pairs on this machine."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from preflight.recordings import recorded
from rankdeck_backends.preflight.finding import Verdict
from rankdeck_backends.preflight.judge import Report, judge
from rankdeck_profiles.model import BackendKind, Pool, PoolNode, Profile
from rankdeck_runs.active import (
    ActiveError,
    ActiveTest,
    Measured,
    cost,
    disjoint,
    measure,
    senders,
    slow_ones,
    without_result,
)
from rankdeck_runs.active_findings import findings_of, link_gbytes, not_tried, with_measured
from rankdeck_runs.checking import Checked
from rankdeck_runs.engine import Engine
from rankdeck_runs.live import LinkState, LinkStatus

PAIR = ("n1", "n2")


def nodes(count):
    return tuple(PoolNode(f"n{number}", f"n{number}") for number in range(count))


@pytest.mark.parametrize("count", [2, 3, 4, 7, 64])
def test_every_node_is_in_a_pair(count):
    pairs = disjoint(nodes(count))
    assert len(pairs) == (count + 1) // 2
    assert {node.name for pair in pairs for node in pair} == {node.name for node in nodes(count)}
    assert all(one.name != other.name for one, other in pairs)


def test_the_cost_is_said():
    assert "32 pairs of nodes, up to 16 at once" in cost(ActiveTest.TORCH, 32)
    assert "GPU" in cost(ActiveTest.TORCH, 1)
    assert "GPU" not in cost(ActiveTest.MPI, 1)


def test_a_pair_is_compared_with_the_others():
    found = [Measured((f"a{n}", f"b{n}"), "r", 46.0 + n / 10) for n in range(5)]
    assert slow_ones(found) == {}
    slow = Measured(PAIR, "r", 23.0)
    assert list(slow_ones([*found, slow])) == [PAIR]
    assert slow_ones([found[0], slow]) == {}


def checked(report=None):
    return Checked(report or Report(("n1", "n2"), ()), {})


def verdict(measured, report=None):
    found = with_measured(checked(report), ActiveTest.TORCH, [measured])
    (finding,) = findings_of(found, ActiveTest.TORCH)
    assert finding.id == "bw.nccl-pair"
    return finding


def test_pairs_are_told_apart_and_a_later_test_takes_an_earlier_one_s_place():
    pairs = [Measured(("n1", "n2"), "r1", 2.0, "gloo"), Measured(("n3", "n4"), "r2", problem="it hung")]
    found = with_measured(checked(), ActiveTest.TORCH, pairs)
    found = with_measured(found, ActiveTest.MPI, [Measured(("n1", "n2"), "r3", 1.0)])
    told = json.loads(json.dumps(found.to_json()))
    assert [(each["id"], each["pair"], each["gbytes_per_s"], each["run"]) for each in told["active"]] == [
        ("bw.nccl-pair", ["n1", "n2"], 2.0, "r1"),
        ("bw.nccl-pair", ["n3", "n4"], None, "r2"),
        ("bw.mpi-pair", ["n1", "n2"], 1.0, "r3"),
    ]
    assert [(each["id"], each["nodes"], each["verdict"]) for each in told["pool_findings"]] == [
        ("bw.nccl-pair", ["n1", "n2"], "pass"),
        ("bw.nccl-pair", ["n3", "n4"], "fail"),
        ("bw.mpi-pair", ["n1", "n2"], "pass"),
    ]
    again = with_measured(found, ActiveTest.TORCH, pairs[:1])
    assert len(again.measured) == 2
    assert [each.id for each in again.report.findings] == ["bw.mpi-pair", "bw.nccl-pair"]


def test_who_sends():
    pool = Pool("p", BackendKind.SSH, nodes(4))
    profile = Profile(name="b", framework="mpi", script="x.py", nodes=2)
    assert senders(None, pool, ()).nodes == pool.nodes
    assert senders(profile, pool, ()).nodes == pool.nodes[:2]
    with pytest.raises(ActiveError, match="takes two"):
        senders(replace(profile, nodes=1), pool, ())
    with pytest.raises(ActiveError, match="n2 could not be reached"):
        senders(None, pool, ("n2",))


def fabric():
    return judge({"n1": recorded("ndr-ok-a"), "n2": recorded("ndr-ok-b")})


def test_what_a_result_comes_to():
    assert link_gbytes(fabric().variables, PAIR) == 50.0
    fine = verdict(Measured(PAIR, "r1", 47.0, "NCCL InfiniBand mlx5_0, GPU direct"), fabric())
    assert fine.verdict is Verdict.PASS
    assert "47.00 GB/s over NCCL InfiniBand mlx5_0, GPU direct; a port carries 50 GB/s" in fine.message
    slow = verdict(Measured(PAIR, "r1", 20.0, "NCCL InfiniBand mlx5_0"), fabric())
    assert slow.verdict is Verdict.WARN
    sockets = verdict(Measured(PAIR, "r1", 3.0, "NCCL sockets over eno1", "InfiniBand is not used"), fabric())
    assert sockets.verdict is Verdict.FAIL
    assert sockets.nodes == PAIR
    assert sockets.stops
    silent = verdict(Measured(PAIR, "r1", None, problem="no result within 60 s"))
    assert silent.verdict is Verdict.FAIL
    assert silent.fix == "see `rankdeck logs r1`"
    assert verdict(Measured(PAIR, "r1", 1.2, "sockets")).verdict is Verdict.PASS
    gloo = verdict(Measured(PAIR, "r1", 1.2, "sockets (gloo has TCP alone)"), fabric())
    assert gloo.verdict is Verdict.PASS  # what RDMA carries is no measure for TCP
    assert "a port carries" not in gloo.message


@pytest.mark.torch
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_real_torch(engine, home, pool):
    told = []
    found = measure(
        engine, ActiveTest.TORCH, pool, python=sys.executable, progress=lambda *each: told.append(each)
    )
    (pair,) = found
    assert pair.problem == ""
    assert pair.gbytes_per_s > 0
    assert "sockets" in pair.transport
    assert told == [(0, 1), (1, 1)]
    assert home.find(pair.run).summary().profile == "active-torch"
    assert home.find(pair.run).summary().state == "succeeded"
    assert home.list() == []  # the user's own alone
    assert [each.id for each in home.list(active_tests=True)] == [pair.run]


@pytest.mark.skipif(
    shutil.which("mpirun") is None or importlib.util.find_spec("mpi4py") is None,
    reason="needs mpirun and mpi4py",
)
def test_real_mpi(engine, pool, tmp_path):
    options = {"allow_root": True} if os.geteuid() == 0 else {}
    base = Profile(name="b", framework="mpi", script="x.py", workdir=str(tmp_path), options=options)
    (pair,) = measure(engine, ActiveTest.MPI, pool, base=base, python=sys.executable)
    assert pair.problem == ""
    assert pair.gbytes_per_s > 0


def test_a_python_without_torch_is_the_problem(engine, pool, tmp_path):
    fake = tmp_path / "python3"
    fake.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    fake.chmod(0o755)
    (pair,) = measure(engine, ActiveTest.TORCH, pool, python=str(fake))
    assert pair.gbytes_per_s is None
    assert pair.problem == "No module named 'torch'"
    told = verdict(pair)
    assert told.verdict is Verdict.SKIP  # nothing is known of the network
    assert "not tried: No module named 'torch' (name a Python of the nodes that has it" in told.message


def test_what_a_run_was_refused_for_is_told_with_what_to_do(engine, pool):
    (pair,) = measure(engine, ActiveTest.TORCH, replace(pool, interface="nosuch0"), python=sys.executable)
    assert (pair.run, pair.tried) == ("", False)
    assert "nosuch0" in pair.problem
    assert pair.hint
    assert verdict(pair).verdict is Verdict.SKIP


def test_a_run_that_can_t_be_recorded_says_nothing_of_the_network(engine, home, pool):
    os.makedirs(home.path, exist_ok=True)
    Path(home.runs).write_text("no folder")
    (pair,) = measure(engine, ActiveTest.TORCH, pool, python=sys.executable)
    Path(home.runs).unlink()
    assert (pair.run, pair.tried) == ("", False)
    assert "can't be recorded" in pair.problem
    assert "RANKDECK_HOME" in pair.hint
    assert verdict(pair).verdict is Verdict.SKIP


def test_one_reason_of_many_pairs_is_told_once():
    pairs = [Measured((f"a{n}", f"b{n}"), problem="no x", hint="y", tried=False) for n in range(3)]
    assert not_tried([*pairs, Measured(PAIR, "r", 1.0)]) == {"no x (y)": ["a0", "b0", "a1", "b1", "a2", "b2"]}


def test_a_node_that_was_lost_meanwhile_is_said():
    links = {
        "n1": LinkStatus(LinkState.CONNECTED, 0.0),
        "n2": LinkStatus(LinkState.LOST, 1.0, "nothing came for 25 s"),
    }
    told = verdict(without_result(PAIR, "r1", links))
    assert told.verdict is Verdict.FAIL
    assert "n2 was lost meanwhile (nothing came for 25 s): no result within 60 s" in told.message
    assert told.fix.startswith("see that the node is up")
    assert "lost" not in verdict(without_result(PAIR, "r1", {})).message


def test_it_can_be_called_off(engine, home, pool, tmp_path):
    """The run of a pair whose ranks say nothing is stopped at once, not after a minute."""
    fake = tmp_path / "python3"
    fake.write_text("#!/bin/sh\nexec sleep 600\n")
    fake.chmod(0o755)
    off = threading.Event()
    found = []
    thread = threading.Thread(
        target=lambda: found.extend(measure(engine, ActiveTest.TORCH, pool, python=str(fake), called_off=off))
    )
    thread.start()
    deadline = time.monotonic() + 60
    while (
        not [each for each in home.list(active_tests=True) if each.state == "running"]
        and time.monotonic() < deadline
    ):
        time.sleep(0.1)
    off.set()
    thread.join(60)
    assert [each.problem for each in found] == ["it was called off"]
    (run,) = home.list(active_tests=True)
    assert run.state == "stopped"
    (later,) = measure(engine, ActiveTest.TORCH, pool, python=str(fake), called_off=off)
    assert (later.problem, later.run) == ("it was called off", "")


@pytest.mark.parametrize("begun", [False, True])
def test_an_engine_that_is_closed_meanwhile_calls_it_off(home, pool, tmp_path, begun):
    fake = tmp_path / "python3"
    fake.write_text("#!/bin/sh\nexec sleep 60\n")
    fake.chmod(0o755)
    engine, off, found = Engine(home), threading.Event(), []
    thread = threading.Thread(
        target=lambda: found.extend(measure(engine, ActiveTest.TORCH, pool, python=str(fake), called_off=off))
    )
    thread.start()
    deadline = time.monotonic() + 60
    while (
        begun
        and "running" not in [each.state for each in home.list(active_tests=True)]
        and time.monotonic() < deadline
    ):
        time.sleep(0.1)
    off.set()
    engine.close()
    thread.join(60)
    assert [(each.problem, each.tried) for each in found] == [("it was called off", False)]
