"""The rules on RDMA ports: which ones, by which address, key and path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rankdeck_profiles.fabric.choice import KEY_BITS, common_keys
from rankdeck_profiles.fabric.devices import Kind, Port
from rankdeck_profiles.fabric.setting import FabricSetting, Pool

GID_BY_ITSELF = (2, 21)
"""NCCL chooses a RoCE v2 GID by itself since then (its release notes)."""

_AZURE_TOPOLOGY = (
    (("standard_nd", "v4"), "/opt/microsoft/ndv4/topo.xml"),
    (("standard_nd40rs_v2", ""), "/opt/microsoft/ndv2/topo.xml"),
    (("standard_nd96is", "_v5"), "/opt/microsoft/ndv5/topo.xml"),
    (("standard_nc96ads_a100_v4", ""), "/opt/microsoft/ncv4/topo.xml"),
)
"""Beginning and end of a size's name, and the file its image brings (Azure/azhpc-images, topology)."""


def disable(node: str, pool: Pool) -> Iterator[FabricSetting]:
    """Some nodes would use RDMA and others could not: without it they at least speak the same."""
    some = any(pool.choice.left_out.values())
    if pool.choice.kind is None and some:
        why = f"{pool.choice.why_none}: NCCL would use RDMA on some nodes and sockets on others, and hang"
        yield FabricSetting("NCCL_IB_DISABLE", "1", why, "ib-disable")


def hca(node: str, pool: Pool) -> Iterator[FabricSetting]:
    """The wanted ports by name, where NCCL would take others, too, on any node."""
    if pool.choice.kind not in (Kind.INFINIBAND, Kind.ROCE) or not pool.choice.narrowed:
        return
    value = "=" + ",".join(_names(pool.choice.ports[node], pool, node))
    yield FabricSetting("NCCL_IB_HCA", value, _why_narrowed(node, pool), "hca")


def gid_index(node: str, pool: Pool) -> Iterator[FabricSetting]:
    """Before 2.21 NCCL takes GID 0, which on Ethernet is RoCE v1 or link-local."""
    if pool.choice.kind is not Kind.ROCE or pool.nccl is None or pool.nccl >= GID_BY_ITSELF:
        return
    gids = [port.roce_gid for port in pool.choice.ports[node]]
    indices = {gid.index for gid in gids if gid is not None}
    if len(indices) == 1:
        version = ".".join(map(str, pool.nccl))
        why = f"the RoCE v2 address of this node; NCCL {version} would take GID 0, which is not routable"
        yield FabricSetting("NCCL_IB_GID_INDEX", str(next(iter(indices))), why, "gid")


def partition(node: str, pool: Pool) -> Iterator[FabricSetting]:
    """The index of the key that all have in common, where the first one is not."""
    if pool.choice.kind is not Kind.INFINIBAND:
        return
    common = common_keys(pool.choice.ports)
    if not common or all(_key_at_start(ports) in common for ports in pool.choice.ports.values()):
        return
    key = max(common)
    index = _index_of(key, pool.choice.ports[node])
    if index is None:
        return
    why = f"the partition key 0x{key:04x} is the one that all nodes have; NCCL takes an index"
    yield FabricSetting("NCCL_IB_PKEY", str(index), why, "pkey")
    if pool.mpi:
        yield FabricSetting("UCX_IB_PKEY", f"0x{key:04x}", "the same key; UCX takes its value", "pkey")


def cross_nic(node: str, pool: Pool) -> Iterator[FabricSetting]:
    """Rails in networks of their own: a card reaches only the card of the same rail on other nodes."""
    if rails_apart(pool.choice.ports.get(node, ())):
        why = "each rail is in a network of its own, so a card reaches only its like on other nodes"
        yield FabricSetting("NCCL_CROSS_NIC", "0", why, "cross-nic")


def gdr_level(node: str, pool: Pool) -> Iterator[FabricSetting]:
    """Nodes that differ in GPUDirect RDMA hang in the first collective: then none uses it."""
    if pool.choice.kind not in (Kind.INFINIBAND, Kind.ROCE):
        return
    found = pool.gpudirect
    if any(direct.broken and not direct.works for direct in found):
        why = "nvidia_peermem is loaded and not registered on some node: NCCL would believe in it and fail"
    elif len({direct.works for direct in found}) > 1:
        why = "GPUDirect RDMA works on some nodes only: NCCL would hang in the first collective"
    else:
        return
    yield FabricSetting("NCCL_NET_GDR_LEVEL", "LOC", why, "gdr")


