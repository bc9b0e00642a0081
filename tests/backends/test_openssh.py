"""The system's own ssh as the way to a node: chosen in the pool, or where rankdeck's client gets no way."""

import asyncio
import shutil
import subprocess

import pytest
from open_sshd import make_key, run
from opening import LIMIT, NODE

from rankdeck_backends import open_backend
from rankdeck_backends.base import NodeError, Step
from rankdeck_profiles.model import BackendKind, PoolNode

pytestmark = pytest.mark.skipif(shutil.which("ssh") is None, reason="the ssh client is not installed")


async def opened(kind: BackendKind, node: PoolNode = NODE, *, connect_timeout: float = 30.0):
    backend = open_backend(kind, connect_timeout=connect_timeout)
    async with asyncio.timeout(LIMIT):
        return await backend.open(node)


async def refused(kind: BackendKind = BackendKind.OPENSSH, node: PoolNode = NODE, **options) -> NodeError:
    with pytest.raises(NodeError) as caught:
        await opened(kind, node, **options)
    assert caught.value.node == node.name
    return caught.value


async def test_the_agent_answers_over_the_systems_ssh(sshd):
    connection = await opened(BackendKind.OPENSSH)
    assert connection.hello["protocol"] == 1
    assert f"ssh -F {sshd.ssh_config}" in connection.note
    assert connection.noise is not None
    assert (await connection.request("ping")).header["time"] > 0
    await connection.close()
    async with asyncio.timeout(LIMIT):
        while sshd.sessions():  # noqa: ASYNC110 - another process ends
            await asyncio.sleep(0.05)


async def test_large_bodies_go_both_ways(sshd, stand_in_agent):
    stand_in_agent()
    connection = await opened(BackendKind.OPENSSH)
    body = bytes(range(256)) * (16 << 10)
    reply = await connection.request("echo", body=body, timeout=LIMIT)
    assert reply.body == body
    await connection.close()


async def test_a_pools_user_and_port_are_passed_on(sshd, stand_in_agent):
    stand_in_agent()
    sshd.ssh_config.write_text(sshd.ssh_config.read_text().replace(f"Port {sshd.port}", "Port 1"))
    user = run("id", "-un").strip()
    await (await opened(BackendKind.OPENSSH, PoolNode("n1", "node", user, sshd.port))).close()
    error = await refused(node=PoolNode("n1", "node", "nobody-here", sshd.port))
    assert error.step is Step.AUTH


async def test_each_step_is_named(sshd, tmp_path, monkeypatch):
    config = sshd.ssh_config.read_text()
    sshd.ssh_config.write_text(config.replace("127.0.0.1", "no-such-host.invalid"))
    assert (await refused()).step is Step.RESOLVE
    sshd.ssh_config.write_text(config.replace(f"Port {sshd.port}", "Port 1"))
    error = await refused()
    assert error.step is Step.CONNECT
    assert "refused" in error.what
    sshd.ssh_config.write_text("NoSuchOption yes\n" + config)
    error = await refused()
    assert error.step is Step.CONFIG
    assert "nosuchoption" in error.what.lower()
    sshd.ssh_config.write_text(config)
    authorized = sshd.authorized.read_text()
    sshd.authorized.write_text("")
    error = await refused()
    assert error.step is Step.AUTH
    assert "(publickey)" in error.what
    sshd.authorized.write_text(authorized)
    sshd.known_hosts.write_text("")
    assert (await refused()).step is Step.HOST_KEY
    monkeypatch.setenv("PATH", str(tmp_path))
    error = await refused()
    assert error.step is Step.CONFIG
    assert "not on the PATH" in error.what


@pytest.mark.parametrize("setting", ["no", "off", "accept-new", "ask"])
async def test_a_changed_host_key_is_refused_whatever_the_config_says(sshd, tmp_path, setting):
    sshd.known_hosts.write_text(sshd.known_line(make_key(tmp_path / "other")))
    sshd.write_config(f"StrictHostKeyChecking {setting}")
    error = await refused()
    assert error.step is Step.HOST_KEY


async def test_a_server_that_dies_mid_session_is_noticed(sshd, stand_in_agent):
    stand_in_agent()
    connection = await opened(BackendKind.OPENSSH)
    sshd.stop()
    async with asyncio.timeout(LIMIT):
        error = await connection.closed
    assert error is not None
    assert error.step is Step.LOST


async def test_an_agent_that_cannot_start_is_told_as_over_rankdecks_own_client(sshd, monkeypatch):
    sshd.run_instead("echo no such luck >&2; exit 3")
    sshd.stop()
    sshd.start()
    error = await refused()
    assert error.step is Step.SHELL
    assert "status 3" in error.what
    assert "no such luck" in error.what


POST_QUANTUM = "KexAlgorithms sntrup761x25519-sha512@openssh.com"
"""Which asyncssh has only with a library that is hardly ever there (liboqs)."""
THEIRS = "Match originalhost=node"
"""Read by OpenSSH, though its manual has a blank there; a line that asyncssh does not read."""


async def test_a_config_that_only_openssh_reads_leads_to_the_systems_ssh(sshd, stand_in_agent):
    stand_in_agent()
    sshd.write_config(THEIRS)
    connection = await opened(BackendKind.SSH)
    assert "the system's ssh" in connection.note
    assert "the ssh config has something that rankdeck does not read" in connection.note
    await connection.close()


async def test_a_server_whose_algorithms_only_openssh_has_is_reached_by_the_systems_ssh(sshd, stand_in_agent):
    stand_in_agent()
    sshd.write_config(POST_QUANTUM)
    connection = await opened(BackendKind.SSH)
    assert "the system's ssh" in connection.note
    assert "algorithms that rankdeck does not have" in connection.note
    await connection.close()
    sshd.authorized.write_text("")
    error = await refused(BackendKind.SSH)
    assert error.step is Step.CONNECT
    assert "have no algorithms in common" in error.what
    assert "the system's ssh does not get further: " in error.what


async def test_where_neither_gets_further_both_reasons_are_told(sshd):
    sshd.write_config(THEIRS)
    sshd.authorized.write_text("")
    error = await refused(BackendKind.SSH)
    assert error.step is Step.CONFIG
    assert "originalhost=node" in error.what
    assert "the system's ssh does not get further" in error.what
    assert "Permission denied" in error.what


async def test_a_master_that_the_person_has_opened_is_used(sshd, stand_in_agent, tmp_path):
    """Whatever had to be typed to open it: later sessions need no login."""
    stand_in_agent()
    sshd.write_config(f"ControlPath {tmp_path}/master")
    argv = ["ssh", "-F", str(sshd.ssh_config), "-M", "-N", "-o", "ControlPersist=no", "node"]
    master = await asyncio.create_subprocess_exec(*argv, stdin=subprocess.DEVNULL)
    try:
        async with asyncio.timeout(LIMIT):
            while not (tmp_path / "master").exists():  # noqa: ASYNC110 - another process makes it
                await asyncio.sleep(0.05)
        sshd.authorized.write_text("")
        await (await opened(BackendKind.OPENSSH)).close()
        assert sshd.log().count("Accepted publickey") == 1
    finally:
        master.terminate()
        await master.wait()
