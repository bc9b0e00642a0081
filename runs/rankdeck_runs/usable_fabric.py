"""From the choice that a run's variables follow from to the fabric that its ranks are expected to use."""

from __future__ import annotations

from rankdeck_profiles.fabric.rules import FabricVariables
from rankdeck_runs.transport import Fabric


def usable_fabric(variables: FabricVariables | None) -> Fabric | None:
    """The ports for data.

    Args:
        variables: of the run's nodes, as a report has them; None for a run on one node.

    Returns:
        None where no network is needed, and where no kind of RDMA port is usable on all nodes.
    """
    if variables is None or variables.choice.kind is None:
        return None
    choice = variables.choice
    return Fabric(
        str(choice.kind), {name: tuple(port.name for port in ports) for name, ports in choice.ports.items()}
    )
