"""Pieces of shell text that the printed scripts are made of."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence

from rankdeck_profiles import shell
from rankdeck_profiles.leftovers import Leftover


def comment(text: str) -> str:
    """Text that stays on one line."""
    return " ".join(text.split())


def exports(env: Mapping[str, str], indent: str = "") -> str:
    """Variables set for what follows."""
    return "".join(f"{indent}export {name}={shlex.quote(value)}\n" for name, value in env.items())


def required(env_from: Sequence[str]) -> str:
    """Variables that whoever runs the script must have set."""
    if not env_from:
        return ""
    lines = ["# Not part of the plan: set these before running the script.\n"]
    lines += [f': "${{{name}?is not set; export it first}}"\n' for name in env_from]
    return "".join(lines) + f"export {' '.join(env_from)}\n"


def removal(families: Iterable[Leftover], keep: Sequence[str], found: Sequence[str] = ()) -> str:
    """Other launchers' variables taken away.

    By pattern rather than by name: the shell that runs this need not be the one that was asked.

    Args:
        families: what is taken away.
        keep: names and patterns that stay all the same.
        found: names that the node had when it was asked, for the note.
    """
    note = f" Found when asked: {', '.join(found)}." if found else ""
    groups: dict[str, list[str]] = {}
    for entry in families:
        groups.setdefault(entry.why, []).append(entry.pattern)
    arms = "".join(
        f'        # {why}\n        {_alternatives(patterns)}) unset "$name" ;;\n'
        for why, patterns in groups.items()
    )
    kept = f"        {'|'.join(keep)}) ;;\n" if keep else ""
    return (
        f"# Variables of other launchers and schedulers are taken away.{note}\n"
        "for name in $(env | sed -n 's/^\\([A-Za-z_][A-Za-z0-9_]*\\)=.*/\\1/p'); do\n"
        '    case "$name" in\n'
        f"{kept}"
        f"{arms}"
        "    esac\n"
        "done\n"
        "# Else a bash -c that this starts may take itself for a login, and read ~/.bashrc again.\n"
        "export SHLVL=2\n"
    )


def enter(cwd: str) -> str:
    """Go to the working directory, or end."""
    # `--`, and ./ for a lone dash, which cd takes for the folder before.
    path = "-- ./-" if cwd == "-" else f"-- {shell.word(cwd)}"
    return f"cd {path} || exit\n"


def set_up(lines: Sequence[str], cwd: str) -> str:
    """The setup lines, in the working directory and back to it; a failing one ends the script."""
    return enter(cwd) + "set -e\n" + "".join(f"{line}\n" for line in lines) + "set +e\n" + enter(cwd)


def _alternatives(patterns: list[str]) -> str:
    return shell.wrapped([f"{pattern}|" for pattern in patterns], "        ").rstrip("|")
