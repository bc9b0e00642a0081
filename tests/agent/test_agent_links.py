"""The supervisors of one run: they begin together, end together, and let nobody else in."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import stat
import time
from pathlib import Path

import pytest
from agent_client import Client
from agent_runs import is_alive, wait_until
from linked import SECRET, WAIT, LinkedRun, node_plans, start_all

from rankdeck_backends.agent.together import SILENCE

pytestmark = pytest.mark.timeout(240)


def test_ranks_begin_once_every_node_is_ready(session: Client) -> None:
    plans = node_plans("echo here", "echo here", "echo here")
    plans[2]["setup"] = ["sleep 3"]
    head, second, third = start_all(session, plans)
    waiting = head.event("waiting")
    assert waiting["on"] == [{"peer": "n3", "what": "setting up"}]
    assert waiting["limit"] == 120.0
    assert [run.end() for run in (head, second, third)] == ["succeeded"] * 3
    ready = third.event("ready")["t"]
    for run in (head, second, third):
        assert run.event("rank_started")["t"] >= ready
        assert run.events("stopping") == []
    assert head.event("all_ready")["seconds"] >= 2.5


def test_a_start_that_never_becomes_whole_names_the_node(session: Client) -> None:
    plans = node_plans(WAIT, WAIT, WAIT, barrier=4.0)
    head = LinkedRun(session, plans[0], None)
    second = LinkedRun(session, plans[1], head.port)  # the third is never started
    for run in (head, second):
        assert run.end() == "stopped"
        stopping = run.event("stopping")
        assert (stopping["why"], stopping["peer"]) == ("not_ready", "n3")
        assert stopping["message"] == "n3: not ready within 4 s: not heard of yet"
        assert run.events("rank_started") == []


def test_a_node_that_is_late_has_failed_and_the_others_were_stopped(session: Client) -> None:
    plans = node_plans(WAIT, WAIT, barrier=4.0)
    plans[1]["setup"] = ["sleep 600"]
    head, late = start_all(session, plans)
    assert (late.end(), head.end()) == ("failed", "stopped")
    assert late.event("stopping")["why"] == "not_ready"


def test_a_node_that_cannot_reach_the_head_says_so(session: Client) -> None:
    plans = node_plans(WAIT, WAIT, barrier=0.5)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        alone = LinkedRun(session, plans[1], unused.getsockname()[1])
        assert alone.end() == "stopped"
    stopping = alone.event("stopping")
    assert (stopping["why"], stopping["message"]) == ("not_ready", "n1: Connection refused")


def test_a_failing_setup_ends_the_start_on_all_nodes(session: Client) -> None:
    plans = node_plans("echo here", "echo here")
    plans[1]["setup"] = ["sleep 1; false"]
    head, second = start_all(session, plans)
    assert (head.end(), second.end()) == ("stopped", "failed")
    stopping = head.event("stopping")
    assert (stopping["why"], stopping["peer"]) == ("start_failed", "n2")
    assert head.events("rank_started") == []


def test_a_program_that_is_not_there_fails_before_any_rank_begins(session: Client) -> None:
    plans = node_plans("echo here", "echo here")
    plans[1]["processes"][0]["program"] = ["no-such-program"]
    head, second = start_all(session, plans)
    assert (head.end(), second.end()) == ("stopped", "failed")
    assert "no such program" in second.event("start_failed")["message"]
    assert head.events("rank_started") == []


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_a_failing_rank_ends_all_nodes_with_nobody_attached(
    session: Client, tmp_path: Path, failing: int
) -> None:
    programs = [f"trap 'echo bye; exit 0' TERM; echo up; {WAIT}"] * 3
    programs[failing] = f"until [ -e {tmp_path}/go ]; do sleep 0.05; done; exit 7"
    runs = start_all(session, node_plans(*programs, run=f"fail-{failing}"))
    for run in runs:
        run.event("rank_started")
    for number, run in enumerate(runs):
        if number != failing:
            run.wait_log(f"{number}.out", b"up")
        session.ask("unfollow", follow=run.follow)
    (tmp_path / "go").write_text("")
    again = [session.send("follow", dir=run.dir, since=0, logs="all", offsets={}) for run in runs]
    states = [session.reply(follow)[0]["state"] for follow in again]
    assert states == ["failed" if number == failing else "stopped" for number in range(3)]
    for number, follow in enumerate(again):
        stopping = session.events(follow, "stopping")[0]
        assert (stopping["why"], stopping["rank"]) == ("rank_failed", failing)
        if number != failing:
            assert stopping["peer"] == f"n{failing + 1}"
            assert stopping["message"] == f"n{failing + 1}: rank {failing} failed"
            assert session.events(follow, "rank_ended")[0]["asked"] is True
    for run in runs:
        wait_until(lambda run=run: not is_alive(run.supervisor), "end of the supervisor", 30)


def test_an_early_end_with_success_stops_nobody(session: Client, tmp_path: Path) -> None:
    plans = node_plans("true", f"until [ -e {tmp_path}/go ]; do sleep 0.05; done", "true", run="early")
    head, second, third = start_all(session, plans)
    assert (head.end(), third.end()) == ("succeeded", "succeeded")
    time.sleep(2.5)  # several words on the links
    assert second.events("stopping") == []
    assert is_alive(head.supervisor)  # the others may need it
    (tmp_path / "go").write_text("")
    assert second.end() == "succeeded"
    for run in (head, second, third):
        wait_until(lambda run=run: not is_alive(run.supervisor), "end of the supervisor", 30)


def test_a_failure_after_the_head_has_ended_reaches_the_others(session: Client, tmp_path: Path) -> None:
    programs = ["true", f"until [ -e {tmp_path}/go ]; do sleep 0.05; done; exit 3", WAIT]
    head, second, third = start_all(session, node_plans(*programs, run="headless"))
    assert head.end() == "succeeded"
    third.event("rank_started")
    (tmp_path / "go").write_text("")
    assert (second.end(), third.end()) == ("failed", "stopped")
    assert third.event("stopping")["message"] == "n2: rank 1 failed"


def test_where_failures_are_kept_to_themselves_others_go_on(session: Client, tmp_path: Path) -> None:
    plans = node_plans("exit 3", f"until [ -e {tmp_path}/go ]; do sleep 0.05; done", run="keep")
    for plan in plans:
        plan["stop"]["on_rank_failure"] = "keep"
    head, second = start_all(session, plans)
    assert head.end() == "failed"
    time.sleep(2.5)
    assert second.events("stopping") == []
    (tmp_path / "go").write_text("")
    assert second.end() == "succeeded"


def test_a_stop_of_one_node_is_one_of_all(session: Client) -> None:
    runs = start_all(session, node_plans(WAIT, WAIT, WAIT, run="asked"))
    for run in runs:
        run.event("rank_started")
    assert runs[1].stop(signal="INT", grace=7.0)["state"] == "stopped"
    for number in (0, 2):
        assert runs[number].end() == "stopped"
        stopping = runs[number].event("stopping")
        assert (stopping["why"], stopping["signal"], stopping["peer"]) == ("asked", "INT", "n2")


@pytest.mark.parametrize("killed", [0, 1])
def test_a_killed_supervisor_links_again(session: Client, tmp_path: Path, killed: int) -> None:
    waiting = f"until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    runs = start_all(session, node_plans(waiting, waiting + "; exit 4", WAIT, run=f"killed-{killed}"))
    for run in runs:
        run.event("rank_started")
    os.kill(runs[killed].supervisor, signal.SIGKILL)
    runs[killed].event("supervisor_resumed")
    (tmp_path / "go").write_text("")
    assert [run.end() for run in runs][1:] == ["failed", "stopped"]
    assert runs[2].event("stopping")["message"] == "n2: rank 1 failed"


def test_a_failure_waits_for_a_head_whose_supervisor_is_gone(session: Client, tmp_path: Path) -> None:
    """Its ranks run on unguarded until somebody looks: then they stop at once, and for that reason."""
    failing = f"until [ -e {tmp_path}/go ]; do sleep 0.05; done; exit 4"
    head, other = start_all(session, node_plans(WAIT, failing, run="headless"))
    (head.event("rank_started"), other.event("rank_started"))
    session.ask("unfollow", follow=head.follow)
    os.kill(head.supervisor, signal.SIGKILL)
    (tmp_path / "go").write_text("")
    assert other.end() == "failed"
    time.sleep(SILENCE + 3.0)
    session.ask("ping")
    head.follow = session.send("follow", dir=head.dir, since=0, logs=[], offsets={})
    stopping = head.event("stopping", limit=30.0)
    assert (stopping["why"], stopping["peer"], stopping["message"]) == (
        "rank_failed",
        "n2",
        "n2: rank 1 failed",
    )
    assert head.end() == "stopped"


def test_a_node_that_has_lost_the_head_stops_after_the_limit(session: Client) -> None:
    head, other = start_all(session, node_plans(WAIT, WAIT, run="lost-head", lost=20.0))
    (head.event("rank_started"), other.event("rank_started"))
    session.ask("unfollow", follow=head.follow)
    os.kill(head.supervisor, signal.SIGKILL)
    told = other.event("node_unreachable")
    assert (told["peer"], told["limit"]) == ("n1", 20.0)
    session.ask("ping")
    stopping = other.event("stopping")
    assert (stopping["why"], stopping["peer"]) == ("node_lost", "n1")
    assert stopping["t"] - told["t"] > 8
    assert other.end() == "stopped"
    head.follow = session.send("follow", dir=head.dir, since=0, logs=[], offsets={})
    session.ask("ping")
    assert head.end() in ("failed", "stopped")


def test_a_silent_node_is_told_of_and_then_given_up(session: Client) -> None:
    runs = start_all(session, node_plans(WAIT, WAIT, WAIT, run="silent", lost=20.0))
    for run in runs:
        run.event("rank_started")
    os.kill(runs[1].supervisor, signal.SIGSTOP)
    try:
        told = runs[0].event("node_unreachable")
        assert (told["peer"], told["limit"]) == ("n2", 20.0)
        assert told["seconds"] >= 10
        assert runs[0].events("stopping") == []
        session.ask("ping")
        stopping = runs[0].event("stopping")
        assert (stopping["why"], stopping["peer"]) == ("node_lost", "n2")
        assert stopping["t"] - told["t"] > 8
        assert runs[2].event("stopping")["why"] == "node_lost"
        assert (runs[0].end(), runs[2].end()) == ("stopped", "stopped")
    finally:
        os.kill(runs[1].supervisor, signal.SIGCONT)
    session.ask("ping")
    assert runs[1].end() == "failed"


def test_a_short_silence_ends_nothing(session: Client, tmp_path: Path) -> None:
    waiting = f"until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    runs = start_all(session, node_plans(waiting, waiting, run="short"))
    for run in runs:
        run.event("rank_started")
    os.kill(runs[0].supervisor, signal.SIGSTOP)
    runs[1].event("node_unreachable", peer="n1")
    os.kill(runs[0].supervisor, signal.SIGCONT)
    runs[1].event("node_reachable", peer="n1")
    (tmp_path / "go").write_text("")
    assert [run.end() for run in runs] == ["succeeded", "succeeded"]
    assert runs[0].events("node_unreachable") == []  # it was the head that stood still


def test_strangers_do_no_harm(session: Client, tmp_path: Path) -> None:
    waiting = f"until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    runs = start_all(session, node_plans(waiting, waiting, run="strangers"))
    for run in runs:
        run.event("rank_started")

    def connect() -> socket.socket:
        return socket.create_connection(("127.0.0.1", runs[0].port), 30)

    def is_let_go(stranger: socket.socket) -> bool:
        stranger.settimeout(60)
        with contextlib.suppress(ConnectionResetError):
            while stranger.recv(4096):
                pass
        return True

    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connect()) for _ in range(100)]  # says nothing, and stays
        for said in (
            b"\xff\0" * 4096,
            b"GET / HTTP/1.1\r\n\r\n",
            b'{"node_rank": 1, "nonce": "\\ud800", "proof": "\\ud800"}\n',
            b'{"node_rank": 1, "nonce": "00", "proof": "00"}\n',
            b'{"node_rank": [], "nonce": {}}\n',
            b"[" * 900 + b"\n",
            b"x" * 2000,
        ):
            with connect() as stranger:
                greeting = json.loads(stranger.makefile("rb").readline())
                assert SECRET not in json.dumps(greeting)
                stranger.sendall(said)
                assert is_let_go(stranger)
        assert all(is_let_go(stranger) for stranger in slow)
    (tmp_path / "go").write_text("")
    assert [run.end() for run in runs] == ["succeeded", "succeeded"]
    assert runs[0].events("node_unreachable") == []


def test_what_is_sent_holds_no_secret_and_cannot_be_said_again(session: Client, tmp_path: Path) -> None:
    """A relay between node and head sees every byte; it says the node's words to the head a second time."""
    plans = node_plans(f"until [ -e {tmp_path}/go ]; do sleep 0.05; done", WAIT, run="relayed")
    head = LinkedRun(session, plans[0], None)
    relay = socket.create_server(("127.0.0.1", 0))
    relay.settimeout(60)
    second = LinkedRun(session, plans[1], relay.getsockname()[1])
    node, _ = relay.accept()
    onward = socket.create_connection(("127.0.0.1", head.port), 30)
    with relay, node, onward:
        seen = b""
        from_head, from_node = onward.makefile("rb"), node.makefile("rb")
        node.sendall(greeting := from_head.readline())
        onward.sendall(proof := from_node.readline())
        node.sendall(answer := from_head.readline())
        status = from_node.readline()
        onward.sendall(status)
        head.event("all_ready")
        onward.sendall(status)  # said again: the head takes the connection for another's
        onward.settimeout(60)
        with contextlib.suppress(ConnectionResetError):
            while from_head.readline():
                pass
        seen += greeting + proof + answer + status
        assert SECRET.encode() not in seen
        with socket.create_connection(("127.0.0.1", head.port), 30) as forger:
            forger.makefile("rb").readline()
            forger.sendall(proof)  # of another nonce
            forger.settimeout(60)
            assert forger.recv(1) == b""
    assert second.stop(grace=1.0)["gone"]
    assert head.stop(grace=1.0)["gone"]


def test_the_secret_is_kept_private(session: Client) -> None:
    head, second = start_all(session, node_plans("true", "true", run="private"))
    for run in (head, second):
        path = Path(run.dir, "link.json")
        assert json.loads(path.read_text())["secret"] == SECRET
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert SECRET not in Path(run.dir, "plan.json").read_text()
        assert SECRET.encode() not in Path(f"/proc/{run.supervisor}/cmdline").read_bytes()
        assert run.end() == "succeeded"
