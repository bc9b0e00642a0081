import pytest

from rankdeck_backends.base import NodeError, NodeRefusal, Step
from rankdeck_backends.facts import from_probe
from rankdeck_profiles.model import BackendKind, Pool, PoolNode

LO = {"name": "lo", "up": True, "loopback": True, "addresses": ["127.0.0.1", "::1"], "speed_mbit": None}
ETH0 = {
    "name": "eth0",
    "up": True,
    "loopback": False,
    "addresses": ["10.1.0.7", "fe80::1"],
    "speed_mbit": 10000,
}
IB0 = {"name": "ib0", "up": True, "loopback": False, "addresses": ["fe80::2", "10.9.0.7"], "speed_mbit": None}
DOCKER = {"name": "docker0", "up": False, "loopback": False, "addresses": ["172.17.0.1"], "speed_mbit": None}
SIX = {
    "name": "eth6",
    "up": True,
    "loopback": False,
    "addresses": ["fe80::3", "2001:db8::7"],
    "speed_mbit": 1000,
}
BRIDGE = {
    "name": "br-4e5f60905511",
    "up": True,
    "loopback": False,
    "addresses": ["172.18.0.1"],
    "speed_mbit": None,
}
BARE = {"name": "ib1", "up": False, "loopback": False, "addresses": [], "speed_mbit": None}


def answer(*interfaces: dict, **changes: object) -> dict:
    facts = {
        "hostname": "n1.cluster",
        "home": "/home/alice",
        "boot": "b-1",
        "cpus": 64,
        "memory_mib": 515000,
        "gpus": [{"index": 0, "name": "NVIDIA H100", "uuid": "GPU-1", "memory_mib": 81559}],
        "interfaces": list(interfaces),
        "ssh_server_address": "10.1.0.7",
        "leftovers": {"SLURM_JOB_ID": "7", "WANDB_API_KEY": "sesame"},
        **changes,
    }
    return {"id": 3, "ok": True, "facts": facts}


def pool(backend: BackendKind = BackendKind.SSH, interface: str | None = None) -> Pool:
    return Pool("p", backend, (), interface=interface)


NODE = PoolNode("n1", "n1-alias")


def test_the_numbers_come_through():
    facts = from_probe(NODE, pool(), answer(LO, ETH0, free_port=29501))
    assert (facts.node, facts.hostname, facts.home, facts.machine) == (
        "n1",
        "n1.cluster",
        "/home/alice",
        "b-1",
    )
    assert (facts.cpus, facts.memory_mib, facts.free_port) == (64, 515000, 29501)
    assert facts.gpus[0].memory_mib == 81559
    assert facts.raw["ssh_server_address"] == "10.1.0.7"


def test_secrets_among_the_leftovers_are_masked():
    found = from_probe(NODE, pool(), answer(LO, ETH0))
    assert found.leftovers["SLURM_JOB_ID"] == "7"
    assert found.leftovers["WANDB_API_KEY"] == "***"
    assert "sesame" not in str(found.to_json())  # which is recorded


@pytest.mark.parametrize(
    ("interfaces", "reached", "expected"),
    [
        ((LO, DOCKER, ETH0, IB0), "10.1.0.7", ("eth0", "10.1.0.7")),
        ((LO, DOCKER, ETH0, IB0), "::ffff:10.9.0.7", ("ib0", "10.9.0.7")),
        ((LO, ETH0), "fe80::1%eth0", ("eth0", "10.1.0.7")),
        ((LO, SIX), "2001:db8::7", ("eth6", "2001:db8::7")),
        ((LO,), "127.0.0.1", ("lo", "127.0.0.1")),
        ((), "10.1.0.7", (None, "10.1.0.7")),
        # Not told, or an address of a translating gateway: the first interface that is up and reachable.
        ((LO, DOCKER, ETH0, IB0), None, ("eth0", "10.1.0.7")),
        ((LO, DOCKER, ETH0, IB0), "203.0.113.9", ("eth0", "10.1.0.7")),
        # By a tunnel that ends on the node, or from one of its containers: no other node comes in there.
        ((LO, ETH0), "127.0.0.1", ("eth0", "10.1.0.7")),
        ((LO, BRIDGE, ETH0), "172.18.0.1", ("eth0", "10.1.0.7")),
        ((LO, BRIDGE, ETH0), None, ("eth0", "10.1.0.7")),
        ((LO, BRIDGE), "172.18.0.1", ("br-4e5f60905511", "172.18.0.1")),
    ],
)
def test_the_interface_that_ssh_came_in_on_gives_the_address(interfaces, reached, expected):
    facts = from_probe(NODE, pool(), answer(*interfaces, ssh_server_address=reached))
    assert (facts.interface, facts.address) == expected


