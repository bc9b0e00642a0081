"""Is what the profile names on each node: folder, interpreter, script, modules, programs, ports."""

from __future__ import annotations

from rankdeck_backends.preflight.check import Check, Group
from rankdeck_backends.preflight.entries import Entry, entries, text
from rankdeck_backends.preflight.finding import Evidence, Outcome, failed, passed, skipped
from rankdeck_backends.preflight.subject import ProbedNode, ProbedPool
from rankdeck_profiles.readings import Readings

_SEEN_BY = {
    "file": ("sw.code",),
    "dir": ("sw.code", "sw.python", "fs.hung"),
    "program": ("sw.python", "sw.mpi"),
    "module": ("sw.torch",),
    "setup": ("sw.python", "sw.torch", "sw.mpi"),
    "login": ("ssh.any-to-any",),
}
"""Kind of need -> the checks that see the same: what is missing is told once."""


def needs(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """run.needs."""
    if not isinstance(node.readings.syscall("needs"), list):
        return skipped("not asked: no profile was named, there is no plan, or the node gave no answer")
    missing = entries(node.readings, "needs")
    if not missing:
        return passed("all that the profile names is there", Evidence.of("what the plan needs", "all there"))
    hints = dict.fromkeys(hint for each in missing if (hint := text(each, "hint")))
    return failed(
        "; ".join(_line(each) for each in missing),
        *(Evidence.of(_source(each), text(each, "message")) for each in missing),
        fix="; ".join(hints),
    )


def seen_as_need(readings: Readings, check_id: str) -> bool:
    """Whether a node lacks something that a check sees, too: `run.needs` is the cause then."""
    kinds = {text(each, "kind") for each in entries(readings, "needs")}
    return any(check_id in _SEEN_BY.get(kind or "", ()) for kind in kinds)


def _line(problem: Entry) -> str:
    """The first line of what was said; a setup line's own output stays with the evidence."""
    said = (text(problem, "message") or "no reason was given").strip().partition("\n")[0]
    why = text(problem, "why")
    return f"{said} ({why})" if why else said


def _source(problem: Entry) -> str:
    words = (text(problem, "kind") or "need", text(problem, "value") or "")
    return " ".join(filter(None, words))


CHECKS = (
    Check(
        id="run.needs",
        group=Group.SOFTWARE,
        title="what the profile names is there",
        reads="after the setup lines: the working directory, the interpreter, the script, and the modules "
        "and programs that the framework starts ranks with",
        rule="fail: something is missing, a setup line fails, or no plan can be made for these nodes; skip: "
        "there is no profile",
        symptom="No such file or directory, command not found, ModuleNotFoundError: on some node, after the "
        "others have begun to wait for it",
        fix="copy it to the node, or change the profile's key that names it",
        source="a launch refuses the same (docs/profiles.md)",
        node=needs,
    ),
)
