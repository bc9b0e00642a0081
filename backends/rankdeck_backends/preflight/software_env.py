"""Variables that somebody set before rankdeck sets any, and what they would do to the run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rankdeck_backends.preflight.check import Check, Group
from rankdeck_backends.preflight.comparing import odd_ones, side_by_side, told
from rankdeck_backends.preflight.finding import Evidence, Outcome, Verdict, failed, passed, skipped, warned
from rankdeck_backends.preflight.subject import ProbedNode, ProbedPool
from rankdeck_profiles.fabric.inherited import Inherited, InheritedSet, environment, inherited

NUMBERS = re.compile(
    r"NCCL_(IB_(DISABLE|TIMEOUT|RETRY_CNT|PKEY|USE_INLINE|SL|TC|FIFO_TC|AR_THRESHOLD|PCI_RELAXED_ORDERING|ADAPTIVE_ROUTING"
    r"|GID_INDEX|QPS_PER_CONNECTION|SPLIT_DATA_ON_QPS|MERGE_NICS|MERGE_VFS|CUDA_SUPPORT|RETURN_ASYNC_EVENTS)"
    r"|(P2P|SHM|PXN|P2P_DIRECT)_DISABLE|CROSS_NIC|NVLS_ENABLE|DMABUF_ENABLE|IGNORE_(CPU_AFFINITY|NET_MISMATCH)|NTHREADS"
    r"|(MIN|MAX)_NCHANNELS|(MIN|MAX)_CTAS|BUFFSIZE|SOCKET_NTHREADS|NSOCKS_PERTHREAD|NET_GDR_READ|COLLNET_ENABLE"
    r"|CUMEM(_HOST)?_ENABLE|MNNVL_ENABLE|CHECKS_DISABLE|CHECK_POINTERS|LAUNCH_RACE_FATAL|RUNTIME_CONNECT)"
)
"""NCCL's variables that are read with strtoll (src/misc/param.cc, NCCL_PARAM): text there means 0."""

PKEYS = 128
"""Entries of the largest partition table (InfiniBand adapters of today): a greater number is no index."""

