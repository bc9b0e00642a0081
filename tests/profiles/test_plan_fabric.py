"""A plan with readings of its nodes: the fabric's variables, and one network for all that connects."""

from __future__ import annotations

import json

import pytest
from plan_samples import facts, pool, profile

from preflight.recordings import NODES, changed, recorded
from rankdeck_profiles.facts import MpiFacts, MpiFamily, NodeFacts
from rankdeck_profiles.model import BackendKind
from rankdeck_profiles.plan import LaunchPlan
from rankdeck_profiles.planner import plan
from rankdeck_profiles.readings import Readings

ADDRESSES = {
    "azure-ndv4-a": ("10.4.0.21", "eth0"),
    "azure-ndv4-b": ("10.4.0.22", "eth0"),
    "ndr-ok-a": ("10.77.0.11", "eno1"),
    "ndr-ok-b": ("10.77.0.12", "eno1"),
    "eth-only": ("192.168.7.51", "enp3s0"),
    "eth-clock-skew": ("192.168.7.52", "enp3s0"),
    "hdr-mlnxofed": ("10.20.0.14", "eno1"),
}


def known(*cases: str, **more: object) -> dict[str, NodeFacts]:
    found = {}
    for number, case in enumerate(cases, start=1):
        address, interface = ADDRESSES[case]
        found[f"n{number}"] = facts(
            f"n{number}", address=address, interface=interface, readings=recorded(case), **more
        )
    return found


def env_of(made: LaunchPlan, number: int = 0) -> dict[str, str]:
    node = made.nodes[number]
    return dict(node.rank_env or node.processes[0].env)


def test_the_variables_and_their_reasons() -> None:
    made = plan(profile("torchrun"), pool("n[1-2]"), known("azure-ndv4-a", "azure-ndv4-b"))
    for number in (0, 1):
        env = env_of(made, number)
        for name, value in NODES["azure-ndv4-a"]["env"]["torchrun"].items():
            assert env[name] == value
            assert made.reasons[name].startswith("fabric: ") or "on n1: fabric: " in made.reasons[name]
        assert not set(NODES["azure-ndv4-a"]["env"]["unset"]) & set(env)
        assert "NCCL_TOPO_FILE" not in env  # /etc/nccl.conf has it
    assert "mlx5_an0 (RoCE at 40 Gbit/s)" in made.reasons["NCCL_IB_HCA"]
    assert made.head.address == "10.4.0.21"
    assert "--local-addr=10.4.0.22" in made.nodes[1].processes[0].launcher


def test_where_all_is_right_nothing_is_set_but_that_nccl_says_so() -> None:
    made = plan(profile("torchrun"), pool("n[1-2]"), known("hdr-mlnxofed", "hdr-mlnxofed"))
    found = {name for name in env_of(made) if name.startswith(("NCCL_", "GLOO_", "UCX_"))}
    assert found == {"NCCL_DEBUG"}
    assert "NCCL says whether it uses the InfiniBand" in made.reasons["NCCL_DEBUG"]
    quiet = profile("torchrun", env={"NCCL_DEBUG": "WARN"})
    made = plan(quiet, pool("n[1-2]"), known("hdr-mlnxofed", "hdr-mlnxofed"))
    assert env_of(made)["NCCL_DEBUG"] == "WARN"


@pytest.mark.parametrize(
    ("version", "names"),
    [
        ("4.1.4", {"OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include"}),
        ("5.0.3", {"OMPI_MCA_btl_tcp_if_include", "PRTE_MCA_prte_if_include"}),
    ],
)
def test_open_mpi_is_told_the_network_in_its_own_version_s_words(version: str, names: set[str]) -> None:
    mpi = MpiFacts(MpiFamily.OPEN_MPI, version, "/usr/bin/mpirun")
    made = plan(profile("mpi"), pool("n[1-2]"), known("azure-ndv4-a", "azure-ndv4-b", mpi=mpi))
    (mpirun,) = made.nodes[0].processes
    told = {name: value for name, value in mpirun.env.items() if "_if_include" in name}
    assert told == dict.fromkeys(names, "10.4.0.0/24")
    assert "_if_include" not in " ".join(mpirun.launcher)
    wanted = NODES["azure-ndv4-a"]["env"]["mpi"]
    for number in (0, 1):
        assert env_of(made, number)["UCX_NET_DEVICES"] == wanted["UCX_NET_DEVICES"]
        assert env_of(made, number)["NCCL_IB_HCA"] == wanted["NCCL_IB_HCA"]


def test_hydra_is_told_the_interface_on_its_command_line() -> None:
    mpi = MpiFacts(MpiFamily.MPICH, "4.2", "/usr/bin/mpirun")
    made = plan(profile("mpi"), pool("n[1-2]"), known("azure-ndv4-a", "azure-ndv4-b", mpi=mpi))
    (mpirun,) = made.nodes[0].processes
    assert mpirun.launcher[mpirun.launcher.index("-iface") + 1] == "eth0"
    assert not [name for name in mpirun.env if "_if_include" in name]
    assert "UCX_NET_DEVICES" not in env_of(made)


