"""A launch plan for people: as text to read, and as shell scripts to run by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rankdeck_profiles import shell
from rankdeck_profiles.masking import shown
from rankdeck_profiles.plan import LaunchPlan, NodePlan, Process, ProcessKind
from rankdeck_profiles.rank_view import also_set, given_to_ranks
from rankdeck_profiles.scripts import as_scripts
from rankdeck_profiles.settings import OWN

__all__ = ["as_scripts", "as_text", "command_text", "process_title"]


def as_text(plan: LaunchPlan) -> str:
    """The whole plan as text: for every node its ranks, environment with reasons, commands, removals."""
    lines = [
        f"{plan.framework}: {_count(plan.world_size, 'rank')} on {_count(len(plan.nodes), 'node')}",
        f"head node {_clean(plan.head.node)}: rank 0 listens on {_clean(plan.head.endpoint)}",
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
    cwd = node.processes[0].cwd if node.processes else node.cwd
    if cwd:
        lines.append(f"  in {_clean(cwd)}")
    lines += _environment(plan, node)
    if node.rank_env:
        lines.append(f"  the environment of ranks {_spans(node.ranks)}:")
        lines += _rows(plan, node, node.rank_env, "    ")
        for name in ("RANK", "LOCAL_RANK"):
            lines.append(f"    {name}, on each rank: {_clean(plan.reason(node, name))}")
        lines.append(f"    and {', '.join(OWN)}")
    for process in node.processes:
        if process.kind is ProcessKind.LAUNCHER:
            lines += _given(plan, node, process)
        title = process_title(plan, process)
        command = shell.wrapped([_clean(shell.word(part)) for part in process.argv], "      ")
        lines += [f"  {title}:", *(f"    {line}" for line in command.split("\n"))]
    if not node.processes:
        lines.append(f"  its ranks are started by mpirun on {_clean(plan.head.node)}")
    lines += [
        f"  removed {_clean(variable.name)}={_clean(variable.value)}  ({variable.why})"
        for variable in node.env_removed
    ]
    lines += [
        f"  kept {_clean(variable.name)}={_clean(variable.value)}  ({variable.why})"
        for variable in node.env_kept
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
    if node.processes[0].kind is ProcessKind.MPIRUN:
        return ["  the environment of mpirun itself:", *_rows(plan, node, first, "    ")] if first else []
    lines = _rows(plan, node, {name: first[name] for name in shared}, "  ")
    for process in node.processes:
        own = [
            f"{name}={_clean(shown(name, value))}"
            for name, value in process.env.items()
            if name not in shared
        ]
        if own:
            lines.append(f"  rank {_spans(process.ranks)}: {' '.join(own)}")
    if node.processes[0].kind is ProcessKind.RANK:
        lines.append(f"  and {', '.join(OWN)}")
    return lines


def _given(plan: LaunchPlan, node: NodePlan, process: Process) -> list[str]:
    """What the launcher itself sets for its ranks, a line a variable."""
    rows = []
    for one in given_to_ranks(plan, node, process):
        values = one.values[:1] if len(set(one.values)) == 1 else one.values
        rows.append((f"{one.name}={','.join(values)}", one.why))
    also = ", ".join(also_set(plan, process))
    return [f"  each rank gets from {plan.framework}:", *_table(rows, "    "), f"    and {also}"]


def _rows(plan: LaunchPlan, node: NodePlan, env: Mapping[str, str], indent: str) -> list[str]:
    """A line a variable: its value, and why."""
    rows = [(f"{name}={_clean(shown(name, value))}", plan.reason(node, name)) for name, value in env.items()]
    return _table(rows, indent)


def _table(rows: Sequence[tuple[str, str]], indent: str) -> list[str]:
    width = min(max((len(row[0]) for row in rows), default=0), 44)
    return [f"{indent}{assignment:<{width}}  {_clean(why)}".rstrip() for assignment, why in rows]


def process_title(plan: LaunchPlan, process: Process) -> str:
    """What a process is: whose ranks, in which role, and what ends it."""
    ranks = _spans(process.ranks)
    if process.kind is ProcessKind.MPIRUN:
        return f"one mpirun for ranks {ranks}, on all nodes"
    if process.kind is ProcessKind.LAUNCHER:
        return f"one {plan.framework} for ranks {ranks}"
    title = f"rank {ranks}" + (f", {process.role}" if process.role else "")
    if process.inside:
        title += f", which starts {process.inside} more by itself"
    if process.ends_with is not None:
        title += f", ended when rank {_spans(process.ends_with.ranks)} has ended"
    return title


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
