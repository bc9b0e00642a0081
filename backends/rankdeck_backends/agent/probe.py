"""`probe`: what this node says of itself. Facts only; what may hang runs in children with a time limit."""

import fnmatch
import os
import socket
import sys
import time

from . import environment, gpus, mpi, network, processes, remains
from .encoding import text
from .identity import NAME_LIMIT, home, python_version, user_name
from .limited import call
from .requests import field
from .samples import memory_mib

GPU_LIMIT = 1.2
"""Seconds for nvidia-smi: without persistence mode it wakes each GPU first."""


def answer(request, send):
    """`probe`: replies `facts`."""
    ports = field(request, "ports", dict, {})
    found, note = gpus.facts(GPU_LIMIT)
    memory, _ = memory_mib()
    own = environment.inherited()
    facts = {
        "hostname": socket.gethostname(),
        "fqdn": full_name(),
        "home": text(home()),
        "user": user_name(),
        "uid": os.getuid(),
        "boot": processes.boot_id(),
        "time": time.time(),
        "kernel": os.uname().release,
        "python": {"version": python_version(), "executable": sys.executable},
        "cpus": len(os.sched_getaffinity(0)),
        "memory_mib": memory,
        "gpus": found,
        "gpu_note": note,
        "interfaces": network.interfaces(),
        "ssh_server_address": ssh_server_address(own),
        "leftovers": leftovers(own, field(request, "leftovers", list, [])),
        "shell": text(own.get(b"SHELL", b"")),
        "path": text(own.get(b"PATH", b"")),
        "folder": request["folder"],
        "remains": remains.of_runs(),
    }
    if ports:
        facts["free_port"] = network.free_port(
            field(ports, "address", str), field(ports, "start", int), field(ports, "count", int)
        )
    for name, found_by in (("mpi", mpi.facts), ("software", mpi.software)):
        asked = field(request, name, dict, {})
        if asked:
            facts[name] = found_by(asked)
    return {"facts": facts}, b""


def full_name():
    """The fully qualified name, or the plain one if the name service is slow."""
    found = call(lambda: socket.getfqdn().encode(), NAME_LIMIT)
    return found.decode("utf-8", "replace") if found else socket.gethostname()


def ssh_server_address(own):
    """The address we were reached at, or None (SSH_CONNECTION: client, its port, server, its port)."""
    words = own.get(b"SSH_CONNECTION", b"").split()
    return text(words[2]) if len(words) == 4 else None


def leftovers(own, globs):
    """The variables whose names match, with their values as they are."""
    return {
        text(name): text(value)
        for name, value in sorted(own.items())
        if any(fnmatch.fnmatchcase(text(name), glob) for glob in globs)
    }
