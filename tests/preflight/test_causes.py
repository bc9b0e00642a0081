"""One cause is told once: what follows from it is there, and is no reason of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from preflight.cases import ASKED
from preflight.healthy import code, connect, healthy, mpi, need, python, torch
from preflight.recordings import changed, recorded
from preflight.test_wiring_checks import moved
from rankdeck_backends.preflight.finding import Verdict
from rankdeck_backends.preflight.judge import Report, judge
from rankdeck_backends.preflight.subject import Asked
from rankdeck_profiles.errors import PlanError
from rankdeck_profiles.readings import Readings
from rankdeck_runs.needs import with_refusal

UNREACHED = Readings(
    syscalls={"ssh": {"state": "auth", "message": "Permission denied", "noise": "", "resets": 0}}
)


def beside_healthy(second: Readings) -> Report:
    return judge({"n1": healthy(1), "n2": second, "n3": healthy(3)}, ASKED)


def second(**syscalls: Any) -> Readings:
    return changed(healthy(2), syscalls=syscalls)


def nothing_works(readings: Readings) -> Readings:
    """In another network, where nothing is reached."""
    tried = [connect(f"n{peer}", f"10.77.0.{10 + peer}", state="timeout") for peer in (1, 3)]
    return changed(moved(readings), syscalls={"connects": tried})


@pytest.mark.parametrize(
    ("node", "cause", "effects"),
    [
        (replace(recorded("gpu-lost")), "gpu.lost", {"gpu.count", "gpu.memory-health"}),
        (nothing_works(healthy(2)), "net.iface", {"net.pair"}),
        (
            second(torch=torch(version="2.5.1+cu121", cuda="12.1"), torch_nccl="2.21.5"),
            "sw.torch",
            {"sw.nccl"},
        ),
        (second(python=python(version="3.9.2")), "sw.python", set()),
        (second(mpi=mpi(version="5.0.6")), "sw.mpi", set()),
        (
            second(python=python(state="missing"), needs=[need("program", "x", "no x")]),
            "run.needs",
            {"sw.python"},
        ),
        (second(code=code(state="ENOENT"), needs=[need("file", "x", "no x")]), "run.needs", {"sw.code"}),
        (
            second(torch=torch(state="missing"), needs=[need("module", "torch", "none")]),
            "run.needs",
            {"sw.torch"},
        ),
        (UNREACHED, "ssh.connect", set()),
    ],
    ids=[
        "gpu.lost",
        "net.iface",
        "sw.torch",
        "sw.python",
        "sw.mpi",
        "python",
        "script",
        "module",
        "ssh.connect",
    ],
)
def test_what_follows_from_a_cause_is_told_as_such(node: Readings, cause: str, effects: set[str]) -> None:
    report = beside_healthy(node)
    ours = [each for each in report.stopping if not each.id.startswith(("ib.", "ofed.", "gdr.", "roce."))]
    assert {each.id for each in ours} == {cause}
    assert {each.id for each in report.findings if each.explained_by == cause} >= effects


def test_an_unreached_node_is_judged_by_nothing_else() -> None:
    told = [each for each in beside_healthy(UNREACHED).on("n2") if each.verdict != "skip"]
    assert {each.id for each in told} <= {"ssh.connect", "ssh.clean-shell", "ssh.throttle"}
    assert all(each.message for each in beside_healthy(UNREACHED).findings)


def test_a_node_that_could_not_be_looked_at_is_judged_by_nothing_that_others_know_of_it() -> None:
    unread = {"ssh": {"state": "ok", "unread": "no room"}, "address": "10.77.0.12", "interface": "eth0"}
    report = beside_healthy(Readings(syscalls=unread))
    assert {each.id for each in report.on("n2") if each.verdict != "skip"} == {"ssh.connect"}
    assert report.variables is not None
    assert set(report.variables.nodes) == {"n1", "n3"}


def test_one_machine_under_two_names_is_one_cause() -> None:
    report = judge({"n1": healthy(1), "n2": healthy(2), "alias": healthy(2)}, ASKED)
    assert {each.id for each in report.stopping} == {"ssh.identity"}
    consequences = {each.id: each.explained_by for each in report.findings if each.explained_by}
    assert consequences == {"net.twin-address": "ssh.identity", "ib.guid": "ssh.identity"}
    told = [each for each in report.findings if each.verdict in ("warn", "fail") and not each.explained_by]
    assert {each.id for each in told} == {"ssh.identity"}


def test_a_plan_that_the_nodes_make_impossible_is_a_need_of_the_head() -> None:
    told = PlanError("3 ranks on node n2, which takes 2", "give it fewer")
    readings = with_refusal({"n1": Readings(), "n2": Readings()}, "n1", told)
    found = [each for each in judge(readings, Asked()).findings if each.id == "run.needs"]
    assert [(each.node, each.verdict) for each in found] == [("n1", Verdict.FAIL), ("n2", Verdict.SKIP)]
    assert (found[0].message, found[0].fix) == (told.message, told.hint)
