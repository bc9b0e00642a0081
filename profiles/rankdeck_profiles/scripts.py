"""A launch plan as shell scripts, one a node, that train the same when run by hand without rankdeck."""

from __future__ import annotations

from rankdeck_profiles import frameworks, script_mpi, shell
from rankdeck_profiles.frameworks import torch_agent
from rankdeck_profiles.model import OnRankFailure
from rankdeck_profiles.plan import LaunchPlan, NodePlan, Process, ProcessKind
from rankdeck_profiles.script_parts import comment, enter, exports, removal, required, set_up

_MANY = """\
main=$$
ranks=
stopped=
notes=$(mktemp -d) || exit
trap 'stopped=yes; test -z "$ranks" || kill -TERM $ranks 2>/dev/null' TERM INT HUP

# Starts the function rank_$1 in the background, and notes how it ended.
start() {
    (
        asked=
        program=
        trap 'asked=yes; interrupted=yes; test -z "$program" || kill -TERM "$program" 2>/dev/null' TERM
        trap '' INT HUP
        "rank_$1" &
        program=$!
        test -z "$asked" || kill -TERM "$program" 2>/dev/null
        status=
        while :; do
            interrupted=
            wait "$program"
            now=$?
            # A signal ends the wait early: wait again. If the status was there after all, that gives 127.
            test -n "$status" && test "$now" -eq 127 && break
            status=$now
            test -n "$interrupted" || break
        done
        if [ "$status" -ne 0 ] && [ -z "$asked" ]; then
            echo "rank $1 ended with status $status" >&2
            (set -C; echo "$status" >"$notes/first") 2>/dev/null
            ON_FAILURE
        fi
    ) &
    ranks="$ranks $!"
}
"""

_STOP_ALL = 'kill -TERM "$main" 2>/dev/null'

_SERVING = """\
# Ranks SERVING serve the others and never end by themselves.
test -z "$stopped" || kill -TERM $ranks $serving 2>/dev/null
for rank in $ranks; do
    while kill -0 "$rank" 2>/dev/null; do
        wait "$rank"
    done
done
kill -TERM $serving 2>/dev/null
ranks="$ranks $serving"
"""

_WAIT = """\
test -z "$stopped" || kill -TERM $ranks 2>/dev/null
for rank in $ranks; do
    while kill -0 "$rank" 2>/dev/null; do
        wait "$rank"
    done
done
status=0
if [ -e "$notes/first" ]; then
    read -r status <"$notes/first"
elif [ -n "$stopped" ]; then
    status=143
fi
rm -rf "$notes"
exit "$status"
"""


def as_scripts(plan: LaunchPlan) -> dict[str, str]:
    """One self-contained script a node.

    Args:
        plan: what to write down.

    Returns:
        Node name -> text for `sh`. Started on all nodes within the framework's own start-up time limit, they
        run what `rankdeck run` runs: the same variables taken away and set, the same setup lines, the same
        commands. Variables of `env_from` are taken from the shell that runs the script, and asked for. The
        exit status is the first failing rank's.

    Raises:
        PlanError: an mpirun's ranks cannot be handed so much (the variables are too large).
    """
    return {node.node: _script(plan, node) for node in plan.nodes}


def _script(plan: LaunchPlan, node: NodePlan) -> str:
    parts = [_heading(plan, node)]
    if not node.processes:
        parts.append(
            f"# Nothing to start here: mpirun on {comment(plan.head.node)} starts this node's ranks.\n"
        )
        return "\n".join(parts)
    if plan.setup:
        parts.append(
            "# Setup lines are read by bash where there is one.\n"
            'if [ -z "${BASH_VERSION-}" ] && [ -f "$0" ] && command -v bash >/dev/null 2>&1; then\n'
            '    exec bash "$0" "$@"\nfi\n'
        )
    families = frameworks.get(plan.framework).removes
    parts.append(required(plan.env_from))
    parts.append(removal(families, plan.env_from, [variable.name for variable in node.env_removed]))
    cwd = node.processes[0].cwd
    parts.append(set_up(plan.setup, cwd) if plan.setup else enter(cwd))
    process = node.processes[0]
    if process.kind is ProcessKind.MPIRUN:
        parts.append(exports(process.env))
        parts.append(script_mpi.mpirun(plan, process))
    elif len(node.processes) == 1:
        parts.append(exports(process.env))
        parts.append(_ending_note(process) + f"exec {_command(process)}\n")
    else:
        parts.append(_many(plan, node))
    return "\n".join(part for part in parts if part)


