"""A tool that is slow on one node: a launch does without its answer, a check waits for it."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import pytest

from rankdeck_backends.preflight.finding import Verdict
from rankdeck_profiles.readings import CommandReading, Readings
from rankdeck_runs.looking import LAUNCH_PATIENCE
from rankdeck_runs.probing import gpus_of
from runs.test_census import NVIDIA_SMI
from runs.waiting import LIMIT, finished


@pytest.fixture
def nvidia_smi(tmp_path, monkeypatch):
    """Puts an nvidia-smi in front that answers after so many seconds."""

    def put(seconds):
        tools = tmp_path / "tools"
        tools.mkdir(exist_ok=True)
        slow = f"#!/bin/sh\ntrap '' TERM HUP INT\nsleep {seconds}\n"
        (tools / "nvidia-smi").write_text(slow + NVIDIA_SMI)
        (tools / "nvidia-smi").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")

    return put


def told(report, check):
    (finding,) = {(each.verdict, each.message) for each in report.findings if each.id == check and each.node}
    return finding


def test_a_launch_waits_only_so_long_for_a_hung_nvidia_smi(engine, program, pool, nvidia_smi):
    nvidia_smi(600)
    profile = replace(program("print('ran')\n"), procs_per_node=1)
    began = time.monotonic()
    said = []
    prepared = engine.prepare(profile, pool, said.append).result(LIMIT)
    assert "127.0.0.1: no answer within 5 s from nvidia-smi; `rankdeck check` waits longer" in said
    assert LAUNCH_PATIENCE <= time.monotonic() - began < 18  # 20 is what a check waits
    assert prepared.problems == ()
    verdict, message = told(prepared.report, "gpu.driver")
    assert verdict is Verdict.WARN
    assert "no answer within the 5 s that a launch waits" in message
    assert told(prepared.report, "gpu.lost")[0] is Verdict.SKIP
    assert finished(engine.attach(engine.launch(prepared).result(LIMIT))).state == "succeeded"


def test_gpus_that_take_longer_than_the_probe_waits_get_their_ranks(engine, program, pool, nvidia_smi):
    nvidia_smi(2)
    prepared = engine.prepare(program("\n"), replace(pool, slots=None)).result(LIMIT)
    assert [len(node.ranks) for node in prepared.plan.nodes] == [2, 2]
    assert [gpu.name for gpu in prepared.facts["127.0.0.1"].gpus] == ["Test GPU"] * 2
    assert [gpu.uuid for gpu in prepared.facts["127.0.0.1"].gpus] == ["GPU-0", "GPU-1"]


def test_odd_rows_are_no_gpus():
    said = "index, uuid, name, memory.total [MiB]\nx, GPU-1, Test, 1 MiB\n²,,,\n1, GPU-1, Test, [N/A]\n"
    query = CommandReading(
        ("nvidia-smi", "--query-gpu=index,uuid,name,memory.total", "--format=csv"), 0, said
    )
    (gpu,) = gpus_of(Readings(commands=(query,)))
    assert (gpu.index, gpu.uuid, gpu.memory_mib) == (1, "GPU-1", None)
