"""Nodes whose names and addresses would lead ranks astray: training finds together all the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import Cluster
from cluster.errors import tool
from whole.reports import WAYS, Bench
from whole.site import DDP, TESTS, TRAINING_LIMIT, Site

pytestmark = pytest.mark.timeout(900)

HOSTS = {"n1": "gpu-a01", "n2": "gpu-a02"}
"""What the nodes call themselves: other names than the pool's, which are those of another network card."""
CARDS = {"n1": "eth0", "n2": "enp35s0f0"}
BRIDGES = {"docker0": "172.17.0.1/16", "virbr0": "192.168.122.1/24", "br-4e5f60905511": "172.18.0.1/16"}
"""With the same address on every node."""
QUICK = ["--steps", "4", "--steps-per-epoch", "2", "--step-sleep", "0"]


@pytest.fixture(scope="module")
def misleading(needs_cluster: None) -> Iterator[Cluster]:
    """Two nodes that resolve their own names to a loopback address, with bridges and unlike card names."""
    with Cluster(2) as cluster:
        for node, host in HOSTS.items():
            made = f"127.0.0.1 localhost\n127.0.1.1 {host}.cluster.example.org {host}\n::1 localhost\n"
            cluster.run(node, ["sh", "-c", "cat >/etc/hosts"], stdin=made.encode())
            cluster.run(node, ["hostname", host])
            for name, address in BRIDGES.items():
                cluster.run(node, ["ip", "link", "add", name, "type", "bridge"])
                cluster.run(node, ["ip", "addr", "add", address, "dev", name])
                cluster.run(node, ["ip", "link", "set", name, "up"])
        for words in (["down"], ["name", CARDS["n2"]]):
            cluster.run("n2", ["ip", "link", "set", "eth0", *words])
        cluster.run("n2", ["ip", "link", "set", CARDS["n2"], "up"])
        yield cluster


@pytest.fixture(scope="module")
def ipv6(needs_cluster: None) -> Iterator[Cluster]:
    """Two nodes that have IPv6 alone, and are reached by it."""
    with Cluster(2) as cluster:
        link = cluster.network.name
        tool(["ip", "addr", "add", "fd77::1/64", "dev", link, "nodad"])
        config = cluster.ssh_config.read_text()
        for number, node in enumerate(cluster.nodes, 1):
            address = f"fd77::1{number}"
            for words in (
                ["add", f"{address}/64", "dev", "eth0", "nodad"],
                ["del", f"{node.address}/24", "dev", "eth0"],
            ):
                cluster.run(node.name, ["ip", "addr", *words])
            config = config.replace(
                f"HostName {node.address}\n", f"HostName {address}\n    HostKeyAlias {node.name}\n"
            )
        cluster.ssh_config.write_text(config)
        yield cluster


@pytest.fixture
def site(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    made = Site.make(tmp_path, request.getfixturevalue(request.param))
    yield made
    made.shell.end()


on_misleading = pytest.mark.parametrize("site", ["misleading"], indirect=True)


@on_misleading
@pytest.mark.parametrize("name", ["pytorch", "torchrun", "mpi"])
def test_ranks_get_the_addresses_that_other_nodes_reach(site: Site, name: str) -> None:
    bench = Bench(site)
    bench.save(name, WAYS[name])
    for reports in (bench.run(name), bench.by_hand(name, "sh")):
        assert len(reports) == 4
        for report in reports.values():
            node = "n1" if report.env[b"NODE_RANK"] == b"0" else "n2"
            assert report.host == HOSTS[node]
            assert report.env[b"MASTER_ADDR"].decode() == site.cluster.node("n1").address
            assert report.env[b"GLOO_SOCKET_IFNAME"].decode() == CARDS[node]
            # With its sign for "this name exactly", which Gloo does not know.
            assert report.env[b"NCCL_SOCKET_IFNAME"].decode() == f"={CARDS[node]}"


@on_misleading
@pytest.mark.torch
def test_gloo_finds_together(site: Site) -> None:
    train(site, "torchrun")


@on_misleading
def test_mpi_finds_together(site: Site) -> None:
    pytest.importorskip("mpi4py")
    options = {"mpirun": "mpirun.openmpi", "allow_root": True, "ssh_args": site.key_between_nodes()}
    site.save("sum", TESTS / "ranks/mpi_world.py", framework="mpi", procs_per_node=2, options=options)
    done = site.follow("run", "sum")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    wanted = [f"rank {rank} of 4 on {HOSTS[f'n{rank // 2 + 1}']}: 10 by Open MPI\n" for rank in range(4)]
    assert [site.raw(rank).decode() for rank in range(4)] == wanted


@pytest.mark.torch
@pytest.mark.parametrize("site", ["ipv6"], indirect=True)
@pytest.mark.parametrize("framework", ["torchrun", "pytorch"])
def test_training_over_ipv6_alone(site: Site, framework: str) -> None:
    train(site, framework)
    assert site.shell.json("plan", "train")["head"]["address"] == "fd77::11"


def train(site: Site, framework: str) -> None:
    """Two ranks, one a node, by a launch."""
    pytest.importorskip("torch")
    site.save("train", DDP, *QUICK, framework=framework, procs_per_node=1)
    done = site.follow("run", "train", limit=TRAINING_LIMIT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert done.stdout.count("rankdeck-demo ok world=2") == 2
    site.assert_nothing_runs()
