"""A launch plan as shell scripts, one a node, that train the same when run by hand without rankdeck."""

from __future__ import annotations

from collections.abc import Mapping

from rankdeck_profiles import frameworks, shell
from rankdeck_profiles.leftovers import LEFTOVERS
from rankdeck_profiles.model import OnRankFailure
from rankdeck_profiles.plan import LaunchPlan, NodePlan, Process

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
        if [ "$status" -ne 0 ]; then
            echo "rank $1 ended with status $status" >&2
            (set -C; echo "$status" >"$notes/first") 2>/dev/null
            ON_FAILURE
        fi
    ) &
    ranks="$ranks $!"
}
"""

_STOP_ALL = 'kill -TERM "$main" 2>/dev/null'

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
    """
    return {node.node: _script(plan, node) for node in plan.nodes}


def _script(plan: LaunchPlan, node: NodePlan) -> str:
    parts = [_heading(plan, node)]
    if plan.setup:
        parts.append(
            "# Setup lines are read by bash where there is one.\n"
            'if [ -z "${BASH_VERSION-}" ] && [ -f "$0" ] && command -v bash >/dev/null 2>&1; then\n'
            '    exec bash "$0" "$@"\nfi\n'
        )
    parts.append(_required(plan))
    parts.append(_remove(plan, node))
    cwd = node.processes[0].cwd if node.processes else "."
    enter = f"cd {_path(cwd)} || exit\n"
    if plan.setup:
        parts.append(enter + "set -e\n" + "".join(f"{line}\n" for line in plan.setup) + "set +e\n" + enter)
    else:
        parts.append(enter)
    if len(node.processes) == 1:
        process = node.processes[0]
        parts.append(_exports(process.env))
        parts.append(f"exec {_command(plan, process)}\n")
    else:
        parts.append(_many(plan, node))
    return "\n".join(part for part in parts if part)


def _heading(plan: LaunchPlan, node: NodePlan) -> str:
    ranks = f"{node.ranks[0]}" if len(node.ranks) == 1 else f"{node.ranks[0]} to {node.ranks[-1]}"
    return (
        "#!/bin/sh\n"
        f"# {plan.framework}: node {_comment(node.node)}, node rank {node.node_rank} of {len(plan.nodes)}; "
        f"ranks {ranks} of {plan.world_size}.\n"
        f"# Rank 0 listens on {_comment(plan.head.address)}:{plan.head.port}.\n"
        "# Run the scripts of all nodes at the same time.\n"
    )


def _required(plan: LaunchPlan) -> str:
    if not plan.env_from:
        return ""
    lines = ["# Not part of the plan: set these before running the script.\n"]
    lines += [f': "${{{name}?is not set; export it first}}"\n' for name in plan.env_from]
    return "".join(lines) + f"export {' '.join(plan.env_from)}\n"


def _remove(plan: LaunchPlan, node: NodePlan) -> str:
    """By pattern rather than by name: the shell that runs this need not be the one that was asked."""
    found = ", ".join(variable.name for variable in node.env_removed)
    note = f" Found when asked: {found}." if found else ""
    groups: dict[str, list[str]] = {}
    for entry in LEFTOVERS:
        groups.setdefault(entry.why, []).append(entry.pattern)
    arms = "".join(
        f'        # {why}\n        {_alternatives(patterns)}) unset "$name" ;;\n'
        for why, patterns in groups.items()
    )
    keep = f"        {'|'.join(plan.env_from)}) ;;\n" if plan.env_from else ""
    return (
        f"# Variables of other launchers and schedulers are taken away.{note}\n"
        "for name in $(env | sed -n 's/^\\([A-Za-z_][A-Za-z0-9_]*\\)=.*/\\1/p'); do\n"
        '    case "$name" in\n'
        f"{keep}"
        f"{arms}"
        "    esac\n"
        "done\n"
    )


def _alternatives(patterns: list[str]) -> str:
    return shell.wrapped([f"{pattern}|" for pattern in patterns], "        ").rstrip("|")


def _exports(env: Mapping[str, str], indent: str = "") -> str:
    return "".join(f"{indent}export {name}={_value(value)}\n" for name, value in env.items())


def _many(plan: LaunchPlan, node: NodePlan) -> str:
    common = dict(
        set.intersection(*(set(process.env.items()) for process in node.processes)) if node.processes else ()
    )
    shared = (
        {name: common[name] for name in node.processes[0].env if name in common} if node.processes else {}
    )
    lines = [_exports(shared)]
    for process in node.processes:
        own = {name: value for name, value in process.env.items() if name not in shared}
        command = shell.wrapped([shell.word(part) for part in process.argv], "        ")
        lines.append(f"rank_{process.ranks[0]}() {{\n{_exports(own, '    ')}    exec {command}\n}}\n")
    on_failure = _STOP_ALL if plan.stop.on_rank_failure is OnRankFailure.STOP else ":"
    lines.append(_MANY.replace("ON_FAILURE", on_failure))
    lines.append("".join(f"start {process.ranks[0]}\n" for process in node.processes) + _WAIT)
    return "\n".join(line for line in lines if line)


def _command(plan: LaunchPlan, process: Process) -> str:
    launcher = [shell.word(part) for part in process.launcher]
    if not process.fill:
        return shell.wrapped([*launcher, *(shell.word(part) for part in process.program)])
    framework = frameworks.get(plan.framework)
    received = [framework.received(part) for part in process.program]
    if not any("$" in part for part in received):
        return shell.wrapped([*launcher, *(shell.word(part) for part in process.program)])
    # Each rank's own shell fills the names in, from the variables its launcher gave it. The text goes
    # through the launcher too, which would take its dollars for its own.
    inner = "exec " + " ".join(shell.filled(part) for part in received)
    return shell.wrapped([*launcher, "sh", "-c", shell.word(framework.sent(inner))])


def _path(text: str) -> str:
    # `--`, and ./ for a lone dash, which cd takes for the folder before.
    return "-- ./-" if text == "-" else f"-- {shell.word(text)}"


def _value(text: str) -> str:
    import shlex

    return shlex.quote(text)


def _comment(text: str) -> str:
    return " ".join(text.split())
