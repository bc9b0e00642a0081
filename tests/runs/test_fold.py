from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankdeck_runs import events
from rankdeck_runs.causes import CauseKind
from rankdeck_runs.early import early
from rankdeck_runs.events import fold
from rankdeck_runs.fold import Fold
from rankdeck_runs.states import NodeState, RankState, RunState


class Story:
    """Writes events as they would be in a record, one second apart."""

    def __init__(self, plan):
        self.plan = plan
        self.events = []
        self.t = 1000.0
        self.seqs = {}

    def login(self, ev, **fields):
        self.t += 1
        self.events.append({"t": self.t, "ev": ev, **fields})
        return self

    def node(self, name, ev, **fields):
        self.seqs[name] = self.seqs.get(name, 0) + 1
        return self.login(ev, node=name, seq=self.seqs[name], **fields)

    def created(self):
        return self.login("run_created", profile="resnet", framework="pytorch", pool="h100", backend="ssh")

    def started(self, *names):
        for name in names:
            self.login("start_asked", node=name).login("start_accepted", node=name, dir="/d")
            self.node(name, "supervisor_started", pid=1, boot="b")
        return self

    def running(self):
        self.created().started("n1", "n2")
        for rank in range(4):
            self.node(f"n{rank // 2 + 1}", "rank_started", rank=rank, local_rank=rank % 2, pid=100 + rank)
        return self

    def ended(self, rank, code=0, signal=None, asked=False):
        return self.node(
            f"n{rank // 2 + 1}",
            "rank_ended",
            rank=rank,
            exit_code=code,
            signal=signal,
            out_bytes=10,
            err_bytes=0,
            asked=asked,
        )

    @property
    def snapshot(self):
        return fold("r1", self.plan, self.events)

    @property
    def state(self):
        return self.snapshot.state

    @property
    def rank_states(self):
        return [str(rank.state) for rank in self.snapshot.ranks]


@pytest.fixture
def story(plan):
    return Story(plan)


def test_a_run_that_succeeds_goes_through_its_states(story):
    assert story.created().state is RunState.CHECKING
    assert story.started("n1").state is RunState.STARTING
    assert story.started("n2").state is RunState.STARTING
    for rank in range(4):
        assert story.state is RunState.STARTING
        story.node(f"n{rank // 2 + 1}", "rank_started", rank=rank, local_rank=rank % 2, pid=100 + rank)
    assert story.state is RunState.RUNNING
    for rank in range(4):
        assert story.ended(rank).state is RunState.RUNNING
    story.node("n1", "node_ended", state="succeeded")
    assert story.state is RunState.RUNNING
    snapshot = story.node("n2", "node_ended", state="succeeded").snapshot
    assert snapshot.state is RunState.SUCCEEDED
    assert snapshot.exit_status == 0
    assert not snapshot.complete
    assert story.login("complete").snapshot.complete


def test_show_json_has_what_is_promised(story):
    story.running().ended(2, 1)
    shown = json.loads(json.dumps(story.snapshot.to_json()))
    assert {
        "id": "r1",
        "state": "running",
        "profile": "resnet",
        "framework": "pytorch",
        "pool": "h100",
        "backend": "ssh",
        "created": "1970-01-01T00:16:41.000000Z",
        "ended": None,
        "world_size": 4,
        "swept": [],
    }.items() <= shown.items()
    assert {"name": "n1", "node_rank": 0, "address": "10.0.0.1", "state": "running"}.items() <= shown[
        "nodes"
    ][0].items()
    assert {
        "rank": 2,
        "node": "n2",
        "local_rank": 0,
        "state": "failed",
        "pid": 102,
        "exit_code": 1,
        "signal": None,
        "out_bytes": 10,
        "err_bytes": 0,
    }.items() <= shown["ranks"][2].items()
    assert shown["ranks"][2]["started"] == "1970-01-01T00:16:50.000000Z"
    assert set(shown["cause"]) == {
        *("rank", "node", "kind", "message", "evidence", "reason", "said", "proofs", "followers")
    }


def test_a_signal_leaves_no_exit_code(story):
    rank = story.running().ended(1, None, "KILL").snapshot.ranks[1]
    assert (rank.state, rank.exit_code, rank.signal) == (RankState.FAILED, None, "KILL")


