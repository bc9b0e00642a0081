"""Ranks that serve others for ever, and are stopped when those have ended well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agent_client import Client
from agent_runs import Run, is_alive, rank_plan
from linked import node_plans, start_all

pytestmark = pytest.mark.timeout(180)

SERVE = "trap 'echo over; exit 3' TERM; echo ready; while :; do sleep 0.1; done"


def serving_plan(*programs: str, ranks: list[int], **changes: Any) -> dict[str, Any]:
    """The last program serves the given ranks."""
    plan = rank_plan(*programs, **changes)
    plan["processes"][-1]["ends_with"] = {"ranks": ranks}
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


def test_ranks_of_other_nodes_are_known_by_the_links(session: Client, tmp_path: Path) -> None:
    plans = node_plans(f"until [ -e {tmp_path}/go ]; do sleep 0.05; done", SERVE, SERVE, run="far")
    for plan in plans:
        plan["links"]["served"] = [0]
    for plan in plans[1:]:
        plan["processes"][0]["ends_with"] = {"ranks": [0]}
    head, second, third = start_all(session, plans)
    second.wait_log("1.out", b"ready")
    third.wait_log("2.out", b"ready")
    assert second.events("finishing") == []
    (tmp_path / "go").write_text("")
    assert [run.end() for run in (head, second, third)] == ["succeeded"] * 3
    assert second.event("rank_ended", rank=1)["finished"] is True
    assert third.event("finishing")["ranks"] == [2]


def test_ranks_of_other_nodes_that_fail_do_not_finish_those_that_serve_them(session: Client) -> None:
    plans = node_plans("sleep 2; exit 3", SERVE, run="far-failed")
    for plan in plans:
        plan["links"]["served"] = [0]
    plans[1]["processes"][0]["ends_with"] = {"ranks": [0]}
    head, second = start_all(session, plans)
    assert (head.end(), second.end()) == ("failed", "stopped")
    assert second.events("finishing") == []
