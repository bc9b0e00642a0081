"""The rank program that other tests rest on."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("socket_ring.py")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_ranks(world: int, *args: str) -> list[tuple[int, bytes, bytes]]:
    """Runs all ranks here; (exit status, stdout, stderr) of each."""
    master = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(world)}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-S", str(SCRIPT), *args],
            env={**os.environ, **master, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for rank in range(world)
    ]
    results = []
    for rank in ranks:
        out, err = rank.communicate(timeout=60)
        results.append((rank.returncode, out, err))
    return results


def test_all_ranks_sum_and_say_so(tmp_path: Path) -> None:
    results = run_ranks(4, "--steps", "3", "--own-copy", str(tmp_path), "--bytes")
    for rank, (status, out, err) in enumerate(results):
        assert status == 0, err
        assert [line for line in out.split(b"\n") if line.startswith(b"step")] == [
            b"step 0 sum 6 rank %d" % rank,
            b"step 1 sum 10 rank %d" % rank,
            b"step 2 sum 14 rank %d" % rank,
        ]
        assert out.endswith(b"ring ok world=4 steps=3\n")
        assert b"\xff\xfe\x00" in out
        assert (tmp_path / f"rank-{rank:05d}.copy").read_bytes() == out


@pytest.mark.parametrize(("code", "status"), [("7", 7), (str(-signal.SIGKILL), -signal.SIGKILL)])
def test_a_failing_rank_takes_the_others_along(code: str, status: int) -> None:
    results = run_ranks(3, "--steps", "50", "--fail-rank", "1", "--fail-at", "2", f"--exit-code={code}")
    assert results[1][0] == status
    assert b"ValueError: told to fail at step 2" in results[1][2]
    assert results[0][0] == 1
    assert results[2][0] == 1
    assert re.search(rb"a peer has gone|ConnectionResetError|BrokenPipeError", results[0][2])
