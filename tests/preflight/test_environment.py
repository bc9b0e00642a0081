"""Every recorded node, doubled, and every pool gives exactly the environment it must."""

from __future__ import annotations

import json
from typing import Any

import pytest

from preflight.recordings import NODES, POOLS, changed, recorded
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


def with_syscalls(case: str, **values: Any) -> NodeFabric:
    return NodeFabric(changed(recorded(case), syscalls=values))


@pytest.mark.parametrize(
    "told", [{"torch_nccl": "2.18.3"}, {"nccl_libs": ["/usr/lib/x86_64-linux-gnu/libnccl.so.2 2.20.5"]}]
)
def test_an_nccl_that_does_not_choose_its_gid_gets_each_node_s_index(told: dict[str, Any]) -> None:
    nodes = {case: with_syscalls(case, **told) for case in ("roce-bond-a", "roce-gid-drift")}
    variables = compute(nodes)
    assert set_on(variables, "roce-bond-a")["NCCL_IB_GID_INDEX"] == "3"
    assert set_on(variables, "roce-gid-drift")["NCCL_IB_GID_INDEX"] == "5"
    newer = compute({case: with_syscalls(case, torch_nccl="2.21.5") for case in nodes})
    assert "NCCL_IB_GID_INDEX" not in set_on(newer, "roce-bond-a")


def azure_with_keys(case: str, **keys: str) -> NodeFabric:
    files = {
        path: keys[f"_{path[-1]}"] + "\n" if f"_{path[-1]}" in keys else None
        for path in recorded(case).files
        if "/mlx5_ib" in path and "/pkeys/" in path
    }
    return NodeFabric(changed(recorded(case), files=files))


def test_nodes_of_two_scale_sets_are_told_to_do_without_infiniband() -> None:
    nodes = {
        "n1": azure_with_keys("azure-ndv4-a", _0="0x801f", _1="0x7fff"),
        "n2": azure_with_keys("azure-ndv4-b", _0="0x8020", _1="0x7fff"),
    }
    variables = compute(nodes, framework="mpi")
    assert set_on(variables, "n1")["NCCL_IB_DISABLE"] == "1"
    assert set_on(variables, "n1")["UCX_NET_DEVICES"] == "eth0"
    assert "partition key" in variables.choice.why_none


def test_a_key_that_all_have_at_another_index() -> None:
    nodes = {
        "n1": azure_with_keys("azure-ndv4-a", _0="0x801f", _1="0x8042"),
        "n2": azure_with_keys("azure-ndv4-b", _0="0x8042"),
    }
    variables = compute(nodes, framework="mpi")
    assert set_on(variables, "n1")["NCCL_IB_PKEY"] == "1"
    assert set_on(variables, "n2")["NCCL_IB_PKEY"] == "0"
    assert set_on(variables, "n1")["UCX_IB_PKEY"] == "0x0042"


def test_gpudirect_on_one_node_only_is_turned_off_on_all() -> None:
    closed = {"/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.172.08\n"}
    modules = recorded("ndr-ok-b").files["/proc/modules"].replace("nvidia_peermem,", "")
    without = changed(recorded("ndr-ok-b"), files={**closed, "/proc/modules": modules})
    variables = compute({"n1": NodeFabric(recorded("ndr-ok-a")), "n2": NodeFabric(without)})
    assert set_on(variables, "n1")["NCCL_NET_GDR_LEVEL"] == "LOC"


def test_azure_s_topology_where_its_conf_file_is_not_to_be_seen() -> None:
    nodes = {
        case: NodeFabric(changed(recorded(case), files={"/etc/nccl.conf": None}))
        for case in ("azure-ndv4-a", "azure-ndv4-b")
    }
    found = set_on(compute(nodes), "azure-ndv4-a")
    assert found["NCCL_TOPO_FILE"] == "/opt/microsoft/ndv4/topo.xml"
    assert found["NCCL_IGNORE_CPU_AFFINITY"] == found["NCCL_IB_PCI_RELAXED_ORDERING"] == "1"
    gone = {
        name: NodeFabric(changed(node.readings, files={"/opt/microsoft/ndv4/topo.xml": None}))
        for name, node in nodes.items()
    }
    assert "NCCL_TOPO_FILE" not in set_on(compute(gone), "azure-ndv4-a")


