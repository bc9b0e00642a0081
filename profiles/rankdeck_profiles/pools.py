"""Pools checked, and the pool that is there without a file."""

from __future__ import annotations

import difflib
import ipaddress
import os
from pathlib import Path

from rankdeck_profiles import nodes, schema
from rankdeck_profiles.errors import PoolError
from rankdeck_profiles.model import BackendKind, Pool, PoolNode
from rankdeck_profiles.source import Source, decode

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
    if raw.slots is not None and raw.slots < 1:
        raise read.problem(("slots",), f"slots = {raw.slots}", "allowed: a whole number, 1 or more")
    if raw.interface is not None and (
        not raw.interface.strip() or any(c in raw.interface for c in " \t\n\0/")
    ):
        raise read.problem(
            ("interface",), f'interface = "{raw.interface}"', 'allowed: one network interface, such as "ib0"'
        )
    entries = list(raw.nodes or ())
    slots = raw.slots
    if raw.hostfile is not None:
        listed, file_slots = _hostfile(read, raw.hostfile)
        entries += listed
        slots = slots if slots is not None else file_slots
    if not entries and raw.nodes is None and raw.hostfile is None and backend is BackendKind.LOCAL:
        entries = list(DEFAULT_LOCAL_NODES)
    members = _expand(read, entries)
    if backend is BackendKind.LOCAL:
        _check_local(read, members)
    return Pool(read.path.stem, backend, members, slots, raw.interface, read.path.absolute())


def _backend(read: Source, name: str) -> BackendKind:
    if name in list(BackendKind):
        return BackendKind(name)
    if name in _LATER:
        message = f'backend = "{name}" is not available in this version'
    else:
        near = difflib.get_close_matches(name.lower(), list(BackendKind), n=1)
        message = f'backend = "{name}" is not known' + (f'; did you mean "{near[0]}"?' if near else "")
    raise read.problem(("backend",), message, f"allowed: {_BACKENDS}")


def _expand(read: Source, entries: list[str]) -> tuple[PoolNode, ...]:
    if not entries:
        raise read.problem(
            ("nodes",),
            "the pool has no nodes",
            'list them, such as nodes = ["gpu[001-004]", "alice@gpu007:2222"]',
        )
    try:
        return nodes.expand(entries)
    except nodes.NodeSyntaxError as problem:
        written = read.value(("nodes",)) or []
        where = ("nodes", written.index(problem.entry)) if problem.entry in written else ("hostfile",)
        raise read.problem(where, f"nodes: {problem.message}") from None
    except PoolError as problem:
        raise read.problem(("nodes",), f"nodes: {problem.message}", problem.hint) from None


def _hostfile(read: Source, name: str) -> tuple[list[str], int | None]:
    """The entries of a host file and the slots they agree on."""
    path = Path(os.path.expanduser(name))
    if not path.is_absolute():
        path = read.path.absolute().parent / path
    try:
        lines = nodes.read_hostfile(decode(path.read_bytes(), path, PoolError))
    except OSError as problem:
        raise read.problem(("hostfile",), f"hostfile {path}: cannot be read: {problem.strerror}") from None
    except nodes.NodeSyntaxError as problem:
        raise read.problem(("hostfile",), f"hostfile {path}: {problem.message}") from None
    slots = {line.slots for line in lines}
    if len(slots) > 1 and read.data.get("slots") is None:
        found = ", ".join(sorted(str(count or "none") for count in slots))
        raise read.problem(
            ("hostfile",),
            f"hostfile {path}: the slots differ ({found})",
            "a pool has one `slots` for all: set it here",
        )
    return [line.entry for line in lines], slots.pop() if len(slots) == 1 else None


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
