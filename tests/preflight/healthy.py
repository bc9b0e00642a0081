"""A node with which everything is right, and small changes to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from preflight.recordings import changed, recorded
from rankdeck_profiles.readings import CommandReading, Readings

NETWORK = "10.77.0"


def healthy(number: int = 1) -> Readings:
    """One of several such nodes: the recorded one, and what was not yet asked when it was recorded."""
    name, address = f"n{number}", f"{NETWORK}.{10 + number}"
    others = {f"n{other}": f"{NETWORK}.{10 + other}" for other in (1, 2, 3) if other != number}
    return changed(
        _named(recorded("ndr-ok-a"), name, address),
        files={
            "/proc/sys/kernel/random/boot_id": f"00000000-0000-4000-8000-00000000000{number}\n",
            "/proc/meminfo": "MemTotal:  2097152000 kB\nMemAvailable:  2080000000 kB\n",
            "/proc/uptime": "86400.00 100.00\n",
            "/proc/sys/net/ipv4/ip_local_reserved_ports": "\n",
            "/sys/fs/cgroup/user.slice/pids.max": "629145\n",
            "/sys/fs/cgroup/user.slice/pids.current": "97\n",
            "/sys/fs/cgroup/user.slice/cpu.max": "max 100000\n",
            "/sys/fs/cgroup/user.slice/memory.max": "max\n",
        },
        commands={
            ("env",): "HOME=/home/user\nPATH=/usr/bin:/bin\n",
            ("nvidia-smi", "nvlink", "-s"): nvlinks(),
            ("journalctl", "-k"): "-- No entries --\n",
        },
        syscalls={
            "hostname": name,
            "resolve_self": [address],
            "address": address,
            "resolve_peers": {peer: [its] for peer, its in others.items()},
            "reverse_dns": [{"address": its, "seconds": 0.002, "name": peer} for peer, its in others.items()],
            "connects": [
                connect(peer, its, kind) for peer, its in others.items() for kind in ("random", "ssh")
            ],
            "ports": [{"port": 29400, "address": address, "state": "ok", "owner": None}],
            "ssh": {"state": "ok", "noise": "", "resets": 0},
            "rlimit_nofile_hard": 1048576,
            "glibc": "2.35",
            "cuda_driver": 12080,
            "needs": [],
            "python": python(),
            "torch": torch(),
            "torch_nccl": "2.27.3",
            "nccl_libs": [f"{WHEEL} 2.27.3"],
            "mpi": mpi(),
            "net_plugins": [],
            "code": code(),
            "paths": [folder("/home/user/work", "cwd"), folder("/var/tmp", "run")],
            "tmp_writable": "ok",
            "shared": [shared("/home/user/work")],
            "clock_error_s": 0.001,
        },
    )


WHEEL = "/opt/venv/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2"


def _named(readings: Readings, name: str, address: str) -> Readings:
    old = ("ip", "-json", "addr")
    listed = readings.command(*old)
    assert listed is not None
    guids = {
        path: text.replace("c2ff:fe00:", f"c2ff:fe{name[1:]:0>2}:") for path, text in readings.files.items()
    }
    return changed(
        readings,
        files={**guids, "/proc/sys/kernel/hostname": f"{name}\n"},
        commands={old: listed.stdout.replace("10.77.0.11", address)},
    )


def connect(to: str, address: str, kind: str = "random", state: str = "ok", **more: Any) -> dict[str, Any]:
    port = {"random": 41873, "rendezvous": 29400, "ssh": 22}[kind]
    return {
        "to": to,
        "kind": kind,
        "address": address,
        "port": port,
        "state": state,
        "seconds": 0.0004,
        **more,
    }


def python(**more: Any) -> dict[str, Any]:
    good = {"asked": "python3", "state": "ok", "path": "/opt/venv/bin/python3", "version": "3.11.9"}
    return {**good, "prefix": "/opt/venv", **more}


def need(kind: str, value: str, message: str, **more: Any) -> dict[str, Any]:
    """Something that a plan needs and that is not there."""
    return {"kind": kind, "value": value, "message": message, "why": "", "hint": "put it there", **more}


def torch(**more: Any) -> dict[str, Any]:
    archs = ["sm_80", "sm_90", "compute_90"]
    return {"state": "ok", "version": "2.6.0+cu124", "cuda": "12.4", "hip": None, "arch_list": archs, **more}


def mpi(**more: Any) -> dict[str, Any]:
    return {
        "family": "openmpi",
        "version": "4.1.6",
        "path": "/usr/bin/mpirun",
        "daemon": "/usr/bin/orted",
        **more,
    }


def code(**more: Any) -> dict[str, Any]:
    good = {"path": "/home/user/work/train.py", "state": "ok", "sha256": "ab" * 32, "git_head": "cd" * 20}
    return {**good, "git_dirty": False, **more}


def folder(path: str, purpose: str, **more: Any) -> dict[str, Any]:
    room = {"total_mib": 1000000, "avail_mib": 500000, "files_total": 1000000, "files_free": 900000}
    return {"path": path, "purpose": purpose, "state": "ok", "type": "nfs4", **room, "writable": "ok", **more}


def shared(path: str, **more: Any) -> dict[str, Any]:
    return {"path": path, "writer": "n1", "state": "ok", "seconds": 0.1, "answered": "ok", **more}


def nvlinks(inactive: Mapping[int, int] | None = None) -> str:
    """`nvidia-smi nvlink -s` of eight GPUs with four links each.

    Args:
        inactive: GPU -> the link of it that is inactive.
    """
    lines = []
    for gpu in range(8):
        lines.append(f"GPU {gpu}: NVIDIA H100 80GB HBM3 (UUID: GPU-{gpu})")
        for link in range(4):
            dead = (inactive or {}).get(gpu) == link
            lines.append(f"\t Link {link}: {'<inactive>' if dead else '26.562 GB/s'}")
    return "\n".join(lines) + "\n"


def with_cell(readings: Readings, gpu: int, field: str, cell: str) -> Readings:
    """With one cell of nvidia-smi's tables changed; a field that was not asked gets a query of its own."""
    found = [each for each in readings.commands if _asks(each, field)]
    if not found:
        rows = "\n".join(f"{index}, {cell if index == gpu else '[N/A]'}" for index in range(8))
        query = CommandReading(("nvidia-smi", f"--query-gpu=index,{field}", "--format=csv"), 0, rows + "\n")
        return replace(readings, commands=(*readings.commands, query))
    return replace(
        readings,
        commands=tuple(
            _changed(each, gpu, field, cell) if each in found else each for each in readings.commands
        ),
    )


def _fields(command: CommandReading) -> list[str]:
    return next((word[12:].split(",") for word in command.argv if word.startswith("--query-gpu=")), [])


def _asks(command: CommandReading, field: str) -> bool:
    return field in _fields(command)


def _changed(command: CommandReading, gpu: int, field: str, cell: str) -> CommandReading:
    place = _fields(command).index(field)
    lines = command.stdout.splitlines()
    for number, line in enumerate(lines):
        cells = line.split(", ")
        if cells[0] == str(gpu):
            cells[place] = cell
            lines[number] = ", ".join(cells)
    return replace(command, stdout="\n".join(lines) + "\n")


def without_queries(readings: Readings) -> Readings:
    """As if nvidia-smi were not there."""
    return replace(
        readings, commands=tuple(each for each in readings.commands if each.argv[0] != "nvidia-smi")
    )
