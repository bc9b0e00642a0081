"""What a person sees and can do while nodes are being connected to."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest

from cli.user import Shell


@pytest.mark.parametrize("command", [("check", "--pool", "hung"), ("gpus", "--pool", "hung")])
def test_ctrl_c_while_a_node_does_not_answer(rankdeck: Shell, command: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        config = rankdeck.write("config-of-ssh", f"Host *\n  HostName 127.0.0.1\n  Port {port}\n")
        config.write_text(config.read_text() + "  ConnectTimeout 600\n")
        rankdeck.environment["RANKDECK_SSH_CONFIG"] = str(config)
        rankdeck.save_pool("hung", 'backend = "ssh"\nnodes = ["n1", "n2"]\n')
        process = rankdeck.start(*command)
        held = [server.accept()[0] for _ in range(2)]  # taken, and nothing is said
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=90)
        for each in held:
            each.close()
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr


def test_each_node_that_answers_is_counted(rankdeck: Shell) -> None:
    rankdeck.save_pool()
    done = rankdeck("check", "--pool", "two", status=None)
    lines = done.stderr.splitlines()
    assert "looking at 2 nodes of pool two" in lines
    assert sum(line.endswith(("answered (1 of 2)", "answered (2 of 2)")) for line in lines) == 2


def test_connections_begun_are_gone_with_the_command(rankdeck: Shell) -> None:
    rankdeck.save_pool()
    process = rankdeck.start("gpus", "--pool", "two", "--watch")
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=90)
    left = [
        path.parent.name
        for path in Path("/proc").glob("[0-9]*/environ")
        if str(rankdeck.folder).encode() in _read(path)
    ]
    assert left == []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
