"""A request that is answered in a child process always has an answer."""

from __future__ import annotations

import os
import select
import socket
from typing import Any

from rankdeck_backends.agent.jobs import Job


def answer_of(function: Any) -> dict[str, Any]:
    """The last frame that a job with this function sends, or what is said in its place."""
    job = Job(function, {"id": 7, "op": "stop"}, 60.0)
    try:
        frames: list[Any] = []
        while select.select([job.fd], [], [], 60)[0]:
            come = job.read()
            if come is None:
                break
            frames += come
        return frames[-1][0] if frames else job.missing_answer()
    finally:
        os.waitpid(job.pid, 0)
        job.close()


def test_a_peer_that_has_just_closed_is_told_and_ends_nothing_silently() -> None:
    # As a supervisor that ends between the connection to its socket and the first word to it.
    def write_to_one_that_is_gone(request: Any, send: Any) -> Any:
        ours, theirs = socket.socketpair()
        theirs.close()
        ours.sendall(b"stop\n")

    error = answer_of(write_to_one_that_is_gone)["error"]
    assert error["kind"] == "system"
    assert "Broken pipe" in error["message"]


def test_an_answer_comes() -> None:
    assert answer_of(lambda request, send: ({"gone": True}, b""))["gone"] is True