def test_google_s_script_is_left_alone() -> None:
    script = {"/usr/local/gib/scripts/set_nccl_env.sh": "export NCCL_NET=gIB\n"}
    nodes = {name: NodeFabric(changed(recorded("eth-only"), files=script)) for name in ("n1", "n2")}
    assert set(set_on(compute(nodes), "n1")) == {"GLOO_SOCKET_IFNAME"}


def test_what_nccl_s_files_and_the_user_set_stays() -> None:
    conf = {"/etc/nccl.conf": "# site\nNCCL_SOCKET_IFNAME=eth0\nNCCL_IB_HCA = mlx5_ib0\n"}
    nodes = {
        case: NodeFabric(changed(recorded(case), files=conf)) for case in ("azure-ndv4-a", "azure-ndv4-b")
    }
    variables = compute(nodes, profile_env={"UCX_NET_DEVICES": "mlx5_ib0:1"}, framework="mpi")
    found = set_on(variables, "azure-ndv4-a")
    assert "NCCL_SOCKET_IFNAME" not in found
    assert "UCX_NET_DEVICES" not in found
    assert found["NCCL_IB_HCA"].startswith("=mlx5_ib0,mlx5_ib1")  # the line with blanks does nothing
    kept = {each.name: each.source for each in variables.nodes["azure-ndv4-a"].keep}
    assert kept == {"NCCL_SOCKET_IFNAME": "/etc/nccl.conf", "UCX_NET_DEVICES": "the profile's [env]"}


def test_a_port_of_a_card_with_two_is_named_with_its_number() -> None:
    second = {
        path.replace("/mlx5_0/ports/1/", "/mlx5_0/ports/2/"): text
        for path, text in recorded("ndr-ok-a").files.items()
        if "/mlx5_0/ports/1/" in path
    }
    second["/sys/class/infiniband/mlx5_0/ports/2/link_layer"] = "Ethernet\n"
    nodes = {case: NodeFabric(changed(recorded(case), files=second)) for case in ("ndr-ok-a", "ndr-ok-b")}
    assert set_on(compute(nodes), "ndr-ok-a")["NCCL_IB_HCA"].startswith("=mlx5_0:1,mlx5_1,")


def test_ipv6_only() -> None:
    def moved(case: str, number: int) -> NodeFabric:
        entry = {
            "ifname": "eth0",
            "flags": ["UP", "LOWER_UP"],
            "link_type": "ether",
            "addr_info": [{"family": "inet6", "local": f"2001:db8::{number}", "prefixlen": 64}],
        }
        return NodeFabric(changed(recorded(case), commands={("ip", "-json", "addr"): json.dumps([entry])}))

    variables = compute({"n1": moved("eth-only", 1), "n2": moved("eth-clock-skew", 2)})
    assert set_on(variables, "n1")["NCCL_SOCKET_FAMILY"] == "AF_INET6"
    assert str(variables.meeting.network) == "2001:db8::/64"


def test_an_addresses_host_bits_are_no_network_of_their_own() -> None:
    """Google's machines have /32 addresses: they meet where they are known, without a network in common."""

    def moved(case: str, number: int) -> NodeFabric:
        entry = {
            "ifname": "ens3",
            "flags": ["UP", "LOWER_UP"],
            "link_type": "ether",
            "addr_info": [{"family": "inet", "local": f"10.128.0.{number}", "prefixlen": 32}],
        }
        return NodeFabric(changed(recorded(case), commands={("ip", "-json", "addr"): json.dumps([entry])}))

    nodes = {"n1": moved("eth-only", 1), "n2": moved("eth-clock-skew", 2)}
    variables = compute(nodes, addresses={"n1": "10.128.0.1", "n2": "10.128.0.2"})
    assert not variables.meeting.common
    assert set_on(variables, "n2")["GLOO_SOCKET_IFNAME"] == "ens3"