def test_who_sent_the_kill_is_told_as_far_as_known(story):
    story.running().ended(0, signal="KILL", asked=True).ended(1, signal="KILL").ended(2, signal="KILL")
    story.events[-1]["seen"] = [{"what": "oom", "text": "/x/memory.events: oom_kill 0 -> 1"}]
    story.ended(3, signal="TERM", asked=True)
    whys = [rank.why for rank in story.snapshot.ranks]
    assert whys[0].startswith("SIGKILL by rankdeck")
    assert whys[1:] == ["SIGKILL, sender unknown", "SIGKILL by the kernel: out of memory", ""]


def test_the_first_failure_by_time_is_the_cause(story):
    story.running()
    story.ended(3, 1)
    story.ended(0, 1)
    assert story.snapshot.cause.rank == 3
    random.Random(1).shuffle(story.events)
    assert story.snapshot.cause.rank == 3


def test_a_skewed_clock_does_not_make_a_follower_the_first(story):
    story.running()
    story.login("link_up", node="n2", skew=-100.0)
    story.ended(0, 1)
    story.ended(3, 1)
    story.events[-1]["t"] -= 100.0  # n2's clock is 100 s behind
    assert story.snapshot.cause.rank == 0


def test_times_are_by_our_own_clock(story):
    story.login("link_up", node="n2", skew=-7200.0)
    story.running()
    for event in story.events:
        if event.get("node") == "n2" and "seq" in event:
            event["t"] -= 7200.0
    ranks = story.snapshot.ranks
    assert abs(ranks[2].started - ranks[0].started) < 60
    assert abs(story.snapshot.timing.started - ranks[0].started) < 60


def test_ranks_that_we_stopped_have_not_failed(story):
    story.running()
    story.ended(2, 1)
    story.node("n2", "stopping", why="rank_failed", rank=2, signal="TERM", grace=5)
    assert story.state is RunState.STOPPING
    story.ended(3, None, "TERM", asked=True)
    story.node("n2", "node_ended", state="failed")
    story.ended(0, 1, asked=True)
    story.ended(1, 0, asked=True)
    story.node("n1", "node_ended", state="stopped")
    assert story.rank_states == ["stopped", "stopped", "failed", "stopped"]
    assert story.state is RunState.FAILED


def test_ranks_that_their_launcher_took_down_have_not_failed(story):
    story.running().ended(3, None, "TERM").ended(2, 7)
    assert story.snapshot.cause.rank == 2
    assert story.rank_states == ["running", "running", "failed", "stopped"]


@pytest.mark.parametrize(
    ("code", "signal", "last_line", "told"),
    [
        (
            None,
            "KILL",
            "[W1128 17:31:06.384 socket.cpp:207] [c10d] it",
            "the launcher was ended by signal KILL",
        ),
        (None, "KILL", "ValueError: x", "the launcher was ended by signal KILL"),
        (1, None, "[W1128 17:31:06.384 socket.cpp:207] [c10d] it", "the launcher ended with status 1"),
        (1, None, "*" * 40, "the launcher ended with status 1"),
        (1, None, "ValueError: x", "ValueError: x"),
    ],
)
def test_a_launchers_last_line_is_its_reason_if_it_may_be_one(plan, code, signal, last_line, told):
    for node in plan["nodes"]:
        node["processes"] = [{"ranks": node["ranks"], "local_ranks": [0, 1], "launcher_args": 5}]
    story = Story(plan).running()
    story.node("n1", "launcher_ended", process=0, exit_code=code, signal=signal, message=last_line)
    assert story.snapshot.cause.message == told


def test_a_launcher_fails_because_of_its_rank(plan):
    for node in plan["nodes"]:
        node["processes"] = [{"ranks": node["ranks"], "local_ranks": [0, 1], "launcher_args": 5}]
    story = Story(plan).running()
    story.node("n1", "launcher_ended", process=0, exit_code=1, signal=None, message="ChildFailedError")
    assert story.snapshot.cause.kind is CauseKind.LAUNCHER
    story.ended(1, 9)
    assert (story.snapshot.cause.kind, story.snapshot.cause.rank) == (CauseKind.EXIT, 1)
    assert story.snapshot.launchers[0].exit_code == 1
    assert story.snapshot.launchers[0].out_log == "node-00000.launcher-0.out"


