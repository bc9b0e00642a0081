"""Callers that come when the agent's process has no descriptor left wait, and cost nothing meanwhile."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

COMMON = """
import os, resource, socket, sys, time
from rankdeck_backends.agent import accepting

class Listener:
    'A listening socket that counts how often it is asked for a connection.'
    def __init__(self, listener):
        self.listener, self.asked = listener, 0
    def fileno(self):
        return self.listener.fileno()
    def accept(self):
        self.asked += 1
        return self.listener.accept()
    def getsockname(self):
        return self.listener.getsockname()
    def close(self):
        self.listener.close()

before = resource.getrlimit(resource.RLIMIT_NOFILE)

def fill():
    # No further descriptor: all free numbers below are taken, and there may be no higher ones.
    taken = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, before[1]))
    try:
        while True:
            taken.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        return taken
"""
LOOPS = {
    "control": """
        from rankdeck_backends.agent.control import ControlServer, connect
        from rankdeck_backends.agent.loop import Loop
        loop = Loop()
        server = ControlServer(loop, sys.argv[1].encode() + b"/socket", print)
        server._listener = listener = Listener(server._listener)
        taken_in = lambda: len(server.callers)
        callers = [connect(sys.argv[1].encode() + b"/socket", 5.0) for _ in range(3)]
    """,
    "hub": """
        from rankdeck_backends.agent.hub import Hub
        from rankdeck_backends.agent.loop import Loop
        loop = Loop()
        hub = Hub(loop, "secret", "run", 2, print)
        hub.listen("127.0.0.1", 0)
        hub._listener = listener = Listener(hub._listener)
        taken_in = lambda: len(hub._unproven)
        callers = [socket.create_connection(("127.0.0.1", hub.port)) for _ in range(3)]
    """,
}
TURNS = """
taken = fill()
end = time.monotonic() + 2.5 * accepting.PAUSE
while time.monotonic() < end:
    loop.step(end - time.monotonic())
assert listener.asked <= 4, listener.asked
assert taken_in() == 0
for fd in taken:
    os.close(fd)
while taken_in() < 3:
    loop.step(10.0)
"""


def run(folder: Path, program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("who", LOOPS)
def test_callers_wait_for_a_descriptor(tmp_path: Path, who: str) -> None:
    run(tmp_path, COMMON + textwrap.dedent(LOOPS[who]) + TURNS)


def test_nodes_that_try_to_reach_this_one_wait_for_a_descriptor(tmp_path: Path) -> None:
    program = """
        import threading
        from rankdeck_backends.agent import meet
        listener, state = meet._listener("127.0.0.1", 0)
        listener = Listener(listener)
        ended, end = os.pipe()
        callers = [socket.create_connection(listener.getsockname()) for _ in range(3)]
        taken = fill()
        def later():
            time.sleep(1.5 * accepting.PAUSE)
            assert listener.asked <= 3, listener.asked
            for fd in taken:
                os.close(fd)
            for caller in callers:
                assert caller.recv(2) == b"hi"
            os.write(end, b".")
        other = threading.Thread(target=later)
        other.start()
        assert meet._greet([listener], b"hi", 50.0, ended) == 3
        assert listener.asked <= 6, listener.asked
    """
    run(tmp_path, COMMON + textwrap.dedent(program))


def test_a_paused_descriptor_can_be_forgotten(tmp_path: Path) -> None:
    program = """
        from rankdeck_backends.agent.loop import Loop
        loop = Loop()
        read, write = os.pipe()
        os.write(write, b".")
        heard = []
        loop.watch(read, lambda: heard.append(1))
        loop.pause(read, 0.05)
        loop.pause(read, 0.1)
        loop.step(0.0)
        assert not heard
        loop.forget(read)
        time.sleep(0.2)
        loop.step(0.0)
        loop.step(0.0)
        assert not heard
        loop.watch(read, lambda: heard.append(1))
        loop.step(5.0)
        assert heard == [1]
    """
    run(tmp_path, COMMON + textwrap.dedent(program))
