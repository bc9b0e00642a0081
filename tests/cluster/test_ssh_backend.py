"""The ssh backend and the agent on the test cluster: real sshd, real nodes, real faults."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
from collections.abc import AsyncIterator

import pytest

from cluster import Cluster, NodeOptions
from cluster.following import Follower, node_plan, until
from rankdeck_backends import open_backend
from rankdeck_backends.base import NodeError, Step
from rankdeck_backends.connection import AgentConnection
from rankdeck_backends.ssh_dial import TCP_RTO_MAX_MS
from rankdeck_profiles.model import BackendKind, PoolNode

LIMIT = 90.0


@contextlib.asynccontextmanager
async def connections(
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    *names: str,
    patience: float = 10.0,
    kind: BackendKind = BackendKind.SSH,
) -> AsyncIterator[list[AgentConnection]]:
    """Open connections to nodes of a cluster (all of them if none is named), closed at the end."""
    monkeypatch.setenv("RANKDECK_SSH_CONFIG", str(cluster.ssh_config))
    backend = open_backend(kind, connect_timeout=patience)
    wanted = names or tuple(node.name for node in cluster.nodes)
    async with asyncio.timeout(LIMIT):
        made = await asyncio.gather(*(backend.open(PoolNode(name, name)) for name in wanted))
        try:
            yield made
        finally:
            for connection in made:
                await connection.close()
            await backend.close()


async def refusal(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, name: str, patience: float = 10.0
) -> NodeError:
    """What opening a connection to a node fails with."""
    with pytest.raises(NodeError) as caught:
        async with connections(cluster, monkeypatch, name, patience=patience):
            pass
    assert caught.value.node == name
    assert str(caught.value).startswith(f"{name}: ")
    return caught.value


async def start_ring(
    cluster: Cluster, opened: list[AgentConnection], run: str, *args: str, ranks_per_node: int = 2
) -> list[Follower]:
    """Starts ring ranks on all nodes."""
    followers = []
    for node_rank, connection in enumerate(opened):
        plan = node_plan(cluster, run, node_rank, ranks_per_node, list(args))
        reply = await connection.request("start", run=run, dir=None, plan=plan, secrets={})
        followers.append(Follower(reply.header["dir"]))
    return followers


async def test_four_nodes_say_who_they_are(cluster4: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    async with connections(cluster4, monkeypatch) as opened:
        assert [connection.hello["host"] for connection in opened] == ["n1", "n2", "n3", "n4"]
        assert len({connection.hello["boot"] for connection in opened}) == 4
        for connection, node in zip(opened, cluster4.nodes, strict=True):
            facts = (await connection.request("probe")).header["facts"]
            assert facts["hostname"] == node.name
            assert facts["ssh_server_address"] == node.address
            eth0 = next(each for each in facts["interfaces"] if each["name"] == "eth0")
            assert eth0["up"] is True
            assert node.address in eth0["addresses"]


async def test_eight_ranks_on_four_nodes_lose_no_byte(
    cluster4: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = cluster4.shared / "copies"
    async with connections(cluster4, monkeypatch) as opened:
        arguments = ["--steps", "20", "--sleep", "0.02", "--bytes", "--own-copy", str(copies)]
        followers = await start_ring(cluster4, opened, "all-bytes", *arguments)
        await asyncio.gather(*(f.follow(c) for f, c in zip(followers, opened, strict=True)))
    logs = {name: bytes(data) for follower in followers for name, data in follower.logs.items()}
    assert [follower.state for follower in followers] == ["succeeded"] * 4
    for rank in range(8):
        assert logs[f"{rank}.out"].endswith(b"ring ok world=8 steps=20\n")
        assert logs[f"{rank}.out"] == (copies / f"rank-{rank:05d}.copy").read_bytes()
        assert f"on n{rank // 2 + 1}, master 10.77.".encode() in logs[f"{rank}.err"]
    for node_rank, follower in enumerate(followers):
        ended = {event["rank"]: event["exit_code"] for event in follower.named("rank_ended")}
        assert ended == {2 * node_rank: 0, 2 * node_rank + 1: 0}


async def test_a_cut_link_is_noticed_and_nothing_is_lost(
    cluster4: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = cluster4.shared / "cut"
    async with connections(cluster4, monkeypatch) as opened:
        # n2 is not the head, and its ranks wait for the others while it is cut: the run outlasts the cut.
        arguments = ["--steps", "100", "--sleep", "0.02", "--own-copy", str(copies)]
        followers = await start_ring(cluster4, opened, "cut", *arguments)
        followings = [asyncio.create_task(f.follow(c)) for f, c in zip(followers, opened, strict=True)]
        await until(lambda: b"step 5 " in followers[1].logs.get("2.out", b""))
        cluster4.fault("cut", "n2")
        try:
            reason = await opened[1].closed
            assert reason is not None
            assert reason.step is Step.LOST
            assert str(reason).startswith("n2: connection lost")
            with pytest.raises(NodeError, match="n2: connection lost"):
                await followings[1]
            assert [connection.closed.done() for connection in opened] == [False, True, False, False]
        finally:
            cluster4.heal("cut", "n2")
        async with connections(cluster4, monkeypatch, "n2") as again:
            await followers[1].follow(again[0])
        for number in (0, 2, 3):
            await followings[number]
    assert [follower.state for follower in followers] == ["succeeded"] * 4
    for rank in range(8):
        assert followers[rank // 2].logs[f"{rank}.out"] == (copies / f"rank-{rank:05d}.copy").read_bytes()


def sends_again_soon() -> bool:
    """Whether this kernel lets a program say how often it sends again what is not acknowledged."""
    with socket.socket() as probe:
        try:
            probe.getsockopt(socket.IPPROTO_TCP, TCP_RTO_MAX_MS)
        except OSError:
            return False
        return True


@pytest.mark.parametrize("kind", [BackendKind.SSH, BackendKind.OPENSSH])
async def test_a_short_cut_costs_no_connection_and_a_long_one_is_noticed_in_time(
    cluster4: Cluster, monkeypatch: pytest.MonkeyPatch, kind: BackendKind
) -> None:
    async with connections(cluster4, monkeypatch, "n1", "n2", kind=kind) as opened:
        cluster4.fault("cut", "n2")
        try:
            await asyncio.sleep(20 if kind is BackendKind.SSH and sends_again_soon() else 12)
        finally:
            cluster4.heal("cut", "n2")
        assert (await opened[1].request("ping", timeout=LIMIT)).header["time"] > 0
        assert not opened[1].closed.done()
        cluster4.fault("cut", "n2")
        try:
            began = asyncio.get_running_loop().time()
            reason = await opened[1].closed
            assert asyncio.get_running_loop().time() - began < 60
            assert reason is not None
            assert reason.step is Step.LOST
        finally:
            cluster4.heal("cut", "n2")
        assert not opened[0].closed.done()


async def test_eight_ranks_by_the_systems_ssh(cluster4: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    copies = cluster4.shared / "system"
    async with connections(cluster4, monkeypatch, kind=BackendKind.OPENSSH) as opened:
        assert [connection.hello["host"] for connection in opened] == [node.name for node in cluster4.nodes]
        followers = await start_ring(cluster4, opened, "system", "--steps", "20", "--own-copy", str(copies))
        await asyncio.gather(*(f.follow(c) for f, c in zip(followers, opened, strict=True)))
    assert [follower.state for follower in followers] == ["succeeded"] * 4
    for rank in range(8):
        assert followers[rank // 2].logs[f"{rank}.out"] == (copies / f"rank-{rank:05d}.copy").read_bytes()


async def test_a_killed_node_takes_its_ranks_and_comes_back_without_them(
    cluster4: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connections(cluster4, monkeypatch) as opened:
        followers = await start_ring(cluster4, opened, "kill", "--steps", "5000", "--sleep", "0.02")
        followings = [asyncio.create_task(f.follow(c)) for f, c in zip(followers, opened, strict=True)]
        await until(lambda: b"step 5 " in followers[2].logs.get("4.out", b""))
        before = bytes(followers[2].logs["4.out"])
        cluster4.fault("kill", "n3")
        try:
            with pytest.raises(NodeError, match="n3: connection lost"):
                await followings[2]
            for number in (0, 1, 3):
                await followings[number]
                assert followers[number].state == "failed"
        finally:
            cluster4.heal("kill", "n3")
        async with connections(cluster4, monkeypatch, "n3") as again:
            await followers[2].follow(again[0])
    # Nothing on the node can say how its ranks ended; their output is on its disk.
    unknown = {event["rank"]: event["why"] for event in followers[2].named("rank_unknown")}
    assert sorted(unknown) == [4, 5]
    assert all("restarted" in why for why in unknown.values())
    assert followers[2].named("rank_ended") == []
    assert followers[2].logs["4.out"].startswith(before)


@pytest.mark.parametrize(
    ("kind", "step", "message"),
    [
        ("reject", Step.CONNECT, "refused"),
        ("no_sshd", Step.CONNECT, "refused"),
        ("refuse_key", Step.AUTH, "no key was accepted for user root"),
        ("cut", Step.CONNECT, "2 s"),
        ("freeze", Step.CONNECT, "sent no SSH banner within 2 s"),
        ("power", Step.CONNECT, "2 s"),
    ],
)
async def test_a_node_that_lets_nobody_in_says_why(
    cluster4: Cluster, monkeypatch: pytest.MonkeyPatch, kind: str, step: Step, message: str
) -> None:
    cluster4.fault(kind, "n4")
    try:
        error = await refusal(cluster4, monkeypatch, "n4", patience=2.0)
    finally:
        cluster4.heal(kind, "n4")
    assert error.step is step, error
    assert message in error.message
    async with connections(cluster4, monkeypatch, "n4") as opened:
        assert opened[0].hello["host"] == "n4"


async def test_a_reinstalled_node_is_not_trusted(cluster4: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster4.fault("boot", "n4", new_key=True)
    try:
        error = await refusal(cluster4, monkeypatch, "n4")
    finally:
        cluster4.heal("boot", "n4")
    assert error.step is Step.HOST_KEY
    assert "has changed" in error.message
    assert f"ssh-keygen -R {cluster4.node('n4').address} -f {cluster4.known_hosts}" in error.hint


async def test_a_full_disk_is_named(cluster4: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent still finds /dev/shm, which is no disk."""
    cluster4.run("n4", ["rm", "-rf", "/var/tmp/rankdeck-0"])
    cluster4.fault("full_disk", "n4")
    try:
        async with connections(cluster4, monkeypatch, "n4") as opened:
            assert opened[0].hello["folder"] == "/dev/shm/rankdeck-0"
    finally:
        cluster4.heal("full_disk", "n4")


