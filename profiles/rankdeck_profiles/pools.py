"""Pools checked, and the pool that is there without a file."""

from __future__ import annotations

import difflib
import ipaddress
import os
from dataclasses import replace
from pathlib import Path

from rankdeck_profiles import hostfiles, nodes, schema, selection
from rankdeck_profiles.errors import PoolError
from rankdeck_profiles.model import BackendKind, Pool, PoolNode
from rankdeck_profiles.source import Source, content, decode

LOCAL = "local"
"""The name of the pool that needs no file: this machine."""

DEFAULT_LOCAL_NODES = ("127.0.0.1",)

_LATER = ("slurm",)
_BACKENDS = ", ".join(f'"{kind}"' for kind in BackendKind)


def local_pool() -> Pool:
    """This machine as a pool of one node: what a profile without a pool runs on."""
    return Pool(LOCAL, BackendKind.LOCAL, nodes.expand(DEFAULT_LOCAL_NODES))


def pool_from(read: Source) -> Pool:
    """A pool from a file already read.

    Raises:
        PoolError: it says something that cannot be.
    """
    raw = schema.convert(
        read,
        schema.PoolFile,
        {"backend": _BACKENDS, "nodes": 'a list of text, such as ["gpu[001-004]", "alice@gpu007:2222"]'},
    )
    backend = _backend(read, raw.backend)
    if raw.slots is not None and not 1 <= raw.slots <= nodes.MAX_SLOTS:
        raise read.problem(("slots",), f"slots = {raw.slots}", f"allowed: {schema.ALLOWED['slots']}")
    if raw.interface is not None and (
        not raw.interface.strip() or any(c in raw.interface for c in " \t\n\0/")
    ):
        raise read.problem(
            ("interface",), f'interface = "{raw.interface}"', 'allowed: one network interface, such as "ib0"'
        )
    entries = list(raw.nodes or ())
    if not entries and raw.nodes is None and raw.hostfile is None and backend is BackendKind.LOCAL:
        entries = list(DEFAULT_LOCAL_NODES)
    members = _listed(read, entries, needed=raw.hostfile is None)
    slots = raw.slots
    if raw.hostfile is not None:
        further, slots = _hostfile(read, raw.hostfile, slots)
        members = _joined(read, members, further)
    if backend is BackendKind.LOCAL:
        _check_local(read, members.nodes)
    pool = Pool(
        read.path.stem, backend, members.nodes, slots, raw.interface, read.path.absolute(), members.notes
    )
    return _narrowed(read, pool, raw)


def _narrowed(read: Source, pool: Pool, raw: schema.PoolFile) -> Pool:
    """Without what `include` and `exclude` leave out."""
    choice = selection.Choice(include=raw.include, exclude=raw.exclude)
    if not choice:
        return pool
    key = "include" if raw.include is not None else "exclude"
    try:
        return selection.select(pool, choice)
    except PoolError as problem:
        raise read.problem((key,), f"{key}: {problem.message}", problem.hint) from None


def _backend(read: Source, name: str) -> BackendKind:
    if name in list(BackendKind):
        return BackendKind(name)
    if name in _LATER:
        message = f'backend = "{name}" is not available in this version'
    else:
        near = difflib.get_close_matches(name.lower(), list(BackendKind), n=1)
        message = f'backend = "{name}" is not known' + (f'; did you mean "{near[0]}"?' if near else "")
    raise read.problem(("backend",), message, f"allowed: {_BACKENDS}")


def _listed(read: Source, entries: list[str], *, needed: bool) -> nodes.Listed:
    if not entries and needed:
        raise read.problem(
            ("nodes",),
            "the pool has no nodes",
            'list them, such as nodes = ["gpu[001-004]", "alice@gpu007:2222"]',
        )
    try:
        return nodes.listed(entries)
    except nodes.NodeSyntaxError as problem:
        written = read.value(("nodes",)) or []
        where = ("nodes", written.index(problem.entry)) if problem.entry in written else ("nodes",)
        raise read.problem(where, f"nodes: {problem.message}", problem.hint) from None
    except PoolError as problem:
        raise read.problem(("nodes",), f"nodes: {problem.message}", problem.hint) from None


def _hostfile(read: Source, name: str, slots: int | None) -> tuple[nodes.Listed, int | None]:
    """The nodes of a host file, and the pool's slots.

    Where the pool has no slots of its own and all the file's lines agree, they are the pool's; where the
    lines differ, each node has its own.
    """
    if not name.strip():
        raise read.problem(("hostfile",), f'hostfile = "{name}"', f"allowed: {schema.ALLOWED['hostfile']}")
    path = Path(os.path.expanduser(name))
    if not path.is_absolute():
        path = read.path.absolute().parent / path
    try:
        raw = content(path, hostfiles.MAX_BYTES + 1)
        if len(raw) > hostfiles.MAX_BYTES:
            raise read.problem(
                ("hostfile",),
                f"hostfile {path}: larger than {hostfiles.MAX_BYTES} bytes; that is no host file",
            )
        found = hostfiles.read(decode(raw, path, PoolError)).checked()
    except OSError as problem:
        raise read.problem(("hostfile",), f"hostfile {path}: cannot be read: {problem.strerror}") from None
    except hostfiles.HostfileError as problem:
        raise read.problem(("hostfile",), f"hostfile {path}: {problem.message}", problem.hint) from None
    notes = tuple(f"hostfile {path}: {note}" for note in found.notes)
    each = {node.slots for node in found.nodes}
    if slots is None and len(each) == 1:
        slots = each.pop()
    elif slots is None:
        return nodes.Listed(found.nodes, notes), None
    return nodes.Listed(tuple(replace(node, slots=None) for node in found.nodes), notes), slots


def _joined(read: Source, first: nodes.Listed, second: nodes.Listed) -> nodes.Listed:
    """The nodes of `nodes` and of the host file."""
    members = nodes.named((*first.nodes, *second.nodes))
    twice = nodes.repeated(members)
    if twice:
        raise read.problem(
            ("hostfile",),
            f"listed in nodes and in the host file: {', '.join(twice)}",
            "every node of a pool is listed once",
        )
    return nodes.Listed(members, first.notes + second.notes)


def _check_local(read: Source, members: tuple[PoolNode, ...]) -> None:
    for node in members:
        try:
            address = ipaddress.IPv4Address(node.host)
        except ValueError:
            address = None
        if address is None or not address.is_loopback or node.user or node.port:
            raise read.problem(
                ("nodes",),
                f'"{node.host}" is no node of the local backend',
                'allowed: loopback addresses of this machine, each its own node: ["127.0.0.1", "127.0.0.2"]',
            )