def test_ranks_that_have_served_their_time_have_succeeded(story):
    story.running()
    for rank in range(3):
        story.ended(rank)
    story.node("n2", "finishing", ranks=[3])
    assert story.rank_states[3] == "running"
    assert story.state is RunState.RUNNING
    assert "those it serves" in story.snapshot.ranks[3].why
    story.node(
        "n2",
        "rank_ended",
        rank=3,
        exit_code=None,
        signal="TERM",
        out_bytes=1,
        err_bytes=0,
        asked=True,
        finished=True,
    )
    for name in ("n1", "n2"):
        story.node(name, "node_ended", state="succeeded")
    assert story.rank_states == ["succeeded"] * 4
    assert story.snapshot.ranks[3].why == ""
    assert story.snapshot.cause is None
    assert story.snapshot.exit_status == 0


@pytest.fixture
def dealt(plan):
    """Two nodes whose launchers deal out the ranks and may start them again three times."""
    for node in plan["nodes"]:
        node["processes"] = [
            {
                "ranks": node["ranks"],
                "local_ranks": [0, 1],
                "launcher_args": 5,
                "fixed_ranks": False,
                "restarts": 3,
            }
        ]
    return Story(plan).created().started("n1", "n2")


def begin(story, places, attempt):
    """Ranks start; places: rank -> node."""
    for local, (rank, node) in enumerate(places.items()):
        story.node(
            node, "rank_started", rank=rank, local_rank=local % 2, pid=10 * attempt + rank, attempt=attempt
        )
    return story


def end(story, node, rank, attempt, **how):
    fields = {"exit_code": 0, "signal": None, "out_bytes": 1, "err_bytes": 0, "asked": False, **how}
    return story.node(node, "rank_ended", rank=rank, attempt=attempt, local_rank=0, process=0, **fields)


HERE, THERE = {0: "n1", 1: "n1", 2: "n2", 3: "n2"}, {0: "n2", 1: "n2", 2: "n1", 3: "n1"}


def test_dealt_ranks_have_no_node_before_they_run(dealt):
    before = dealt.snapshot
    assert [rank.node for rank in before.ranks] == [""] * 4
    assert [node.ranks for node in before.nodes] == [(), ()]
    assert before.to_json()["ranks"][0]["node"] is None
    assert before.state is RunState.STARTING
    dealt.node("n2", "rank_started", rank=0, local_rank=0, pid=1, attempt=1)
    assert [node.state for node in dealt.snapshot.nodes] == [NodeState.STARTING] * 2
    snapshot = begin(dealt, THERE, 1).snapshot
    assert snapshot.state is RunState.RUNNING
    assert [node.ranks for node in snapshot.nodes] == [(2, 3), (0, 1)]
    assert [node.state for node in snapshot.nodes] == [NodeState.RUNNING] * 2


def test_another_attempt_begins_anew(dealt):
    begin(dealt, HERE, 1)
    end(dealt, "n2", 3, 1, exit_code=7, may_restart=True)
    end(dealt, "n2", 2, 1, exit_code=None, signal="TERM", may_restart=True)
    snapshot = dealt.snapshot
    assert snapshot.cause is None  # torchrun may start them again
    assert snapshot.state is RunState.RUNNING
    dealt.node("n1", "attempt_started", process=0, attempt=2, rank=None)
    snapshot = dealt.snapshot
    assert (snapshot.attempt, snapshot.attempts) == (2, 4)
    assert [str(rank.state) for rank in snapshot.ranks] == ["waiting"] * 4
    assert [rank.node for rank in snapshot.ranks] == [""] * 4
    assert snapshot.state is RunState.STARTING
    (past,) = snapshot.earlier_attempts
    assert (past.attempt, past.cause.rank, past.cause.node) == (1, 3, "n2")
    # What the other node has to tell of the first attempt comes late.
    end(dealt, "n1", 0, 1, exit_code=None, signal="TERM", may_restart=True)
    begin(dealt, THERE, 2)
    snapshot = dealt.snapshot
    assert snapshot.state is RunState.RUNNING
    assert [rank.node for rank in snapshot.ranks] == ["n2", "n2", "n1", "n1"]
    assert [str(rank.earlier[0].state) for rank in snapshot.ranks] == [
        "stopped",
        "running",
        "stopped",
        "failed",
    ]
    assert snapshot.ranks[0].earlier[0].node == "n1"
    for rank, node in THERE.items():
        end(dealt, node, rank, 2)
    for name in ("n1", "n2"):
        dealt.node(name, "launcher_ended", process=0, exit_code=0, signal=None, message="")
        dealt.node(name, "node_ended", state="succeeded")
    snapshot = dealt.snapshot
    assert snapshot.state is RunState.SUCCEEDED
    assert snapshot.timing.started < snapshot.ranks[0].started


