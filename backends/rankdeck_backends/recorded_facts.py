"""From recorded nodes to the facts that planning needs: a plan for nodes that nobody contacts."""

from __future__ import annotations

from collections.abc import Mapping

from rankdeck_backends.preflight.accelerators import Accelerators
from rankdeck_profiles.environment import leftover
from rankdeck_profiles.fabric.choice import choose
from rankdeck_profiles.fabric.inherited import environment
from rankdeck_profiles.fabric.node import NodeFabric
from rankdeck_profiles.fabric.sockets import Place, meet
from rankdeck_profiles.facts import GpuFacts, NodeFacts, mpi_from_json
from rankdeck_profiles.leftovers import KEPT, LEFTOVERS
from rankdeck_profiles.masking import shown
from rankdeck_profiles.model import BackendKind, Pool, PoolNode
from rankdeck_profiles.readings import Readings

POOL = "recorded"
"""The name of the pool that recorded nodes are planned as."""


def pool_of(readings: Mapping[str, Readings]) -> Pool:
    """A pool of the recorded nodes, as reached by ssh."""
    return Pool(POOL, BackendKind.SSH, tuple(PoolNode(name, name) for name in readings))


def facts_of(readings: Mapping[str, Readings]) -> dict[str, NodeFacts]:
    """What recorded nodes would have said, as far as they were read.

    Args:
        readings: by node, the head first. A recording that comes twice stands for two such nodes.
    """
    fabrics = {name: NodeFabric(found) for name, found in readings.items()}
    places = meet(fabrics, rdma=choose(fabrics).kind is not None).places
    machines: set[str] = set()
    facts = {}
    for name, found in readings.items():
        boot = found.file("/proc/sys/kernel/random/boot_id") or ""
        machine = boot if boot not in machines else f"{boot} of {name}"
        machines.add(boot)
        facts[name] = _facts(name, found, places.get(name), machine)
    return facts


def _facts(name: str, readings: Readings, place: Place | None, machine: str) -> NodeFacts:
    own = environment(readings) or {}
    uid, mpi = readings.number("uid"), readings.mapping("mpi")
    return NodeFacts(
        node=name,
        hostname=readings.text("hostname") or name,
        home=readings.text("home") or own.get("HOME", ""),
        address=str(place.address.ip) if place else "",
        interface=place.interface.name if place else None,
        network=str(place.network) if place else None,
        cpus=max(1, int(readings.number("cpus_allowed") or 1)),
        memory_mib=_memory_mib(readings),
        gpus=_gpus(readings),
        machine=machine,
        leftovers={
            each: shown(each, value)
            for each, value in own.items()
            if leftover(each, (*LEFTOVERS, *KEPT)) is not None
        },
        uid=None if uid is None else int(uid),
        mpi=mpi_from_json(mpi) if mpi and isinstance(mpi.get("family"), str) else None,
        readings=readings,
    )


def _memory_mib(readings: Readings) -> int:
    for line in (readings.file("/proc/meminfo") or "").splitlines():
        name, _, value = line.partition(":")
        amount = value.split()[0] if value.split() else ""
        if name == "MemTotal" and amount.isdecimal():
            return int(amount) // 1024
    return 0


def _gpus(readings: Readings) -> tuple[GpuFacts, ...]:
    found = []
    for place, gpu in enumerate(Accelerators(readings).smi.gpus):
        index, memory = gpu.number("index"), gpu.number("memory.total")
        found.append(
            GpuFacts(
                place if index is None else int(index),
                gpu.text("name") or "GPU",
                gpu.text("uuid") or "",
                None if memory is None else int(memory),
            )
        )
    return tuple(found)
