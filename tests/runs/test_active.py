"""Active tests: who is tried with whom, what a result comes to, and real pairs on this machine."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys

import pytest

from preflight.recordings import recorded
from rankdeck_backends.preflight.finding import Verdict
from rankdeck_backends.preflight.judge import Report, judge
from rankdeck_profiles.model import PoolNode, Profile
from rankdeck_runs.active import ActiveTest, Measured, cost, disjoint, measure, slow_ones
from rankdeck_runs.active_findings import link_gbytes, with_measured

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


def verdict(measured, report=None):
    found = with_measured(report or Report(("n1", "n2"), ()), ActiveTest.TORCH, [measured])
    (finding,) = (each for each in found.findings if each.id == "bw.nccl-pair")
    return finding


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
    assert told == [(1, 1)]
    assert home.find(pair.run).summary().profile == "active-torch"
    assert home.find(pair.run).summary().state == "succeeded"


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
    assert "torch" in pair.problem
    assert verdict(pair).verdict is Verdict.FAIL