def test_the_last_attempts_first_failure_is_the_cause(dealt):
    begin(dealt, HERE, 1)
    end(dealt, "n1", 1, 1, exit_code=3, may_restart=True)
    begin(dealt, HERE, 2)
    end(dealt, "n2", 2, 2, exit_code=9, may_restart=True)
    assert dealt.snapshot.cause is None
    dealt.node("n2", "launcher_ended", process=0, exit_code=1, signal=None, message="ChildFailedError")
    cause = dealt.snapshot.cause
    assert (cause.rank, cause.node, cause.kind) == (2, "n2", CauseKind.EXIT)


def test_damaged_attempts_do_no_harm(dealt):
    begin(dealt, HERE, 1)
    dealt.node("n1", "attempt_started", process=0, attempt=10**12, rank=None)
    dealt.node("n1", "rank_started", rank=0, local_rank=0, pid=1, attempt=10**12)
    assert dealt.snapshot.attempt == 1
    assert dealt.rank_states == ["running"] * 4


def test_a_persons_stop_is_no_failure(story):
    story.running()
    story.login("stop_asked", why="asked", signal="TERM", grace=5)
    assert story.state is RunState.STOPPING
    story.ended(0, None, "TERM", asked=True)
    story.ended(1, 1)  # lost its peer
    story.ended(2, None, "TERM", asked=True).ended(3, None, "TERM", asked=True)
    story.node("n1", "node_ended", state="stopped").node("n2", "node_ended", state="stopped")
    snapshot = story.snapshot
    assert snapshot.state is RunState.STOPPED
    assert snapshot.cause is None


def test_a_stop_that_reached_nobody_leaves_the_run_running(story):
    story.running().login("stop_asked", why="asked", signal="TERM", grace=5)
    story.login("stop_ended", gone=False, left=[], unreached=[{"node": "n1", "message": "no route"}])
    assert story.state is RunState.RUNNING


def test_a_lost_link_shows_and_its_ranks_are_lost_until_it_is_back(story):
    story.running().login("link_lost", node="n2", step="lost", message="cut")
    snapshot = story.snapshot
    assert snapshot.nodes[1].state is NodeState.LOST
    assert snapshot.nodes[1].message == "cut"
    assert snapshot.state is RunState.RUNNING
    assert story.rank_states == ["running", "running", "lost", "lost"]
    assert snapshot.ranks[3].why == "last seen running: cut"
    assert not snapshot.ranks[3].state.is_terminal
    assert story.login("link_lost", node="n1", step="lost", message="cut").state is RunState.LOST
    assert story.login("link_up", node="n1", skew=0).state is RunState.RUNNING
    story.ended(2)  # whoever brought this event has reached n2
    assert story.snapshot.nodes[1].state is NodeState.RUNNING
    assert story.rank_states == ["running", "running", "succeeded", "running"]


def test_an_unknown_exit_is_neither_success_nor_failure(story):
    story.running().ended(0).ended(1).ended(2)
    story.node("n2", "rank_unknown", rank=3, why="it is gone")
    story.node("n1", "node_ended", state="succeeded").node("n2", "node_ended", state="failed")
    story.events[-1]["state"] = "unknown"
    snapshot = story.snapshot
    assert snapshot.ranks[3].state is RankState.UNKNOWN
    assert snapshot.ranks[3].exit_code is None
    assert snapshot.state is RunState.UNKNOWN
    assert snapshot.exit_status == 1
    assert (snapshot.cause.rank, snapshot.cause.kind) == (3, CauseKind.UNKNOWN)
    assert "it is gone" in snapshot.cause.message


def test_the_rank_of_unknown_end_is_named_above_those_stopped_for_it(story):
    story.running()
    story.node("n2", "rank_unknown", rank=3, why="its shim and the program have gone")
    story.node("n2", "stopping", why="rank_failed", rank=3, signal="TERM", grace=5)
    story.ended(0, code=1).ended(1, signal="TERM", asked=True).ended(2, signal="TERM", asked=True)
    snapshot = story.snapshot
    assert (snapshot.cause.rank, snapshot.cause.node, snapshot.cause.kind) == (3, "n2", CauseKind.UNKNOWN)