async def test_odd_nodes(needs_cluster: None, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {
        "n1": NodeOptions(noise=True),
        "n2": NodeOptions(noise=True, shell="/usr/bin/fish"),
        "n3": NodeOptions(noise=True, shell="/usr/bin/tcsh", slow=1.0),
        "n4": NodeOptions(no_python=True, noise=True),
        "n5": NodeOptions(refuse_key=True),
        "n6": NodeOptions(noise=True, shell="/usr/bin/zsh"),
        "n7": NodeOptions(noise=True, shell="/bin/dash"),
        "n8": NodeOptions(shell="/usr/sbin/nologin"),
    }
    absent = [shell for shell in ("fish", "tcsh", "zsh", "dash") if shutil.which(shell) is None]
    if absent:
        pytest.skip(f"needs login shells that are not installed: {' '.join(absent)}")
    with Cluster(8, options) as cluster:
        willing = ["n1", "n2", "n3", "n6", "n7"]
        async with connections(cluster, monkeypatch, *willing) as opened:
            assert [connection.hello["host"] for connection in opened] == willing
            for connection in opened:
                assert (await connection.request("ping")).header["time"] > 0
        error = await refusal(cluster, monkeypatch, "n4")
        assert error.step is Step.PYTHON
        assert "no Python was found there; tried python3" in error.message
        assert "install python3" in error.hint
        error = await refusal(cluster, monkeypatch, "n5")
        assert error.step is Step.AUTH
        assert str(cluster.identity) in error.message
        error = await refusal(cluster, monkeypatch, "n8")
        assert error.step is Step.SHELL
        assert "not available" in error.message
