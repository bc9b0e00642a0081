"""What a pool's form holds, understood while it is typed: nodes, notes, what is wrong. No widgets."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rankdeck_backends.pools import read_file
from rankdeck_profiles import hostfiles, nodes, ranges
from rankdeck_profiles.errors import PoolError
from rankdeck_profiles.hostfiles import Format, Hostfile
from rankdeck_profiles.hostfiles.model import listed
from rankdeck_profiles.model import PoolNode
from rankdeck_tui import words

PASTED_ALIKE = (Format.SLURM, Format.PLAIN, Format.MPICH)
"""Formats that a single line may have and be meant as it is typed: `n1:2222` in a pool is a port."""

_BEHIND = ("slots=", "gpus=")
_NOTES = 3


@dataclass(frozen=True, slots=True)
class Place:
    """One node, in words."""

    name: str
    login: str
    """User and port, where they are not ssh's own."""
    slots: str
    origin: str
    """Where it stands: a line of the host file, or empty for the field itself."""


@dataclass(frozen=True, slots=True)
class Understood:
    """All that the fields say."""

    places: tuple[Place, ...] = ()
    total: str = ""
    """`12 nodes, 96 slots`."""
    remarks: tuple[str, ...] = ()
    """How the host file was read, and what is odd in it."""
    wrong: tuple[tuple[str, str, str], ...] = ()
    """(field, what is wrong, hint)."""


def entries_of_text(text: str) -> list[str]:
    """Entries between blanks or commas, each with the words behind it (`n1 slots=4`)."""
    entries: list[str] = []
    for word in _words(text):
        if entries and word.startswith(_BEHIND):
            entries[-1] += f" {word}"
        else:
            entries.append(word)
    return entries


def understand(nodes_text: str, hostfile: str, slots: int | None, folder: Path) -> Understood:
    """What the fields stand for.

    Args:
        nodes_text: the field of nodes.
        hostfile: a path, or empty.
        slots: for all nodes; None: as listed.
        folder: what a relative path is relative to.
    """
    typed: tuple[PoolNode, ...] = ()
    found: Hostfile | None = None
    remarks: list[str] = []
    wrong: list[tuple[str, str, str]] = []
    try:
        listing = nodes.listed(entries_of_text(nodes_text))
        typed = listing.nodes
        remarks += listing.notes
    except PoolError as error:
        wrong.append(("nodes", error.message, error.hint))
    if hostfile:
        try:
            found = _in_form(read_file(str(folder / os.path.expanduser(hostfile))))
        except PoolError as error:
            wrong.append(("hostfile", error.message, ""))
    if found is not None:
        remarks += _remarks(found)
        if found.problems:
            problem = hostfiles.HostfileError(found)
            wrong.append(("hostfile", problem.message, problem.hint))
        slots = slots if slots is not None else _agreed(found)
    places = [_place(node, slots, "") for node in typed]
    if found is not None:
        places += [_place(node, slots, f"line {listed(found.lines[node.name])}") for node in found.nodes]
    return Understood(tuple(places), _total(places), tuple(remarks), tuple(wrong))


def pasted(text: str) -> Hostfile | None:
    """A host file's text where a person pasted one; None where it is to be taken as if typed."""
    if not text.strip():
        return None
    found = _in_form(hostfiles.read(text))
    if len(text.strip().splitlines()) == 1 and found.format in PASTED_ALIKE:
        return None
    return found


def _words(text: str) -> list[str]:
    """Between blanks and commas; the commas of `gpus=0,2` belong to it, as do those in brackets."""
    found: list[str] = []
    for word in ranges.split(text):
        if found and found[-1].startswith("gpus=") and word.replace("-", "").isdigit():
            found[-1] += f",{word}"
        else:
            found.append(word)
    return found


def _in_form(found: Hostfile) -> Hostfile:
    """A host file whose problems do not name the command line's ways out of them."""
    problems = tuple(
        replace(problem, fix="correct the file: each host once") if problem.is_choice else problem
        for problem in found.problems
    )
    return replace(found, problems=problems)


def _remarks(found: Hostfile) -> list[str]:
    notes = [str(note) for note in found.notes[:_NOTES]]
    if len(found.notes) > _NOTES:
        notes.append(f"and {len(found.notes) - _NOTES} more notes: `rankdeck pools show` lists them")
    left = [f"left out: {each.host} ({each.why})" for each in found.left_out]
    return [f"read as {found.format}: {found.why}", *left, *notes]


def in_short(remarks: Sequence[str]) -> str:
    """Remarks in one line, for a low screen: the first without its reason, and how many more there are."""
    if not remarks:
        return ""
    more = len(remarks) - 1
    return remarks[0].partition(":")[0] + (f", and {words.plural(more, 'remark')}" if more else "")


def _agreed(found: Hostfile) -> int | None:
    """The slots that all lines have: they are the pool's (`pools`)."""
    each = {node.slots for node in found.nodes}
    return each.pop() if len(each) == 1 else None


def _place(node: PoolNode, slots: int | None, origin: str) -> Place:
    login = " ".join(
        part
        for part in (f"user {node.user}" if node.user else "", f"port {node.port}" if node.port else "")
        if part
    )
    own = node.slots if slots is None or not origin else slots
    count = own if own is not None else slots
    gpus = "" if words.gpus_of(node) == "all" else f"GPUs {words.gpus_of(node)}"
    return Place(
        node.name, " ".join(filter(None, (login, gpus))), "auto" if count is None else str(count), origin
    )


def _total(places: list[Place]) -> str:
    if not places:
        return ""
    counts = [int(place.slots) for place in places if place.slots != "auto"]
    slots = words.plural(sum(counts), "slot") if len(counts) == len(places) else "slots counted on the nodes"
    return f"{words.plural(len(places), 'node')}, {slots}"
