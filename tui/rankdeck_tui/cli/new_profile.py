"""What `rankdeck profiles new` asks a person who did not say everything, and why it proposes what it does."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankdeck_profiles import frameworks, pools
from rankdeck_profiles.errors import FieldError, RankdeckError
from rankdeck_profiles.model import Profile
from rankdeck_tui import words
from rankdeck_tui.cli import output
from rankdeck_tui.cli.questions import ask
from rankdeck_tui.program import PROGRAM_KEYS, Program, Seen, look_into, program_of

if TYPE_CHECKING:
    from rankdeck_profiles.library import Library
    from rankdeck_profiles.model import Pool

_COUNT = re.compile(r"(\d+)(\s+(?:in all|in total|altogether))?")


class AnswerError(RankdeckError):
    """An answer that can't be taken."""


def missing(given: Mapping[str, Any]) -> list[str]:
    """What a profile can't be without and the command line does not say: `framework`, `program`."""
    lacking = [] if given.get("framework") else ["framework"]
    return lacking if any(given.get(key) for key in PROGRAM_KEYS) else [*lacking, "program"]


def refusal(given: Mapping[str, Any], folder: Path) -> RankdeckError:
    """Why a profile can't be saved that lacks something, where nobody can be asked."""
    lacking = missing(given)
    if "program" in lacking:
        return AnswerError(
            "what is run? Neither --script nor --module is given",
            "give --script train.py, --module package.train or --set 'command=[\"./program\"]'",
        )
    seen = look_into(_given_program(given), _workdir(given, folder))
    proposal = f"{seen.says}: --framework {seen.guess.framework} fits; " if seen.guess else ""
    return AnswerError(
        "which framework is it written for? --framework is not given",
        f"{proposal}allowed: {', '.join(frameworks.names())}",
    )


def doubts(given: Mapping[str, Any], library: Library) -> list[str]:
    """What may be a mistake in a profile that nobody was asked about; all of it may be meant.

    Args:
        given: dotted keys that the command line says.
        library: for the pools there are.
    """
    seen = look_into(_given_program(given), _workdir(given, library.start_dir))
    found = [] if seen.found else [seen.says]
    if seen.guess is not None and seen.guess.framework != given["framework"]:
        found.append(f"{seen.says}: {seen.guess.framework} would fit, too")
    if given.get("pool"):
        try:
            library.pool(given["pool"])
        except RankdeckError as error:
            found.append(error.message)
    return found


def questions(name: str, given: Mapping[str, Any], library: Library) -> dict[str, Any]:
    """Asks for all that is not given.

    Args:
        name: the new profile's.
        given: dotted keys that the command line says.
        library: for the pools there are.

    Returns:
        `given` and the answers; an answer that is the default is left out.

    Raises:
        KeyboardInterrupt: the person wants to leave; nothing is saved.
    """
    _tell(f"New profile {name}. Enter takes what is in [brackets]; Ctrl-C leaves and saves nothing.")
    values = _what(given, library.start_dir)
    if "pool" not in values:
        values["pool"] = _pool(library)
    pool = library.pool(values["pool"])
    if values["pool"] == pools.LOCAL and pool.source is None:
        del values["pool"]  # this machine needs no key
    values.update(_size(values, pool))
    return {key: values[key] for key in sorted(values, key=_place)}


def _place(key: str) -> int:
    """Where a key stands in the file: what is run first, tables last."""
    first = ("framework", *PROGRAM_KEYS, "args", "python", "pool")
    return first.index(key) if key in first else len(first) + ("." in key)


# What is run, and by which framework.


