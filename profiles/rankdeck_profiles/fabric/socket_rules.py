"""The rules on sockets: by which interface ranks find each other and, without RDMA, send their data."""

from __future__ import annotations

from collections.abc import Iterator

from rankdeck_profiles.fabric.setting import FabricSetting, Pool
from rankdeck_profiles.fabric.sockets import nccl_candidates, resolves_into


def nccl(node: str, pool: Pool) -> Iterator[FabricSetting]:
    """The interface by its exact name, where on any node NCCL's own choice is not clear, or another."""
    place = pool.meeting.places.get(node)
    if place is None:
        return
    if pool.interface is not None:
        yield FabricSetting("NCCL_SOCKET_IFNAME", f"={place.interface.name}", pool.meeting.why, "sockets")
    elif (doubt := _doubt(node, pool)) is not None:
        why = f"holds the node's address {place.address.ip}; {doubt}"
        yield FabricSetting("NCCL_SOCKET_IFNAME", f"={place.interface.name}", why, "sockets")
    if place.address.version == 6:
        why = f"the nodes meet at IPv6 addresses ({place.address.ip})"
        yield FabricSetting("NCCL_SOCKET_FAMILY", "AF_INET6", why, "sockets")


def gloo(node: str, pool: Pool) -> Iterator[FabricSetting]:
    """Gloo listens where the node's own name leads to: 127.0.1.1 on many distributions."""
    place = pool.meeting.places.get(node)
    if place is None:
        return
    if pool.interface is not None:
        yield FabricSetting("GLOO_SOCKET_IFNAME", place.interface.name, pool.meeting.why, "gloo")
    elif resolves_into(pool.nodes[node], place.network) is False:
        answers = ", ".join(pool.nodes[node].readings.texts("resolve_self") or ()) or "nothing"
        why = (
            f"the node's own name leads to {answers}, where Gloo would listen; this holds {place.address.ip}"
        )
        yield FabricSetting("GLOO_SOCKET_IFNAME", place.interface.name, why, "gloo")


def open_mpi(node: str, pool: Pool) -> Iterator[FabricSetting]:
    """Open MPI's own connections, by network: names may differ, and docker0 is the same everywhere.

    Versions 2 to 4 have ORTE's name for the daemons' connections, 5 has PRRTE's; each passes over the other.
    """
    network = pool.meeting.network
    if not pool.mpi or pool.open_mpi == 0 or network is None or not _several_up(pool):
        return
    why = "the network that all nodes are in; other interfaces may lead nowhere"
    yield FabricSetting("OMPI_MCA_btl_tcp_if_include", str(network), why, "open-mpi")
    if pool.open_mpi is None or pool.open_mpi < 5:
        yield FabricSetting("OMPI_MCA_oob_tcp_if_include", str(network), why, "open-mpi")
    if pool.open_mpi is None or pool.open_mpi >= 5:
        yield FabricSetting("PRTE_MCA_prte_if_include", str(network), why, "open-mpi")


def _doubt(node: str, pool: Pool) -> str | None:
    """Why NCCL's own choice won't do; None: it is the same one network on all nodes."""
    networks = set()
    own = nccl_candidates(pool.nodes[node].interfaces, pool.nccl)
    for name, found in pool.nodes.items():
        candidates = nccl_candidates(found.interfaces, pool.nccl)
        if len(candidates) != 1:
            seen = own if len(own) != 1 else candidates
            listed = ", ".join(each.name for each in seen) or "none"
            where = "" if len(own) != 1 else f" on {name}"
            return f"NCCL by itself would take {listed}{where}"
        usable = candidates[0].global_addresses
        if not usable or candidates[0].loopback or candidates[0].virtual:
            return f"NCCL by itself would take {candidates[0].name} on {name}, where no other node reaches it"
        networks.add(usable[0].network)
    if len(networks) > 1:
        return "the interfaces that NCCL would take by itself are in different networks"
    return None


def _several_up(pool: Pool) -> bool:
    return any(
        sum(each.up and not each.loopback for each in found.interfaces) > 1 for found in pool.nodes.values()
    )