def test_a_node_s_own_name_that_leads_to_loopback() -> None:
    made = plan(profile("torchrun"), pool("n[1-2]"), known("eth-only", "eth-clock-skew"))
    assert env_of(made)["GLOO_SOCKET_IFNAME"] == "enp3s0"
    assert env_of(made)["NCCL_SOCKET_IFNAME"] == "=enp3s0"
    assert "127.0.1.1" in made.reasons["GLOO_SOCKET_IFNAME"]


def test_without_rdma_all_goes_over_the_fastest_network_that_all_share() -> None:
    found = {
        name: facts(
            name,
            address=f"192.168.7.5{number}",
            interface="enp3s0",
            readings=_with_fast_network(case, number),
        )
        for number, (name, case) in enumerate((("n1", "eth-only"), ("n2", "eth-clock-skew")), start=1)
    }
    made = plan(profile("torchrun"), pool("n[1-2]"), found)
    assert made.head.address == "10.100.0.1"
    assert [node.address for node in made.nodes] == ["10.100.0.1", "10.100.0.2"]
    assert "--local-addr=10.100.0.2" in made.nodes[1].processes[0].launcher
    assert env_of(made)["NCCL_SOCKET_IFNAME"] == "=fast0"
    assert env_of(made)["GLOO_SOCKET_IFNAME"] == "fast0"


def test_the_pool_s_interface_is_taken_whatever_there_is() -> None:
    found = known("hdr-mlnxofed", "hdr-mlnxofed")
    made = plan(profile("torchrun"), pool("n[1-2]", interface="eno1"), found)
    assert env_of(made)["NCCL_SOCKET_IFNAME"] == "=eno1"
    assert env_of(made)["GLOO_SOCKET_IFNAME"] == "eno1"
    assert "interface eno1 that was asked for" in made.reasons["NCCL_SOCKET_IFNAME"]


def test_the_profile_s_own_variables_win() -> None:
    asked = profile("torchrun", env={"NCCL_SOCKET_IFNAME": "ib0"})
    made = plan(asked, pool("n[1-2]"), known("azure-ndv4-a", "azure-ndv4-b"))
    assert env_of(made)["NCCL_SOCKET_IFNAME"] == "ib0"
    assert made.reasons["NCCL_SOCKET_IFNAME"] == "the profile's [env]"


@pytest.mark.parametrize("missing", ["one node", "all"])
def test_without_readings_of_every_node_the_interface_is_named_as_ever(missing: str) -> None:
    found = known("azure-ndv4-a", "azure-ndv4-b")
    unread = {"n2"} if missing == "one node" else {"n1", "n2"}
    found = {
        name: facts(
            name, address=each.address, interface="eth0", readings=None if name in unread else each.readings
        )
        for name, each in found.items()
    }
    made = plan(profile("torchrun"), pool("n[1-2]"), found)
    assert env_of(made)["NCCL_SOCKET_IFNAME"] == env_of(made)["GLOO_SOCKET_IFNAME"] == "eth0"
    assert "NCCL_IB_HCA" not in env_of(made)


def test_a_node_that_could_not_be_looked_at_is_no_node_without_rdma() -> None:
    found = known("azure-ndv4-a", "azure-ndv4-b")
    empty = facts("n2", address="10.4.0.22", interface="eth0", readings=Readings(syscalls={"ssh": {}}))
    made = plan(profile("torchrun"), pool("n[1-2]"), {**found, "n2": empty})
    assert "NCCL_IB_DISABLE" not in env_of(made)


def test_local_nodes_and_single_ones_have_no_fabric() -> None:
    found = known("azure-ndv4-a", "azure-ndv4-b")
    alone = plan(profile("torchrun"), pool("n1"), {"n1": found["n1"]})
    assert not [name for name in env_of(alone) if name.startswith("NCCL_")]
    local = plan(profile("torchrun"), pool("n[1-2]", backend=BackendKind.LOCAL), found)
    assert env_of(local)["NCCL_SOCKET_IFNAME"] == "lo"


def _with_fast_network(case: str, number: int) -> Readings:
    readings = recorded(case)
    listed = readings.command("ip", "-json", "addr")
    assert listed is not None
    fast = {
        "ifname": "fast0",
        "flags": ["UP", "LOWER_UP"],
        "mtu": 9000,
        "link_type": "ether",
        "addr_info": [{"family": "inet", "local": f"10.100.0.{number}", "prefixlen": 24}],
    }
    return changed(
        readings,
        files={"/sys/class/net/fast0/speed": "100000\n"},
        commands={("ip", "-json", "addr"): json.dumps([*json.loads(listed.stdout), fast])},
    )