def _what(given: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    while True:
        values = dict(given)
        if "program" in missing(given):
            program = _program()
            values.update(program.keys)
            values["args"] = [*program.args, *(given.get("args") or [])]
        else:
            program = _given_program(given)
        seen = look_into(program, _workdir(given, folder))
        if "framework" in missing(given):
            _choose_framework(values, seen)
        elif seen.guess is not None and seen.guess.framework != given["framework"]:
            _tell(f"{seen.says}: {seen.guess.framework} would fit, too.")
        try:
            frameworks.get(values["framework"]).check(_profile(values))
        except FieldError as error:
            if not missing(given):
                raise
            output.error(error.message, error.hint)
            continue
        return values


def _program() -> Program:
    def read(text: str) -> Program:
        try:
            words = shlex.split(text)
        except ValueError as problem:
            raise AnswerError(f"{problem}", "close the quote, or put a backslash before it") from None
        if not words:
            raise AnswerError("what is run?", "a script such as train.py, -m package.train, or any program")
        return program_of(words)

    _tell("")
    _tell(
        "What is run? A script with its arguments, -m package.module, or any program; "
        "alone, without a launcher before it."
    )
    return ask("script", read)


def _workdir(given: Mapping[str, Any], folder: Path) -> Path:
    """Where the script is looked for: in the working directory, if that is given."""
    return folder / os.path.expanduser(str(given.get("workdir", ".")))


def _given_program(given: Mapping[str, Any]) -> Program:
    keys = {key: given[key] for key in PROGRAM_KEYS if given.get(key)}
    return Program(keys, tuple(given.get("args") or ()))


def _choose_framework(values: dict[str, Any], seen: Seen) -> None:
    proposed = seen.guess.framework if seen.guess else frameworks.names()[0]
    _tell("")
    if seen.says:
        fits = f": {proposed} fits" if seen.guess else ""
        _tell(f"{seen.says}{fits}.")
    if seen.guess and seen.guess.caution:
        output.warning(seen.guess.caution)
    _tell("Which framework is it written for?")
    for name, summary in frameworks.summaries().items():
        mark = ">" if name == proposed else " "
        _tell(summary, f"{mark} {name:<13} ")
    chosen = ask("framework", lambda text: frameworks.get(text or proposed), default=proposed)
    values["framework"] = chosen.name
    _tell(chosen.advice, "  ")
    if seen.guess and seen.guess.framework == chosen.name:
        for key, value in seen.guess.options.items():
            values.setdefault(f"options.{key}", value)
            _tell(f"options.{key} = {_toml(value)} goes with it: {seen.says}.", "  ")


# Where, and how many.


def _pool(library: Library) -> str:
    known = {pools.LOCAL: library.pool(pools.LOCAL), **{pool.name: pool for pool in library.pools()}}
    if len(known) == 1:
        return pools.LOCAL

    def read(text: str) -> str:
        return library.pool(text or pools.LOCAL).name

    _tell("")
    _tell("Where does it run?")
    for name, pool in known.items():
        what = "this machine" if pool.source is None else f"{pool.backend}, {_nodes(pool)}"
        _tell(what, f"  {name:<13} ")
    return ask("pool", read, default=pools.LOCAL)


def _size(values: Mapping[str, Any], pool: Pool) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    framework = frameworks.get(values["framework"])
    profile = _profile(values)
    if "nodes" not in values and len(pool.nodes) > 1:
        _tell("")
        for line in frameworks.ADVICE[1:]:
            _tell(line)
        answers["nodes"] = ask(
            f"nodes, of the {len(pool.nodes)} in {pool.name}",
            lambda text: _nodes_of(text, pool),
            default="all",
        )
    if "procs_per_node" in values or "process_count" in values or framework.starts_more(profile):
        return answers
    _tell("")
    _tell(frameworks.ADVICE[0])
    alone = not frameworks.one_a_slot(profile)
    known = words.slots(pool)
    slots = "one for each GPU" if known == "auto" else f"{known}, one a slot"
    default = "1" if alone else slots
    answers.update(ask('ranks on each node, or such as "16 in all"', _ranks, default=default))
    return answers


def _nodes_of(text: str, pool: Pool) -> int | None:
    if text in ("", "all"):
        return None
    count = int(text) if text.isdecimal() and text.isascii() else 0
    if not 1 <= count <= len(pool.nodes):
        raise AnswerError(
            f"nodes = {text}", f"allowed: 1 to {len(pool.nodes)}, the nodes of pool {pool.name}; or all"
        )
    return count


def _ranks(text: str) -> dict[str, int]:
    if not text:
        return {}
    match = _COUNT.fullmatch(text) if text.isascii() else None
    if match is None or int(match[1]) < 1:
        raise AnswerError(f"ranks = {text}", 'allowed: a whole number, 1 or more; or such as "16 in all"')
    return {"process_count" if match[2] else "procs_per_node": int(match[1])}


def _profile(values: Mapping[str, Any]) -> Profile:
    """As much of the profile as frameworks ask about."""
    options = {key.partition(".")[2]: value for key, value in values.items() if key.startswith("options.")}
    return Profile(
        name="",
        framework=values["framework"],
        script=values.get("script"),
        module=values.get("module"),
        command=tuple(values.get("command") or ()),
        options={**values.get("options", {}), **options},
    )


# How it is said.


def _tell(text: str, head: str = "") -> None:
    """Text on stderr, wrapped to the terminal; further lines stand under the first one's text."""
    room = max(40, shutil.get_terminal_size((80, 24)).columns - 1)
    output.say(
        textwrap.fill(
            text, room, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False
        )
    )


def _nodes(pool: Pool) -> str:
    named = ", ".join(node.name for node in pool.nodes[:4]) + (", ..." if len(pool.nodes) > 4 else "")
    return f"{words.plural(len(pool.nodes), 'node')}: {named}"


def _toml(value: object) -> str:
    return (
        str(value).lower()
        if isinstance(value, bool)
        else f'"{value}"'
        if isinstance(value, str)
        else str(value)
    )


def farewell(name: str, framework: str) -> None:
    """What can be done with the profile now."""
    output.say(f"  rankdeck plan {name}   what will run where, with which environment, and why")
    output.say(f"  rankdeck run {name}    launches it; 'rankdeck' alone opens the screen")
    known = frameworks.get(framework).options
    if known:
        named = ", ".join(known)
        _tell(f"{framework} has settings of its own ({named}): press e on the profile in 'rankdeck'", "  ")