def test_a_node_without_a_supervisor_says_so_until_another_takes_over(story):
    story.running().login("supervisor_gone", node="n2")
    gone = story.snapshot
    assert [node.unguarded for node in gone.nodes] == [False, True]
    assert gone.nodes[1].message.startswith("its supervisor is gone (killed?)")
    assert gone.to_json()["nodes"][1]["unguarded"] is True
    assert gone.state is RunState.RUNNING
    story.node("n2", "supervisor_resumed", pid=9)
    back = story.snapshot
    assert (back.nodes[1].unguarded, back.nodes[1].message) == (False, "")
    assert back.notes[0].startswith("n2: its supervisor was gone (killed, or the node was restarted)")
    story.login("supervisor_gone", node="n2").login("supervisor_found", node="n2")
    assert not story.snapshot.nodes[1].unguarded


def test_a_launch_that_was_left_in_its_midst_says_so(story):
    story.created().login("start_asked", node="n1").login("start_cut_short")
    snapshot = story.snapshot
    assert (snapshot.cause.node, snapshot.cause.kind) == ("n2", CauseKind.NODE)
    assert "cut short" in snapshot.cause.message
    assert snapshot.nodes[1].state is NodeState.FAILED
    story.login("node_missing", node="n2", why="it knows nothing of this run", started=False)
    assert story.snapshot.cause == snapshot.cause
    story.node("n1", "node_ended", state="stopped")
    assert story.state is RunState.FAILED


def test_a_node_that_knows_nothing_leaves_its_ranks_lost(story):
    story.running().login("node_missing", node="n2", why="the folder is gone")
    snapshot = story.snapshot
    assert snapshot.nodes[1].state is NodeState.UNKNOWN
    assert story.rank_states == ["running", "running", "lost", "lost"]


def test_a_refused_start_fails_the_run(story):
    story.created().started("n1").login("start_asked", node="n2")
    story.login("start_refused", node="n2", message="no space left", hint="")
    assert story.rank_states[2:] == ["failed", "failed"]
    assert story.snapshot.ranks[2].why == "never started: no space left"
    assert story.snapshot.nodes[1].state is NodeState.FAILED
    story.node("n1", "node_ended", state="stopped")
    snapshot = story.snapshot
    assert snapshot.state is RunState.FAILED
    assert (snapshot.cause.kind, snapshot.cause.node, snapshot.cause.message) == (
        CauseKind.NODE,
        "n2",
        "no space left",
    )


def test_a_failed_setup_line_is_the_cause(story):
    story.created().started("n1", "n2")
    story.node("n1", "setup_failed", line="module load x", status=1, output="no such module\n")
    story.node("n1", "node_ended", state="failed").node("n2", "node_ended", state="stopped")
    cause = story.snapshot.cause
    assert (cause.kind, cause.evidence) == (CauseKind.SETUP, ("no such module",))
    assert "module load x" in cause.message


def test_a_program_that_cannot_be_started(story):
    story.created().started("n1", "n2")
    story.node("n1", "start_failed", rank=0, process=0, message="/x/python: No such file or directory")
    snapshot = story.snapshot
    assert snapshot.ranks[0].state is RankState.FAILED
    assert (snapshot.cause.rank, snapshot.cause.kind) == (0, CauseKind.START)


def test_the_cause_from_the_logs_wins_while_it_is_of_the_first_failure(story):
    story.running().ended(2, 1)
    found = {"rank": 2, "node": "n2", "kind": "exit", "message": "ValueError: x", "evidence": ["a", "b"]}
    story.login("cause_found", **found)
    assert story.snapshot.cause.message == "ValueError: x"
    story.ended(0, 1)
    story.events[-1]["t"] = 1.0  # an earlier failure becomes known later
    assert story.snapshot.cause.rank == 0
    assert "status 1" in story.snapshot.cause.message


def test_doubles_and_order_change_nothing(story):
    story.running().ended(0).ended(1).ended(2, 3)
    once = story.snapshot
    story.events += [dict(event) for event in story.events if "seq" in event]
    assert story.snapshot == once


