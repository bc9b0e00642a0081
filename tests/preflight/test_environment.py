"""Every recorded node, doubled, and every pool gives exactly the environment it must."""

from __future__ import annotations

from typing import Any

import pytest

from preflight.recordings import NODES, POOLS, recorded
from rankdeck_profiles.fabric.node import NodeFabric
from rankdeck_profiles.fabric.rules import FabricVariables, compute

WITH_ENV = [
    (case, framework)
    for case, each in NODES.items()
    for framework in ("torchrun", "mpi")
    if not each["env"]["blocked"]
]


def pool_of(*cases: str, framework: str = "torchrun", **more: Any) -> FabricVariables:
    nodes = {f"n{number}": NodeFabric(recorded(case)) for number, case in enumerate(cases, start=1)}
    return compute(nodes, framework=framework, **more)


def set_on(variables: FabricVariables, node: str) -> dict[str, str]:
    return {setting.name: setting.value for setting in variables.nodes[node].settings}


@pytest.mark.parametrize(("case", "framework"), WITH_ENV)
def test_two_such_nodes(case: str, framework: str) -> None:
    env = NODES[case]["env"]
    variables = pool_of(case, case, framework=framework)
    torchrun = env.get("torchrun", {})
    wanted = torchrun if framework == "torchrun" else env.get("mpi", torchrun)
    for node in ("n1", "n2"):
        found = set_on(variables, node)
        if framework == "torchrun" or "mpi" in env:
            assert found == wanted
        assert not set(env.get("unset", ())) & set(found)
        kept = {each.name: each.value for each in variables.nodes[node].keep}
        assert kept == env.get("keep", {})
        assert all(setting.why for setting in variables.nodes[node].settings)


@pytest.mark.parametrize("pool", POOLS)
def test_pools(pool: str) -> None:
    env = POOLS[pool]["env"]
    cases = POOLS[pool]["nodes"]
    variables = compute({case: NodeFabric(recorded(case)) for case in cases})
    for case in cases:
        found = set_on(variables, case)
        wanted = (env.get("override") if env["blocked"] else env.get("node")) or {}
        if wanted:
            assert found == wanted[case]
        assert not set(env.get("unset", ())) & set(found)


def test_what_is_launched_all_the_same_beside_a_healthy_node() -> None:
    variables = pool_of("ndr-ok-a", "ndr-port-down")
    assert set_on(variables, "n2") == NODES["ndr-port-down"]["env"]["override"]
    assert set_on(variables, "n1") == NODES["ndr-port-down"]["env"]["override"]


@pytest.mark.parametrize("case", ["container-limits", "ib-init-no-sm", "vf-null-guid"])
def test_no_variable_turns_off_what_nccl_does_not_find(case: str) -> None:
    found = set_on(pool_of(case, case), "n1")
    assert not [name for name in found if name.startswith("NCCL_IB_")]