_NUMBER = re.compile(r"\s*[+-]?(0[xX][0-9a-fA-F]+|[0-9]+)")
_GPU_TRANSPORTS = ("cuda", "rocm", "gdr_copy", "all")
_PER_NODE = ("NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "NCCL_IB_GID_INDEX", "NCCL_IB_PKEY", "NCCL_HOSTID")
_ANY_VALUE = ("NCCL_DEBUG", "NCCL_TOPO_", "NCCL_GRAPH_", "NCCL_CONF_FILE")
_HARMFUL = {
    "NCCL_P2P_DISABLE": "keeps NCCL from NVLink and PCIe between GPUs",
    "NCCL_SHM_DISABLE": "keeps NCCL from shared memory within a node",
    "NCCL_IGNORE_NET_MISMATCH": "lets a run start that hangs where nodes have different networks",
}


@dataclass(frozen=True, slots=True)
class Trouble:
    """One variable that does harm, or nothing."""

    verdict: Verdict
    what: str
    evidence: Evidence


Rule = Callable[[ProbedNode, InheritedSet], Iterator[Trouble]]


def settings(node: ProbedNode, pool: ProbedPool) -> Outcome:
    """sw.env on one node."""
    found = inherited(node.readings, pool.asked.env)
    if environment(node.readings) is None and not found.effective and not found.without_effect:
        return skipped("which variables are set was not asked")
    rules = RULES if pool.on_one_machine else (*RULES, *BETWEEN_MACHINES)
    troubles = [trouble for rule in rules for trouble in rule(node, found)]
    if not troubles:
        ours = sorted(
            name for name in found.effective if name.startswith(("NCCL_", "UCX_", "GLOO_", "OMPI_MCA_"))
        )
        evidence = [_evidence(found.effective[name]) for name in ours]
        return passed("what is set already does no harm" if ours else "nothing is set already", *evidence)
    worst_first = sorted(troubles, key=lambda each: -each.verdict.severity)
    judged = failed if worst_first[0].verdict is Verdict.FAIL else warned
    return judged("; ".join(each.what for each in worst_first), *(each.evidence for each in worst_first))


def _fail(found: Inherited, what: str) -> Trouble:
    return Trouble(Verdict.FAIL, f"{found.name}={found.value} ({found.source}): {what}", _evidence(found))


def _warn(found: Inherited, what: str) -> Trouble:
    return Trouble(Verdict.WARN, f"{found.name}={found.value} ({found.source}): {what}", _evidence(found))


def _evidence(found: Inherited) -> Evidence:
    return Evidence.of(found.source, found.line)


def _values(found: InheritedSet, *names: str) -> Iterator[Inherited]:
    """Those of the named variables that are set to something."""
    for name in names:
        each = found.effective.get(name)
        if each is not None and each.value:
            yield each


def _true(found: Inherited) -> bool:
    number = _NUMBER.match(found.value)
    return number is not None and bool(number[1].lower().removeprefix("0x").strip("0"))


def disabled(node: ProbedNode, found: InheritedSet) -> Iterator[Trouble]:
    """InfiniBand switched off where there is some."""
    for each in _values(found, "NCCL_IB_DISABLE"):
        if _true(each) and node.fabric.usable:
            yield _fail(each, f"NCCL leaves the {len(node.fabric.usable)} usable RDMA ports unused")


def not_numbers(node: ProbedNode, found: InheritedSet) -> Iterator[Trouble]:
    """Text where a number is read."""
    for each in found.effective.values():
        if each.value and NUMBERS.fullmatch(each.name) and not _NUMBER.match(each.value):
            yield _fail(each, "NCCL reads a number here, and any text as 0")


def partition(node: ProbedNode, found: InheritedSet) -> Iterator[Trouble]:
    """A partition key where its index belongs."""
    for each in _values(found, "NCCL_IB_PKEY"):
        number = _NUMBER.match(each.value)
        digits = number[1] if number else "0"
        if len(digits) > 10 or int(digits, 16 if digits[:2].lower() == "0x" else 10) >= PKEYS:
            yield _fail(each, "the index of a key in the port's table is read here, not the key")


def harmful(node: ProbedNode, found: InheritedSet) -> Iterator[Trouble]:
    """Switches from guides that only make things slower."""
    for each in _values(found, *_HARMFUL):
        if _true(each):
            yield _warn(each, _HARMFUL[each.name])
    for each in _values(found, "NCCL_ALGO", "NCCL_PROTO"):
        yield _warn(each, "NCCL's own choice is better, and differs by size")


def empty(node: ProbedNode, found: InheritedSet) -> Iterator[Trouble]:
    """Set to nothing."""
    for each in found.effective.values():
        if not each.value and each.name.startswith(("NCCL_", "UCX_", "GLOO_", "TP_")):
            yield _warn(each, "is empty, which counts as not set")


def without_effect(node: ProbedNode, found: InheritedSet) -> Iterator[Trouble]:
    """Lines that set a variable of another name."""
    for each in found.without_effect:
        what = f"'{each.line.strip()}' in {each.source} does nothing: no blanks may stand beside ="
        yield Trouble(Verdict.WARN, what, _evidence(each))


def interfaces(node: ProbedNode, found: InheritedSet) -> Iterator[Trouble]:
    """Interfaces that are not there."""
    there = [each.name for each in node.fabric.interfaces]
    if not there:
        return
    for each in _values(found, "NCCL_SOCKET_IFNAME"):
        if not _any_matches(each.value, there):
            yield _fail(each, f"names no interface of this node ({', '.join(there)})")
    for each in _values(found, "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"):
        missing = [name for name in _names(each.value) if name not in there]
        if missing:
            yield _fail(each, f"there is no interface {', '.join(missing)} ({', '.join(there)})")


def devices(node: ProbedNode, found: InheritedSet) -> Iterator[Trouble]:
    """RDMA devices that are not there, and names that catch more than they say."""
    there = [each.name for each in node.fabric.devices]
    for each in _values(found, "NCCL_IB_HCA"):
        if each.value.startswith("^"):
            continue
        exact = each.value.startswith("=")
        asked = [name.partition(":")[0] for name in _names(each.value.lstrip("="))]
        if not there:
            yield _warn(each, "this node has no RDMA device")
            continue
        missing = [name for name in asked if not _matches(name, there, exact)]
        if missing:
            yield _fail(each, f"there is no {', '.join(missing)} ({', '.join(there)})")
        for name in asked if not exact else ():
            longer = [device for device in there if device.startswith(name) and device != name]
            if name in there and longer:
                yield _warn(
                    each, f"{name} is a prefix and takes {', '.join(longer)}, too: begin the value with ="
                )
    for each in _values(found, "UCX_NET_DEVICES"):
        known = {*there, *(interface.name for interface in node.fabric.interfaces)}
        asked = [name.partition(":")[0] for name in _names(each.value)]
        if known and "all" not in asked and not known.intersection(asked):
            yield _fail(each, f"none of these is on this node ({', '.join(sorted(known))})")


def transports(node: ProbedNode, found: InheritedSet) -> Iterator[Trouble]:
    """UCX without what moves GPU memory, and a transport that Open MPI no longer has."""
    for each in _values(found, "UCX_TLS"):
        for_gpus = any(name.startswith(_GPU_TRANSPORTS) for name in _names(each.value))
        if node.gpus.present and not for_gpus and not each.value.startswith("^"):
            yield _warn(each, "has no cuda_copy: GPU buffers crash or crawl")
    if _open_mpi(node) >= 5:
        for each in found.effective.values():
            of_openib = each.name.startswith("OMPI_MCA_btl_openib")
            chosen = each.name == "OMPI_MCA_btl" and "openib" in each.value and not each.value.startswith("^")
            if of_openib or chosen:
                yield _warn(each, "Open MPI 5 has no openib any more; UCX takes its place")


def _open_mpi(node: ProbedNode) -> int:
    answer = node.readings.mapping("mpi") or {}
    first = str(answer.get("version")).partition(".")[0]
    return int(first) if answer.get("family") == "openmpi" and re.fullmatch(r"[0-9]{1,3}", first) else 0


RULES: tuple[Rule, ...] = (not_numbers, partition, interfaces, harmful, empty, without_effect, transports)

BETWEEN_MACHINES: tuple[Rule, ...] = (disabled, devices)
"""What a run on one machine does without."""


def _names(value: str) -> list[str]:
    return [name.strip() for name in value.split(",") if name.strip()]


def _matches(name: str, there: Iterable[str], exact: bool) -> bool:
    return any(each == name if exact else each.startswith(name) for each in there)


def _any_matches(value: str, there: Sequence[str]) -> bool:
    """NCCL's list of interfaces: `=` exact, `^` all but these, else prefixes; any that is there will do."""
    marks = value[: len(value) - len(value.lstrip("^="))]
    exact, but = "=" in marks, "^" in marks
    asked = [name.partition(":")[0] for name in _names(value.lstrip("^="))]
    hits = [each for each in there if any(_matches(name, [each], exact) for name in asked)]
    return len(hits) < len(there) if but else bool(hits)


def same_settings(pool: ProbedPool) -> Outcome:
    """sw.env over the pool: what must be alike on all ranks and is not."""
    sets = {
        node.name: inherited(node.readings, pool.asked.env).effective
        for node in pool
        if environment(node.readings) is not None or inherited(node.readings, pool.asked.env).effective
    }
    if len(sets) < 2:
        return skipped("fewer than two nodes say which variables are set")
    names = {name for each in sets.values() for name in each if name.startswith("NCCL_")}
    differing = {}
    for name in sorted(names - set(_PER_NODE)):
        if not name.startswith(_ANY_VALUE):
            values = {node: found[name].value if name in found else "not set" for node, found in sets.items()}
            if odd_ones(values):
                differing[name] = values
    if not differing:
        return passed("the nodes have set the same")
    return warned(
        "; ".join(f"{name} differs: {told(values)}" for name, values in differing.items()),
        *(evidence for name, values in differing.items() for evidence in side_by_side(name, values)),
        fix="set it in the profile's [env], or nowhere",
        nodes={node: None for values in differing.values() for node in odd_ones(values)},
    )


CHECKS = (
    Check(
        id="sw.env",
        group=Group.SOFTWARE,
        title="no harmful variables",
        reads="the profile's [env], the node's environment, $NCCL_CONF_FILE or ~/.nccl.conf, /etc/nccl.conf",
        rule="fail: NCCL_IB_DISABLE=1 beside a usable fabric, text where NCCL reads a number, an interface "
        "or device that is not there, a partition key for its index; warn: an empty value, blanks beside = "
        "in a conf file, a device name that is a prefix of others, UCX_TLS without cuda, openib with Open "
        "MPI 5, NCCL_P2P_DISABLE and its like, or values that differ between nodes",
        symptom="sockets instead of InfiniBand, a hang, or a setting that does nothing",
        fix="take the variable away where it was found, or set another value in the profile's [env], which "
        "wins",
        source="NVIDIA/nccl src/misc/param.cc, issues 286, 1323, 2428; huggingface AzureML-BERT issue 34; "
        "UCX's FAQ",
        node=settings,
        pool=same_settings,
    ),
)
