"""After the start the world is counted: one that is not the plan's has failed at once, and says so."""

from __future__ import annotations

import os

from rankdeck_runs.causes import CauseKind
from rankdeck_runs.states import RankState, RunState
from runs.waiting import finished, launched

NVIDIA_SMI = """#!/bin/sh
case "$*" in
*uuid,memory.total*) for n in 0 1; do echo "$n, Test GPU, GPU-$n, 81559"; done ;;
*-lms*) exec sleep 600 ;;
--query-gpu=*)
    fields=$(echo "${1#--query-gpu=}" | tr , " ")
    for row in names 0 1; do
        line=
        for field in $fields; do
            case $row-$field in
            names-*) cell=$field ;;
            *-index) cell=$row ;;
            *-uuid) cell=GPU-$row ;;
            *-name) cell="Test GPU" ;;
            *) cell="[N/A]" ;;
            esac
            line="$line${line:+, }$cell"
        done
        echo "$line"
    done ;;
esac
"""


def test_a_leftover_that_puts_two_ranks_on_one_gpu(engine, program, pool, tmp_path, monkeypatch):
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "nvidia-smi").write_text(NVIDIA_SMI)
    (tools / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    profile = program("time.sleep(3600)\n", setup=("export CUDA_VISIBLE_DEVICES=0",))
    snapshot = finished(engine.attach(launched(engine, profile, pool)))
    assert snapshot.state is RunState.FAILED
    assert snapshot.cause.kind is CauseKind.START
    assert snapshot.cause.rank is None
    assert "would both use GPU 0: CUDA_VISIBLE_DEVICES=0 comes from the environment" in snapshot.cause.message
    assert RankState.RUNNING not in {rank.state for rank in snapshot.ranks}
    profile = program("", setup=("export CUDA_VISIBLE_DEVICES=0",), env={"CUDA_VISIBLE_DEVICES": "0"})
    assert finished(engine.attach(launched(engine, profile, pool))).state is RunState.SUCCEEDED