def test_the_next_event_to_ask_for_is_the_first_missing_one(plan):
    folded = Fold("r", plan)
    for seq in (1, 2, 5, 4):
        assert folded.apply({"t": 1.0, "ev": "x", "node": "n1", "seq": seq})
    assert folded.last_seq("n1") == 2
    assert not folded.apply({"t": 1.0, "ev": "x", "node": "n1", "seq": 4})
    assert folded.apply({"t": 1.0, "ev": "x", "node": "n1", "seq": 3})
    assert folded.last_seq("n1") == 5
    assert folded.last_seq("n2") == folded.last_seq("nobody") == 0


def test_no_plan_is_unknown_not_a_success():
    assert fold("r", {}, []).state is RunState.UNKNOWN


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def test_garbage_events_never_raise(plan):
    from rankdeck_runs import login_events, node_events

    kinds = sorted({*login_events.OF_RUN, *login_events.OF_NODE, *node_events.HANDLERS})
    keys = [
        *("t", "rank", "process", "exit_code", "signal", "state", "left", "processes", "pids", "kind"),
        *("message", "why", "gone", "skew", "asked", "line", "output", "pid", "local_rank", "evidence"),
    ]
    event = st.fixed_dictionaries(
        {"ev": st.sampled_from(kinds) | JSON, "node": st.sampled_from(["n1", "n2"]) | JSON},
        optional={"seq": st.integers(-2, 9) | JSON, **{key: st.integers(0, 4) | JSON for key in keys}},
    )

    @settings(max_examples=60)
    @given(st.lists(event, max_size=15))
    def check(happened):
        snapshot = fold("r", plan, happened)
        json.dumps(snapshot.to_json())
        assert len(snapshot.ranks) == 4

    check()


@given(JSON)
def test_a_garbage_plan_never_raises(value):
    for plan in (
        value,
        {"nodes": value},
        {"nodes": [value]},
        {"nodes": [{"node": "n", "node_rank": 0, "ranks": value}]},
    ):
        if isinstance(plan, dict):
            fold("r", plan, []).to_json()


class TestEventFile:
    def test_torn_and_garbage_lines_are_left_out(self, tmp_path):
        path = tmp_path / "events.jsonl"
        events.append(path, {"t": 1.0, "ev": "a"})
        with open(path, "ab") as file:
            file.write(b'{"t": 2.0, "ev": "to')  # a writer was killed here
        events.append(path, {"t": 3.0, "ev": "b"})
        with open(path, "ab") as file:
            file.write(b'\xff\xfe garbage\n[1]\n{"ev": 3}\n\n' + b"[" * 100_000 + b"\n")
        events.append(path, {"t": 4.0, "ev": "c"})
        assert [event["ev"] for event in events.read(path)] == ["a", "b", "c"]
        assert path.stat().st_mode & 0o777 == 0o600

    def test_no_file_has_no_events(self, tmp_path):
        assert list(events.read(tmp_path / "none")) == []


def test_nodes_that_the_others_wait_for_say_so(story):
    story.created().started("n1", "n2")
    story.node("n1", "ready")
    story.node("n1", "waiting", on=[{"peer": "n2", "what": "setting up"}], seconds=3.0, limit=600.0)
    first, second = story.snapshot.nodes
    assert (first.message, first.awaited) == ("", None)
    assert (second.message, second.awaited) == ("the others wait for it: setting up", story.t - 3.0)
    assert second.to_json()["awaited"] == "1970-01-01T00:16:46.000000Z"
    assert story.state is RunState.STARTING
    story.node("n1", "all_ready", seconds=5.0)
    assert [node.awaited for node in story.snapshot.nodes] == [None, None]


def test_a_node_that_was_not_ready_is_the_cause(story):
    story.created().started("n1", "n2")
    story.node("n1", "waiting", on=[{"peer": "n2", "what": "not heard of yet"}], seconds=3.0, limit=600.0)
    message = "n2: not ready within 600 s: not heard of yet"
    for name in ("n1", "n2"):
        story.node(
            name, "stopping", why="not_ready", rank=None, signal="TERM", grace=5, peer="n2", message=message
        )
        story.node(name, "node_ended", state="stopped")
    snapshot = story.snapshot
    assert snapshot.state is RunState.FAILED
    assert (snapshot.cause.kind, snapshot.cause.node) == (CauseKind.NODE, "n2")
    assert snapshot.cause.message == "not ready within 600 s: not heard of yet"
    assert snapshot.nodes[1].message == ""


