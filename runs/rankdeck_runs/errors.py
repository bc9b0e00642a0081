"""What goes wrong on this floor, and problems of several nodes told as one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from rankdeck_backends.base import NodeError, NodeRefusal
from rankdeck_profiles.errors import RankdeckError
from rankdeck_profiles.plan import LaunchPlan

NODE_NOT_REACHED = 3
_QUOTED = re.compile(r"`[^`]*`")


class PrepareError(RankdeckError):
    """A run can't be started: nodes can't be reached, or lack what it needs.

    Attributes:
        problems: (node, what is wrong there), every one found.
        plan: what would have run, made of what the nodes told; None where there is none.
        remedy: the hint, without the words of the command line.
        checks_failed: checks are among the problems; they can be overruled.
    """

    def __init__(
        self,
        problems: Iterable[tuple[str, str]],
        hint: str,
        exit_status: int,
        plan: LaunchPlan | None = None,
        *,
        checks_failed: bool = False,
    ) -> None:
        self.problems = tuple(problems)
        self.plan = plan
        self.remedy = hint
        self.checks_failed = checks_failed
        also = "`rankdeck check` shows what else was found; --skip-checks starts the run all the same"
        hints = filter(None, (hint, also if checks_failed else ""))
        super().__init__(listed(self.problems), "\n  ".join(hints))
        self.exit_status = exit_status


class UnwrittenError(RankdeckError):
    """A run's record can't be written: the disk is full, above all."""

    exit_status = 1

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"the record {path} can't be written: {why}",
            "make room there: nothing is lost, the nodes keep it all and are asked again",
        )


class LaunchError(RankdeckError):
    """The start failed on a node; what had started elsewhere was stopped.

    Attributes:
        run_id: the run, which is recorded as failed.
        problems: (node, what went wrong there).
    """

    def __init__(self, run_id: str, problems: Iterable[tuple[str, str]], hint: str, exit_status: int) -> None:
        self.run_id = run_id
        self.problems = tuple(problems)
        super().__init__(f"run {run_id} could not be started: {listed(self.problems)}", hint)
        self.exit_status = exit_status


class NotAskedError(RankdeckError):
    """A node was not asked to start its ranks: the launch had been called off."""


class CalledOffError(RankdeckError):
    """A launch was called off by the person.

    Attributes:
        run_id: the run, which is recorded as stopped.
        problems: (node, why something of the run may still be there); none: nothing of it is left.
    """

    exit_status = 1

    def __init__(self, run_id: str, problems: Iterable[tuple[str, str]]) -> None:
        self.run_id = run_id
        self.problems = tuple(problems)
        if self.problems:
            left = listed(self.problems)
            super().__init__(
                f"the launch of run {run_id} was called off, but not all of it is gone: {left}",
                f"`rankdeck stop {run_id}` tries again",
            )
        else:
            super().__init__(f"the launch was called off: nothing of run {run_id} is left on any node")


def listed(problems: Iterable[tuple[str, str]]) -> str:
    """One problem as a sentence, several as a list, equal ones of several nodes together."""
    nodes: dict[str, list[str]] = {}
    for node, message in problems:
        nodes.setdefault(message, []).append(node)
    lines = [f"{', '.join(names)}: {message}" for message, names in nodes.items()]
    if len(lines) == 1:
        return lines[0]
    return f"{len(lines)} problems:" + "".join(f"\n  {line}" for line in lines)


def problems_of(failed: Mapping[str, RankdeckError]) -> list[tuple[str, str]]:
    """(node, problem) for each node's error."""
    problems: list[tuple[str, str]] = []
    for node, error in failed.items():
        if isinstance(error, NodeRefusal):
            problems += [(p.node, p.message + (f" ({p.why})" if p.why else "")) for p in error.problems]
        else:
            problems.append((node, without_node(node, error.message)))
    return problems


def hints_of(failed: Mapping[str, RankdeckError]) -> str:
    """All their hints, each once; of those that differ in the command alone, the first."""
    alike: dict[str, list[str]] = {}
    for hint in dict.fromkeys(error.hint for error in failed.values() if error.hint):
        alike.setdefault(_QUOTED.sub("``", hint), []).append(hint)
    return "\n  ".join(
        f"{hints[0]} (likewise for the {len(hints) - 1} others)" if len(hints) > 2 else "\n  ".join(hints)
        for hints in alike.values()
    )


def not_reached(failed: Mapping[str, RankdeckError]) -> bool:
    """Whether one of the errors is that a node couldn't be reached."""
    return any(isinstance(error, NodeError) for error in failed.values())


def without_node(node: str, message: str) -> str:
    """A node's message without the node's name before it, where names are put there anyway."""
    return message.removeprefix(f"{node}: ")
