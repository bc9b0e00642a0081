"""How runs end on four nodes: a rank fails, a person stops it, ranks don't listen."""

from __future__ import annotations

import re
import signal
import subprocess
from typing import Any

import pytest

from whole.site import LIMIT, Site

pytestmark = pytest.mark.timeout(600)

ENDLESS = ["--steps", "100000", "--sleep", "0.1", "--limit", "300"]


def start_and_wait(site: Site, step: int = 3) -> subprocess.Popen[str]:
    """Starts `rankdeck run ring` and returns when every rank has done some steps."""
    process = site.shell.start("run", "ring")
    assert process.stdout is not None
    seen: set[str] = set()
    for line in process.stdout:
        if found := re.match(rf"\[(\d+) n\d\] step {step} sum", line):
            seen.add(found[1])
        if len(seen) == 8:
            return process
    _, err = process.communicate(timeout=10)
    raise AssertionError(f"the run ended early: {err}")


def assert_ended_by(signal_name: str, shown: Any) -> None:
    """Asserts that ranks ended by this signal, or by themselves (status 1) where a peer's end came first."""
    ends = [rank["signal"] or rank["exit_code"] for rank in shown["ranks"]]
    assert signal_name in ends
    assert set(ends) <= {signal_name, 1}


@pytest.mark.parametrize("framework", ["pytorch", "torchrun"])
def test_a_failing_rank_is_the_cause_and_ends_all(site: Site, framework: str) -> None:
    if framework == "torchrun":
        pytest.importorskip("torch", reason="needs torch (pip install 'rankdeck[torch]')")
    failure = ["--fail-rank", "5", "--fail-at", "4", "--exit-code", "7"]
    site.save_ring("ring", *ENDLESS, *failure, framework=framework, stop={"grace": "20s"})
    done = site.follow("run", "ring", limit=400)
    assert done.returncode == 1, done.stderr
    assert "rank 5 on n3: ValueError: told to fail at step 4" in done.stderr
    shown = site.show()
    assert shown["state"] == "failed"
    cause = shown["cause"]
    assert (cause["rank"], cause["node"], cause["message"]) == (5, "n3", "ValueError: told to fail at step 4")
    assert shown["ranks"][5]["exit_code"] == 7
    assert all(rank["state"] in {"failed", "stopped"} for rank in shown["ranks"])
    site.assert_nothing_runs()


def test_a_rank_killed_by_a_signal_is_the_cause(site: Site) -> None:
    site.save_ring("ring", *ENDLESS, "--fail-rank", "2", "--fail-at", "4", "--exit-code", "-9")
    done = site.follow("run", "ring")
    assert done.returncode == 1, done.stderr
    shown = site.show()
    assert (shown["cause"]["rank"], shown["cause"]["node"]) == (2, "n2")
    assert (shown["ranks"][2]["exit_code"], shown["ranks"][2]["signal"]) == (None, "KILL")
    site.assert_nothing_runs()


def test_stopped_from_another_shell(site: Site) -> None:
    site.save_ring("ring", *ENDLESS, stop={"grace": "60s"})
    running = start_and_wait(site)
    stopped = site.shell("stop", "last")
    assert "nothing of it is left on any node" in stopped.stderr
    assert not any(words for node in site.processes().values() for words in node if "socket_ring" in words)
    _, err = running.communicate(timeout=LIMIT)
    assert running.returncode == 1, err
    assert "stopped" in err
    shown = site.show()
    assert shown["state"] == "stopped"
    assert_ended_by("TERM", shown)
    site.assert_every_byte(8)
    site.assert_nothing_runs()


def test_a_rank_that_ignores_the_signal_is_killed_after_the_grace(site: Site) -> None:
    site.save_ring("ring", *ENDLESS, "--ignore-term", stop={"grace": "3s"})
    running = start_and_wait(site)
    site.shell("stop", "last")
    running.communicate(timeout=LIMIT)
    shown = site.show()
    assert {rank["state"] for rank in shown["ranks"]} == {"stopped"}
    assert_ended_by("KILL", shown)
    site.assert_nothing_runs()


def test_ctrl_c_without_a_terminal_stops(site: Site) -> None:
    site.save_ring("ring", *ENDLESS)
    running = start_and_wait(site)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=LIMIT)
    assert running.returncode == 130, err
    assert site.show()["state"] == "stopped"
    site.assert_nothing_runs()


def test_stop_with_a_node_out_of_reach_says_so_and_works_later(site: Site) -> None:
    site.save_ring("ring", *ENDLESS, stop={"grace": "5s"})
    running = start_and_wait(site)
    running.kill()
    site.cluster.fault("cut", "n4")
    try:
        stopped = site.shell("stop", "last", status=1)
        assert "n4: could not be told to stop" in stopped.stderr
    finally:
        site.cluster.heal("cut", "n4")
    site.shell("stop", "last")
    assert site.show()["state"] in {"stopped", "failed"}
    site.assert_nothing_runs()


def test_ranks_of_a_restarted_node_are_not_called_running(site: Site) -> None:
    site.save_ring("ring", *ENDLESS)
    running = start_and_wait(site)
    running.kill()
    site.cluster.fault("boot", "n3")
    shown = site.show()
    assert [rank["state"] for rank in shown["ranks"][4:6]] == ["unknown", "unknown"]
    for rank in (4, 5):
        assert site.raw(rank).startswith(b"step 0 sum 28 rank %d\n" % rank)
    site.shell("stop", "last")
    shown = site.show()
    assert [rank["state"] for rank in shown["ranks"][4:6]] == ["unknown", "unknown"]
    assert shown["state"] == "failed"
    site.assert_nothing_runs()