def test_two_nodes_with_the_same_bridges_and_other_names_for_their_network():
    def interface(name: str, address: str, *, up: bool = True) -> dict:
        return {"name": name, "up": up, "loopback": False, "addresses": [address], "speed_mbit": None}

    bridges = [
        interface("docker0", "172.17.0.1", up=False),
        interface("virbr0", "192.168.122.1", up=False),
        interface("br-9a7c00112233", "172.18.0.1"),
    ]
    found = {}
    for name, own, number in (("a01", "eth0", 11), ("a02", "enp35s0f0", 12)):
        there = [LO, *bridges, interface(own, f"198.51.100.{number}"), interface("ib0", f"10.20.0.{number}")]
        for asked in (None, "ib0"):
            facts = from_probe(
                PoolNode(name, name), pool(interface=asked), answer(*there, ssh_server_address=None)
            )
            found[name, asked] = (facts.interface, facts.address)
    assert found == {
        ("a01", None): ("eth0", "198.51.100.11"),
        ("a02", None): ("enp35s0f0", "198.51.100.12"),
        ("a01", "ib0"): ("ib0", "10.20.0.11"),
        ("a02", "ib0"): ("ib0", "10.20.0.12"),
    }


def test_where_the_node_does_not_know_how_it_was_reached_we_do():
    facts = from_probe(NODE, pool(), answer(LO, ETH0, IB0, ssh_server_address=None), reached_at="10.9.0.7")
    assert (facts.interface, facts.address) == ("ib0", "10.9.0.7")
    facts = from_probe(PoolNode("n1", "10.9.0.7"), pool(), answer(LO, ETH0, IB0, ssh_server_address=None))
    assert (facts.interface, facts.address) == ("ib0", "10.9.0.7")


def test_the_pools_interface_is_taken():
    facts = from_probe(NODE, pool(interface="ib0"), answer(LO, ETH0, IB0))
    assert (facts.interface, facts.address) == ("ib0", "10.9.0.7")


def test_an_interface_that_is_not_there_is_refused_naming_those_that_are():
    with pytest.raises(NodeRefusal) as caught:
        from_probe(NODE, pool(interface="ib7"), answer(LO, ETH0, BARE))
    message = str(caught.value)
    assert "n1: there is no network interface 'ib7'" in message
    assert "eth0 (10.1.0.7, fe80::1)" in message
    assert "ib1 (no address, down)" in message
    assert caught.value.exit_status == 2


def test_an_interface_without_an_address_is_refused():
    with pytest.raises(NodeRefusal, match="'ib1' has no address and is down"):
        from_probe(NODE, pool(interface="ib1"), answer(LO, ETH0, BARE))


def test_a_node_that_nobody_can_reach_is_refused():
    with pytest.raises(NodeRefusal, match="no network interface"):
        from_probe(NODE, pool(), answer(LO, ssh_server_address=None))


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.2", ("lo", "127.0.0.2")),
        ("localhost", ("lo", "127.0.0.1")),
        ("10.1.0.7", ("eth0", "10.1.0.7")),
        ("::1", ("lo", "::1")),
    ],
)
def test_a_local_node_has_the_address_it_is_named_by(host, expected):
    facts = from_probe(
        PoolNode("n2", host), pool(BackendKind.LOCAL), answer(LO, ETH0, ssh_server_address="10.1.0.7")
    )
    assert (facts.interface, facts.address) == expected


def test_a_local_pool_may_name_an_interface():
    facts = from_probe(PoolNode("n2", "127.0.0.2"), pool(BackendKind.LOCAL, "eth0"), answer(LO, ETH0))
    assert (facts.interface, facts.address) == ("eth0", "10.1.0.7")


@pytest.mark.parametrize(
    "broken", [{"facts": None}, {"facts": {}}, answer(LO, ETH0, cpus="many"), answer({"name": "x"})]
)
def test_an_answer_that_is_none_is_named(broken):
    with pytest.raises(NodeError, match="n1: the probe's answer") as caught:
        from_probe(NODE, pool(), broken)
    assert caught.value.step is Step.AGENT
