"""A launch plan for people: as text to read, and as shell scripts to run by hand."""

from __future__ import annotations

from collections.abc import Sequence

from rankdeck_profiles import shell
from rankdeck_profiles.masking import shown
from rankdeck_profiles.plan import LaunchPlan, NodePlan, Process
from rankdeck_profiles.scripts import as_scripts

__all__ = ["as_scripts", "as_text", "command_text"]


def as_text(plan: LaunchPlan) -> str:
    """The whole plan as text: for every node its ranks, environment with reasons, commands, removals."""
    lines = [
        f"{plan.framework}: {_count(plan.world_size, 'rank')} on {_count(len(plan.nodes), 'node')}",
        f"head node {_clean(plan.head.node)}: rank 0 listens on {_clean(plan.head.address)}:{plan.head.port}",
    ]
    lines += [f"warning: {_clean(text)}" for text in plan.warnings]
    lines += [f"assumed: {_clean(text)}" for text in plan.assumed]
    if plan.setup:
        lines += ["", "setup, on every node before the program:"]
        lines += [f"  {_clean(line)}" for text in plan.setup for line in text.splitlines()]
    if plan.env_from:
        lines += ["", f"from the login shell, never recorded: {', '.join(plan.env_from)}"]
    for node in plan.nodes:
        lines += ["", *_node(plan, node)]
    return "\n".join(lines) + "\n"


def command_text(process: Process) -> str:
    """A process's command line as a person would type it, on one line."""
    return _clean(" ".join(shell.word(part) for part in process.argv))


def _node(plan: LaunchPlan, node: NodePlan) -> list[str]:
    lines = [
        f"node {_clean(node.node)} (node rank {node.node_rank}, {_clean(node.address)}): "
        f"ranks {_spans(node.ranks)}",
    ]
    if node.processes:
        lines.append(f"  in {_clean(node.processes[0].cwd)}")
    lines += _environment(plan, node)
    for process in node.processes:
        if process.launcher:
            title = f"one {plan.framework} for ranks {_spans(process.ranks)}"
        else:
            title = f"rank {_spans(process.ranks)}"
        command = shell.wrapped([_clean(shell.word(part)) for part in process.argv], "      ")
        lines += [f"  {title}:", *(f"    {line}" for line in command.split("\n"))]
    lines += [
        f"  removed {_clean(variable.name)}={_clean(variable.value)}  ({variable.why})"
        for variable in node.env_removed
    ]
    needed = ", ".join(
        f"{need.kind} {_clean(need.value)}" + (f" (for {_clean(need.by)})" if need.by else "")
        for need in node.needs
    )
    if needed:
        lines.append(f"  needs {needed}")
    return lines


def _environment(plan: LaunchPlan, node: NodePlan) -> list[str]:
    """What all of a node's processes share, once with reasons; then what differs, a line a process."""
    if not node.processes:
        return []
    first = node.processes[0].env
    shared = [
        name for name in first if all(process.env.get(name) == first[name] for process in node.processes)
    ]
    rows = [(f"{name}={_clean(shown(name, first[name]))}", plan.reasons.get(name, "")) for name in shared]
    width = min(max((len(row[0]) for row in rows), default=0), 44)
    lines = [f"  {assignment:<{width}}  {_clean(why)}".rstrip() for assignment, why in rows]
    for process in node.processes:
        own = [
            f"{name}={_clean(shown(name, value))}"
            for name, value in process.env.items()
            if name not in shared
        ]
        if own:
            lines.append(f"  rank {_spans(process.ranks)}: {' '.join(own)}")
    return lines


def _spans(ranks: Sequence[int]) -> str:
    """Ranks as people write them: 0-3,6."""
    spans: list[list[int]] = []
    for rank in ranks:
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _clean(text: str) -> str:
    """Text without characters that would move the cursor or colour a terminal; shown as escapes instead."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
