"""The mpirun that a non-interactive shell finds on each node."""

from __future__ import annotations

from rankdeck_backends.preflight.check import Check, Group
from rankdeck_backends.preflight.comparing import groups, odd_ones, side_by_side, told
from rankdeck_backends.preflight.entries import Entry
from rankdeck_backends.preflight.finding import Evidence, Outcome, failed, passed, skipped, warned
from rankdeck_backends.preflight.subject import ProbedNode, ProbedPool


def mpi(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """sw.mpi on one node."""
    answer = node.readings.mapping("mpi")
    if answer is None:
        return skipped("no MPI was asked for")
    note = str(answer.get("note") or "")
    evidence = Evidence.of("mpirun --version", note or _build(answer))
    if not _found(answer):
        return failed(f"no mpirun that works: {note or 'not on PATH'}", evidence)
    if answer.get("family") == "other":
        return passed(f"an MPI of another family: {note}", evidence)
    if "daemon" in answer and answer["daemon"] is None and not _one_path(pool):
        return failed(
            f"{_build(answer)} is found, but what it starts on other nodes is not on PATH (prted, orted, "
            "hydra_pmi_proxy)",
            evidence,
            Evidence.of("PATH of a non-interactive shell", "no such program"),
        )
    return passed(f"{_build(answer)} at {answer.get('path')}", evidence)


def _found(answer: Entry) -> bool:
    """Whether there is an mpirun that told its version, or whose version is not understood."""
    return answer.get("family") not in ("none", None)


def _one_path(pool: ProbedPool) -> bool:
    """Where mpirun has one path on all nodes, it is started by that and finds its programs beside it."""
    paths = {str((node.readings.mapping("mpi") or {}).get("path")) for node in pool}
    return len(paths) == 1


def same_mpi(pool: ProbedPool) -> Outcome:
    """sw.mpi over the pool."""
    answers = {
        node.name: found
        for node in pool
        if (found := node.readings.mapping("mpi")) is not None and _found(found)
    }
    if len(answers) < 2:
        return skipped("fewer than two nodes have an MPI, or were asked for it")
    minors = {name: _minor(each) for name, each in answers.items()}
    builds = {name: _build(each) for name, each in answers.items()}
    evidence = side_by_side("mpirun --version", builds)
    if odd := odd_ones(minors):
        return failed(f"different MPIs: {told(minors)}", *evidence, nodes=odd)
    if odd := odd_ones(builds):
        return warned(f"different MPI patch versions: {told(builds)}", *evidence, nodes=odd)
    return passed(f"all nodes have {groups(builds)[0][0]}", *evidence[:1])


def _build(answer: Entry) -> str:
    return f"{answer.get('family')} {answer.get('version')}".strip()


def _minor(answer: Entry) -> str:
    return f"{answer.get('family')} {'.'.join(str(answer.get('version')).split('.')[:2])}"


CHECKS = (
    Check(
        id="sw.mpi",
        group=Group.SOFTWARE,
        title="the same MPI on PATH",
        reads="mpirun --version after the setup lines, and prted, orted or hydra_pmi_proxy on PATH, in a "
        "shell that is not interactive",
        rule="fail: missing on a node, or family or major.minor differs, or the programs that it starts are "
        "not on PATH where mpirun is at other places on other nodes; warn: the patch version differs",
        symptom="orted: command not found; ORTE was unable to reliably start one or more daemons",
        fix="put MPI on PATH before the line of .bashrc that stops non-interactive shells, or in the "
        "profile's setup; Open MPI's --prefix does it, too",
        source="open-mpi/ompi issues 599 and 8870",
        node=mpi,
        pool=same_mpi,
    ),
)
