"""From what was read on a run's nodes to the fabric that its ranks are expected to use."""

from __future__ import annotations

from collections.abc import Mapping

from rankdeck_profiles.fabric.choice import choose
from rankdeck_profiles.fabric.node import NodeFabric
from rankdeck_profiles.readings import Readings
from rankdeck_runs.transport import Fabric


def usable_fabric(readings: Mapping[str, Readings]) -> Fabric | None:
    """The ports for data, by the same choice that the variables follow from.

    Args:
        readings: by node.

    Returns:
        None for one node, which needs no network, and where no kind of RDMA port is usable on all nodes.
    """
    if len(readings) < 2:
        return None
    choice = choose({name: NodeFabric(each) for name, each in readings.items()})
    if choice.kind is None:
        return None
    return Fabric(
        str(choice.kind), {name: tuple(port.name for port in ports) for name, ports in choice.ports.items()}
    )
