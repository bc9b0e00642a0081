"""`rankdeck gpus RUN --watch`: what a run's GPUs are doing, until it ends."""

from __future__ import annotations

import json
import os

import pytest

from cli.user import Shell

SMI = """#!/bin/sh
# As nvidia-smi answers of one GPU whose use grows from line to line.
case "$*" in
*query-compute-apps*) while :; do echo "GPU-a, 4711"; sleep 0.5; done ;;
*loop-ms*) n=10; while :; do
  echo "0, GPU-a, NVIDIA H100 80GB HBM3, $n, 1024, 81559, 41, 250.5"
  n=$((n + 1)); sleep 0.5; done ;;
*) echo "0, NVIDIA H100 80GB HBM3, GPU-a, 81559" ;;
esac
"""


@pytest.fixture
def with_gpu(rankdeck: Shell) -> Shell:
    """A user whose nodes have one GPU each, and a profile that waits for the file `go`."""
    path = rankdeck.write("bin/nvidia-smi", SMI)
    path.chmod(0o755)
    rankdeck.environment["PATH"] = f"{path.parent}:{os.environ['PATH']}"
    rankdeck.save_pool()
    rankdeck.save_profile("waits", "until=go")
    return rankdeck


def test_watching_goes_on_until_the_run_ends(with_gpu: Shell) -> None:
    run = with_gpu.json("run", "waits", "--detach", "--skip-checks")["id"]
    process = with_gpu.start("gpus", run, "--watch", "--json")
    assert process.stdout is not None
    seen: list[int] = []
    while len(set(seen)) < 3:
        rows = json.loads(process.stdout.readline())
        assert {row["name"] for row in rows} <= {"NVIDIA H100 80GB HBM3"}
        seen += [row["util"] for row in rows]
    (with_gpu.folder / "go").touch()
    out, err = process.communicate(timeout=90)
    assert process.returncode == 0
    assert all(json.loads(line) is not None for line in out.splitlines())
    assert f"run {run} succeeded" in err
    assert "has ended (succeeded)" in with_gpu("gpus", run, "--watch", status=2).stderr


def test_watching_a_pool_is_refused(rankdeck: Shell) -> None:
    assert "--watch needs a run" in rankdeck("gpus", "--watch", status=2).stderr