@pytest.mark.parametrize("ahead", [-0.4, 0.4])
def test_the_failure_that_the_head_named_is_first_whatever_the_clocks_say(story, ahead):
    """A follower dies of the reset connection some milliseconds later; its node's clock may be behind."""
    story.running()
    story.ended(2, code=1)
    story.events[-1]["t"] = 2000.0
    story.ended(0, code=1)
    story.events[-1]["t"] = 2000.01 + ahead
    story.node(
        "n1",
        "stopping",
        why="rank_failed",
        rank=2,
        signal="TERM",
        grace=5,
        peer="n2",
        message="n2: rank 2 failed",
    )
    story.node("n2", "stopping", why="rank_failed", rank=2, signal="TERM", grace=5)
    assert (story.snapshot.cause.rank, story.snapshot.cause.node) == (2, "n2")


def test_a_launcher_that_the_head_named_comes_after_its_ranks(story):
    story.running()
    story.ended(3, code=1)
    story.node("n2", "launcher_ended", process=0, exit_code=1, signal=None, message="ChildFailedError")
    story.node(
        "n1", "stopping", why="launcher_ended", rank=None, signal="TERM", grace=5, peer="n2", message=""
    )
    assert story.snapshot.cause.rank == 3


def test_a_silent_node_is_said_and_then_the_cause(story):
    story.running()
    story.node("n1", "node_unreachable", peer="n2", seconds=10.2, limit=60.0)
    assert story.snapshot.nodes[1].message == "n1 hears nothing of it: the run goes on without it for 60 s"
    assert story.state is RunState.RUNNING
    story.node("n1", "node_reachable", peer="n2")
    assert story.snapshot.nodes[1].message == ""
    story.node("n1", "node_unreachable", peer="n2", seconds=10.2, limit=60.0)
    message = "n2: not heard of for 60 s"
    story.node(
        "n1", "stopping", why="node_lost", rank=None, signal="TERM", grace=5, peer="n2", message=message
    )
    snapshot = story.snapshot
    assert (snapshot.cause.kind, snapshot.cause.node) == (CauseKind.NODE, "n2")
    assert snapshot.cause.message == "not heard of for 60 s"
    assert snapshot.state is RunState.STOPPING


def test_the_end_of_the_grace_is_told_while_a_node_stops(story):
    story.running().node("n2", "stopping", why="asked", rank=None, signal="TERM", grace=60.0)
    assert [node.kill_at for node in story.snapshot.nodes] == [None, story.t + 60.0]
    story.node("n2", "hurried", grace=5.0)
    assert story.snapshot.kill_at == story.t + 5.0
    assert story.snapshot.nodes[1].to_json()["kill_at"].startswith("1970-")
    story.node("n2", "node_ended", state="stopped")
    assert story.snapshot.kill_at is None


@pytest.mark.parametrize(
    ("events", "when"),
    [
        ([("stopping", 0.0)], "at once"),
        ([("stopping", 60.0), ("hurried", 0.0)], "at once"),
        ([("stopping", 60.0)], "at the end of the grace"),
        ([("stopping", 60.0), ("hurried", 5.0)], "at the end of the grace"),
    ],
)
def test_a_forced_stop_is_told_as_such(story, events, when):
    story.running()
    for ev, grace in events:
        more = {"why": "asked", "rank": None, "signal": "TERM"} if ev == "stopping" else {}
        story.node("n2", ev, grace=grace, **more)
    story.node("n2", "killing", pids=[7, 8])
    assert story.snapshot.notes == (f"n2: SIGKILL {when} for 7, 8",)


def test_a_rank_that_finished_early_is_told_of_and_is_no_failure(story):
    story.running().ended(2)
    snapshot = story.snapshot
    assert early(snapshot, story.t + 10.0) == ""
    said = early(snapshot, story.t + 31.0)
    assert said == "rank 2 finished early, with success; 3 others run on, and may wait for it"
    assert (snapshot.state, snapshot.cause) == (RunState.RUNNING, None)
    assert early(story.ended(0).ended(1).snapshot, story.t + 60.0) == ""


def test_a_node_that_was_restarted_is_the_cause_not_one_of_its_ranks(story):
    story.running()
    for rank in (2, 3):
        story.node("n2", "rank_unknown", rank=rank, why="the node was restarted while this rank ran")
    cause = story.snapshot.cause
    assert (cause.kind, cause.node, cause.rank) == (CauseKind.NODE, "n2", None)
    assert cause.message.startswith("it was restarted while its ranks ran")
    assert story.rank_states[2:] == ["unknown", "unknown"]
