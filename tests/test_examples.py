"""The scripts that users begin with."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(script: str, *args: str, **environment: str) -> subprocess.Popen[bytes]:
    env = {
        name: value for name, value in os.environ.items() if name not in {"RANK", "WORLD_SIZE", "LOCAL_RANK"}
    }
    return subprocess.Popen(
        [sys.executable, str(EXAMPLES / script), *args],
        env={**env, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_hello_says_who_it_is() -> None:
    out, err = start("hello.py", "a b", RANK="3", WORLD_SIZE="8", MASTER_ADDR="n1").communicate(timeout=60)
    assert out.startswith(b"hello from rank 3 of 8 on ")
    assert b"arguments ['a b']" in out
    assert b"MASTER_ADDR=n1\n" in out
    assert err == b""


def test_hello_without_a_launcher_fails() -> None:
    process = start("hello.py")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert b"RANK or WORLD_SIZE is not set" in err


@pytest.mark.torch
@pytest.mark.timeout(300)
def test_ddp_trains_and_checks_itself(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs torch (pip install 'rankdeck[torch]')")
    master = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    arguments = ["--steps", "30", "--step-sleep", "0", "--own-copy", str(tmp_path)]
    ranks = [start("ddp.py", *arguments, **master, RANK=str(rank), LOCAL_RANK=str(rank)) for rank in range(2)]
    last_lines = []
    for number, rank in enumerate(ranks):
        out, err = rank.communicate(timeout=240)
        assert rank.returncode == 0, err
        assert (tmp_path / f"rank-{number:05d}.copy").read_bytes() == out
        lines = out.decode().splitlines()
        assert re.fullmatch(r"epoch 1 step 29 loss \d\.\d{4} samples/s \d+\.\d", lines[-2])
        last_lines.append(lines[-1])
    found = re.fullmatch(
        r"rankdeck-demo ok world=2 first_loss=(\S+) last_loss=(\S+) checksum=[0-9a-f]{16}", last_lines[0]
    )
    assert found
    assert float(found[2]) < float(found[1])
    assert last_lines[0] == last_lines[1]


@pytest.mark.torch
@pytest.mark.timeout(300)
def test_ddp_fails_if_the_loss_does_not_go_down(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs torch (pip install 'rankdeck[torch]')")
    broken = tmp_path / "broken.py"
    text = (EXAMPLES / "ddp.py").read_text()
    broken.write_text(re.sub(r"LEARNING_RATE = \S+", "LEARNING_RATE = -0.03", text))
    master = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "1", "RANK": "0"}
    process = start(str(broken), "--steps", "5", "--step-sleep", "0", **master)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 1
    assert b"rankdeck-demo failed on rank 0: the loss did not go down" in err
    assert b"rankdeck-demo ok" not in out
