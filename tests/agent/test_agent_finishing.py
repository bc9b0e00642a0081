"""Ranks that serve others for ever, and are stopped when those have ended well."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from agent_client import Client
from agent_runs import Run, is_alive, rank_plan

pytestmark = pytest.mark.timeout(180)

SERVE = "trap 'echo over; exit 3' TERM; echo ready; while :; do sleep 0.1; done"


def serving_plan(
    *programs: str, ranks: list[int], addresses: list[str] | None = None, **changes: Any
) -> dict[str, Any]:
    """The last program serves the given ranks."""
    plan = rank_plan(*programs, **changes)
    plan["processes"][-1]["ends_with"] = {"ranks": ranks, "addresses": addresses or []}
    return plan


def test_a_server_ends_with_those_it_serves(session: Client, tmp_path: Path) -> None:
    worker = f"until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    run = Run(session, serving_plan(worker, "true", SERVE, ranks=[0, 1]))
    run.wait_log("2.out", b"ready")
    run.event("rank_ended", rank=1)
    assert run.events("finishing") == []
    (tmp_path / "go").write_text("")
    assert run.end() == "succeeded"
    ended = run.event("rank_ended", rank=2)
    assert (ended["exit_code"], ended["asked"], ended["finished"]) == (3, True, True)
    assert run.log("2.out") == b"ready\nover\n"
    assert run.event("finishing")["ranks"] == [2]
    assert "finished" not in run.event("rank_ended", rank=0)
    assert run.events("stopping") == []


def test_a_server_that_ignores_the_signal_is_killed(session: Client) -> None:
    plan = serving_plan("true", "trap '' TERM; echo ready; while :; do sleep 0.1; done", ranks=[0])
    plan["stop"]["grace"] = 1.0
    run = Run(session, plan)
    assert run.end() == "succeeded"
    assert run.event("rank_ended", rank=1)["finished"] is True
    assert not any(is_alive(e["pid"]) for e in run.events("rank_started"))


def test_a_failure_of_those_it_serves_is_one(session: Client) -> None:
    run = Run(session, serving_plan("exit 5", SERVE, ranks=[0]))
    assert run.end() == "failed"
    assert run.event("stopping")["rank"] == 0
    assert run.events("finishing") == []


def test_a_server_that_fails_by_itself_has_failed(session: Client) -> None:
    run = Run(session, serving_plan("sleep 600", "exit 4", ranks=[0]))
    assert run.end() == "failed"
    assert "finished" not in run.event("rank_ended", rank=1)


def test_ranks_of_other_nodes_are_known_by_their_addresses(session: Client) -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        run = Run(session, serving_plan(SERVE, ranks=[7], addresses=[address], run="far"))
        run.wait_log("0.out", b"ready")
        other.settimeout(60)
        other.accept()[0].close()  # it has been seen
        other.accept()[0].close()
        assert run.events("finishing") == []
    assert run.end() == "succeeded"
    assert run.event("rank_ended", rank=0)["finished"] is True
    assert run.events("swept") == []


def test_one_that_was_never_seen_is_waited_for_until_told(session: Client) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # does not listen: connections are refused
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        run = Run(session, serving_plan("sleep 5", SERVE, ranks=[7], addresses=[address]))
        run.wait_log("1.out", b"ready")
        run.event("rank_ended", rank=0)
        assert run.events("finishing") == []
        assert session.ask("finish", dir=run.dir, ranks=None)["sent"] == [1]
        assert run.end() == "succeeded"


def test_only_servers_can_be_finished(session: Client) -> None:
    program = [sys.executable, "-c", "input() if 0 else __import__('time').sleep(600)"]
    run = Run(session, rank_plan(program))
    run.pids()
    assert session.ask("finish", dir=run.dir, ranks=[0])["sent"] == []
    assert run.stop()["state"] == "stopped"
