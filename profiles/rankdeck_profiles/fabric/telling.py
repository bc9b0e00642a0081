"""Which variables have libraries say what network they really take: there alone where the answer matters.

Where nodes have a fabric, a library that can't use it takes sockets without a word, and the run is ten times
slower. NCCL names its network with NCCL_DEBUG=INFO (its default subsystems, INIT, BOOTSTRAP and ENV, are
enough: src/debug.cc, src/init.cc, src/transport/net.cc), in some 50 to 300 lines at the start of each rank's
log; UCX with UCX_LOG_LEVEL=info, in some 10.
"""

from __future__ import annotations

from collections.abc import Mapping

from rankdeck_profiles.fabric.rules import MPI_FRAMEWORKS, FabricVariables, NodeVariables
from rankdeck_profiles.fabric.setting import FabricSetting


def telling(
    variables: FabricVariables, node: str, *, framework: str, profile_env: Mapping[str, str]
) -> tuple[FabricSetting, ...]:
    """What is set on a node beside the fabric's own variables; nothing where there is no fabric to miss.

    Args:
        variables: the fabric rules' answer for the pool.
        node: the node.
        framework: as in a profile; UCX carries the data of MPI's alone.
        profile_env: the profile's own variables: NCCL_DEBUG there says how much NCCL is to write.
    """
    kind = variables.choice.kind
    if kind is None or len(variables.nodes) < 2:
        return ()
    wanted = [("NCCL_DEBUG", "INFO", "NCCL", "WARN")]
    if framework in MPI_FRAMEWORKS:
        wanted.append(("UCX_LOG_LEVEL", "info", "UCX", "warn"))
    kept = {each.name for each in variables.nodes.get(node, NodeVariables()).keep}
    return tuple(
        FabricSetting(
            name,
            value,
            f'{library} says whether it uses the {kind}; {name} = "{quiet}" in env keeps it quiet',
            "telling",
        )
        for name, value, library, quiet in wanted
        if name not in kept and name not in profile_env
    )