def azure(node: str, pool: Pool) -> Iterator[FabricSetting]:
    """The topology that a virtual machine hides, from the file that Azure's image brings."""
    found = pool.nodes[node]
    size = found.azure_size
    if not found.azure or size is None:
        return
    for (start, end), path in _AZURE_TOPOLOGY:
        if size.startswith(start) and size.endswith(end) and path in found.readings.files:
            yield FabricSetting("NCCL_TOPO_FILE", path, f"the topology of {size}, which hides it", "azure")
            yield FabricSetting("NCCL_IGNORE_CPU_AFFINITY", "1", "goes with Azure's topology file", "azure")
            if size.startswith("standard_nd"):
                why = "Azure's setting for its ND sizes"
                yield FabricSetting("NCCL_IB_PCI_RELAXED_ORDERING", "1", why, "azure")
            return


def ucx(node: str, pool: Pool) -> Iterator[FabricSetting]:
    """UCX takes every active device by itself: the same ports as NCCL, or the network that all are in."""
    if not pool.mpi or pool.open_mpi == 0:
        return
    choice = pool.choice
    if choice.kind in (Kind.INFINIBAND, Kind.ROCE):
        if choice.narrowed:
            value = ",".join(port.name for port in choice.ports[node])
            yield FabricSetting("UCX_NET_DEVICES", value, "the same ports as NCCL_IB_HCA", "ucx")
        return
    place = pool.meeting.places.get(node)
    several = sum(each.up and not each.loopback for each in pool.nodes[node].interfaces) > 1
    if choice.kind is None and place is not None and several:
        why = f"no RDMA: the interface that holds the node's address {place.address.ip}"
        yield FabricSetting("UCX_NET_DEVICES", place.interface.name, why, "ucx")


def notes(pool: Pool) -> tuple[str, ...]:
    """What no variable can settle."""
    found = []
    if pool.choice.reduced:
        found.append("only the RDMA ports that every node has are used: the others are left out on all nodes")
    for name, ports in pool.choice.ports.items():
        indices = {port.roce_gid.index for port in ports if port.roce_gid is not None}
        if pool.nccl is not None and pool.nccl < GID_BY_ITSELF and len(indices) > 1:
            listed = ", ".join(f"{port.name} {port.roce_gid.index}" for port in ports if port.roce_gid)
            found.append(
                f"{name}: its RoCE addresses have different GID indices ({listed}); NCCL takes one for all"
            )
    return tuple(found)


def rails_apart(ports: Sequence[Port]) -> bool:
    """Whether a node's ports are each in a network of their own, as far as their addresses tell.

    A RoCE address carries no prefix length: two that differ in their first three bytes are taken to be apart.
    """
    if len(ports) < 2:
        return False
    if all(port.kind is Kind.INFINIBAND for port in ports):
        prefixes = [port.gids[0].prefix for port in ports if port.gids]
    else:
        prefixes = [str(gid.ipv4).rpartition(".")[0] for port in ports if (gid := port.roce_gid) is not None]
    return len(prefixes) == len(ports) and len(set(prefixes)) == len(ports)


def _names(ports: Sequence[Port], pool: Pool, node: str) -> Iterator[str]:
    """Device names; with the port's number where the device has several."""
    for port in ports:
        several = len(pool.nodes[node].by_name[port.device].ports) > 1
        yield port.name if several else port.device


def _why_narrowed(node: str, pool: Pool) -> str:
    choice = pool.choice
    if choice.reduced:
        return "the ports that all nodes have: NCCL needs the same number on each"
    left_out = choice.left_out.get(node, ())
    if not left_out:
        return "the ports for data; on other nodes NCCL would take others, too"
    listed = ", ".join(f"{port.device} ({_about(port)})" for port in left_out)
    return f"the {choice.kind} ports for data; NCCL would take {listed}, too"


def _about(port: Port) -> str:
    rate = f" at {port.rate.gbits:g} Gbit/s" if port.rate else ""
    return f"{port.kind}{rate}"


def _key_at_start(ports: Sequence[Port]) -> int | None:
    keys = {port.pkeys.get(0, 0) & KEY_BITS for port in ports}
    return next(iter(keys)) if len(keys) == 1 else None


def _index_of(key: int, ports: Sequence[Port]) -> int | None:
    """The index at which all of a node's ports have a key; None: they differ."""
    found = {
        next((index for index, each in port.pkeys.items() if each & KEY_BITS == key), None) for port in ports
    }
    return next(iter(found)) if len(found) == 1 else None
