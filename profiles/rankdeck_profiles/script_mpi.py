"""The printed script of an mpirun: what the rank shim does is done by a shell on each rank.

mpirun hands no environment on that could be relied upon, so every rank's shell sets its own, by its rank.
"""

from __future__ import annotations

from rankdeck_profiles import frameworks, shell
from rankdeck_profiles.errors import PlanError
from rankdeck_profiles.frameworks.mpi_dialect import forwarding
from rankdeck_profiles.plan import FILES, LaunchPlan, NodePlan, Process, RankSource
from rankdeck_profiles.script_parts import enter, exports, removal, set_up

# --norc: the daemon came by ssh, so bash would read ~/.bashrc, which may set MPI's variables of another job.
_BY_BASH = 'command -v bash >/dev/null 2>&1 && exec bash --norc -c "$1" bash; exec sh -c "$1" sh'

_LONGEST = 130000
"""Bytes: Open MPI sets OMPI_ARGV to all arguments together, and no variable may be longer than 128 KiB."""


def mpirun(plan: LaunchPlan, process: Process) -> str:
    """The lines that start mpirun, with the ranks' shell text as its program.

    Raises:
        PlanError: the text is too long.
    """
    source = process.rank_from
    assert source is not None
    text = _rank_text(plan, process, source)
    if len(text.encode(errors="surrogateescape")) > _LONGEST:
        raise PlanError(
            "the variables of this plan are too large for a printed script: mpirun hands its ranks one text "
            f"of {_LONGEST} bytes at most",
            "put large values into files; `rankdeck run` has no such limit",
        )
    words = [_word(part) for part in forwarding(process.launcher, source, plan.env_from)]
    quoted = shell.word(text)
    program = ["sh", "-c", shell.word(_BY_BASH), "sh", quoted] if plan.setup else ["sh", "-c", quoted, "sh"]
    return _write_files(process) + f"exec {shell.wrapped([*words, *program])}\n"


def _rank_text(plan: LaunchPlan, process: Process, source: RankSource) -> str:
    keep = (*source.keep, *plan.env_from)
    first = plan.nodes[0].rank_env
    common = {
        name: value
        for name, value in first.items()
        if all(node.rank_env.get(name) == value for node in plan.nodes)
    }
    parts = [
        removal(frameworks.get(plan.framework).removes, keep),
        set_up(plan.setup, process.cwd) if plan.setup else enter(process.cwd),
        exports(common),
        f'RANK="${source.rank}"\n',
        "".join(_branch(node, common, number) for number, node in enumerate(plan.nodes)),
        "fi\nexport RANK LOCAL_RANK\n",
        "exec " + " ".join(shell.filled(part) for part in process.program),
    ]
    return "".join(parts)


def _branch(node: NodePlan, common: dict[str, str], number: int) -> str:
    own = {name: value for name, value in node.rank_env.items() if name not in common}
    return (
        f'{"el" if number else ""}if [ "$RANK" -le {node.ranks[-1]} ]; then\n'
        f"    LOCAL_RANK=$((RANK - {node.ranks[0]}))\n{exports(own, '    ')}"
    )


def _word(part: str) -> str:
    folder, found, rest = part.partition(FILES)
    return f'{folder}"$files"{shell.word(rest)}' if found else shell.word(part)


def _write_files(process: Process) -> str:
    if not process.files:
        return ""
    lines = ["files=$(mktemp -d) || exit\n"]
    lines += [
        f'printf %s {shell.word(text)} >"$files"/{shell.word(name)}\n' for name, text in process.files.items()
    ]
    return "".join(lines)