def _heading(plan: LaunchPlan, node: NodePlan) -> str:
    ranks = f"{node.ranks[0]}" if len(node.ranks) == 1 else f"{node.ranks[0]} to {node.ranks[-1]}"
    return (
        "#!/bin/sh\n"
        f"# {plan.framework}: node {comment(node.node)}, node rank {node.node_rank} of {len(plan.nodes)}; "
        f"ranks {ranks} of {plan.world_size}.\n"
        f"# Rank 0 listens on {comment(plan.head.endpoint)}.\n"
        "# Run the scripts of all nodes at the same time.\n"
    )


def _ending_note(process: Process) -> str:
    """For what serves ranks on other nodes: no script can see those end."""
    if process.ends_with is None:
        return ""
    others = ", ".join(map(str, process.ends_with.ranks))
    return f"# This rank serves the others and never ends by itself: stop it when rank {others} has ended.\n"


def _many(plan: LaunchPlan, node: NodePlan) -> str:
    common = dict(
        set.intersection(*(set(process.env.items()) for process in node.processes)) if node.processes else ()
    )
    shared = (
        {name: common[name] for name in node.processes[0].env if name in common} if node.processes else {}
    )
    lines = [exports(shared)]
    for process in node.processes:
        own = {name: value for name, value in process.env.items() if name not in shared}
        command = shell.wrapped([shell.word(part) for part in process.argv], "        ")
        lines.append(
            f"rank_{process.ranks[0]}() {{\n{exports(own, '    ')}"
            f"    {_ending_note(process)}    exec {command}\n}}\n"
        )
    on_failure = _STOP_ALL if plan.stop.on_rank_failure is OnRankFailure.STOP else ":"
    lines.append(_MANY.replace("ON_FAILURE", on_failure))
    serving = [process for process in node.processes if _ends_here(process, node)]
    lines.append(
        "".join(f"start {process.ranks[0]}\n" for process in node.processes if process not in serving)
        + (_serving(serving) if serving else "")
        + _WAIT
    )
    return "\n".join(line for line in lines if line)


def _ends_here(process: Process, node: NodePlan) -> bool:
    """Whether all the ranks that it ends with are on its own node, where the script sees them end."""
    return process.ends_with is not None and set(process.ends_with.ranks) <= set(node.ranks)


def _serving(processes: list[Process]) -> str:
    ranks = [str(process.ranks[0]) for process in processes]
    starts = "".join(f"start {rank}\n" for rank in ranks)
    return (
        "others=$ranks\nranks=\n"
        + starts
        + "serving=$ranks\nranks=$others\n"
        + _SERVING.replace("SERVING", ", ".join(ranks))
    )


def _command(process: Process) -> str:
    launcher = [shell.word(part) for part in process.launcher]
    program = process.program
    received = [torch_agent.received(part) for part in program] if process.macros else list(program)
    if not process.fill or not any("$" in part for part in received):
        return shell.wrapped([*launcher, *(shell.word(part) for part in program)])
    # Each rank's own shell fills the names in, from the variables its launcher gave it. The text goes
    # through the launcher too, which may take its dollars for its own.
    inner = "exec " + " ".join(shell.filled(part) for part in received)
    return shell.wrapped(
        [*launcher, "sh", "-c", shell.word(torch_agent.sent(inner) if process.macros else inner)]
    )
