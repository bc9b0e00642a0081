"""SSH as sites have it: banners, narrow servers, bastions under load, wrappers."""

import asyncio
import time

import pytest
from asked import Person, asking_server
from open_sshd import OpenSshd, free_port, make_key, run
from opening import LIMIT, open_one, refused
from test_ssh_asking import let_in
from test_ssh_routes import with_jump

from rankdeck_backends import open_backend, ssh, ssh_logins
from rankdeck_backends.base import NodeError, Step
from rankdeck_profiles.model import BackendKind, PoolNode

LEGAL = "*** Authorized use only ***\n" * 60 + "\x1b[31mRANKDECK-AGENT-1 is only a name here\x1b[0m\n"


async def test_a_banner_does_no_harm(make_sshd, stand_in_agent, tmp_path):
    stand_in_agent()
    (tmp_path / "banner").write_text(LEGAL)
    make_sshd(settings={"Banner": str(tmp_path / "banner"), "PrintLastLog": "yes"}).start()
    connection = await open_one()
    assert (await connection.request("echo", say=1)).header["said"] == 1
    await connection.close()


@pytest.mark.parametrize("sessions", ["1", "10"])
async def test_one_channel_carries_all(make_sshd, stand_in_agent, sessions):
    stand_in_agent()
    server = make_sshd(settings={"MaxSessions": sessions, "LogLevel": "DEBUG1"}).start()
    connection = await open_one()
    streams = [asyncio.create_task(connection.stream("drip", lambda header, body: None))]
    async with asyncio.timeout(LIMIT):
        while server.log().count("server_input_channel_open: ctype session") < 1:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    await connection.close()
    for stream in streams:
        with pytest.raises(NodeError):
            await stream
    assert server.log().count("server_input_channel_open: ctype session") == 1


async def test_a_server_that_has_no_session_for_a_moment_is_asked_again(sshd, stand_in_agent, monkeypatch):
    stand_in_agent()
    monkeypatch.setattr(ssh, "_SESSION_RETRY_DELAYS", (0.01, 0.01))
    port = free_port()
    sshd.write_config(f"Port {port}")
    sshd.known_hosts.write_text(sshd.known_line().replace(f":{sshd.port}", f":{port}"))
    async with asking_server(port, sshd.host_key, password="right", full=2) as logins:
        await let_in(Person(["right"]))
    assert len(logins) == 1


async def test_sixty_four_nodes_behind_a_bastion_that_drops_at_random(make_sshd, stand_in_agent, tmp_path):
    stand_in_agent()
    bastion = make_sshd(name="bastion", settings={"MaxStartups": "10:30:60"}).start()
    nodes = OpenSshd(tmp_path / "nodes", {"MaxStartups": "10:30:100", "MaxSessions": "100"}).start()
    try:
        bastion.write_config(host="gate")
        gate = bastion.ssh_config.read_text()
        nodes.write_config("ProxyJump gate", host="gpu*")
        bastion.ssh_config.write_text(nodes.ssh_config.read_text() + gate)
        backend = open_backend(BackendKind.SSH, connect_timeout=60)
        began = time.monotonic()
        async with asyncio.timeout(LIMIT):
            opened = await asyncio.gather(*(backend.open(PoolNode(f"n{n}", f"gpu{n}")) for n in range(64)))
            took = time.monotonic() - began
            await asyncio.gather(*(connection.close() for connection in opened))
            await backend.close()
        assert len({connection.hello["pid"] for connection in opened}) == 64
        assert bastion.log().count("Accepted publickey") == 1
        assert "MaxStartups" not in bastion.log() + nodes.log()
        assert took < 60
    finally:
        nodes.stop()


async def test_a_server_that_is_full_is_tried_again_and_then_named(sshd, monkeypatch):
    """What sshd says to those that its MaxStartups drops, in place of its banner."""
    monkeypatch.setattr(ssh_logins, "_RETRY_DELAY", 0.02)
    tries = 0

    async def full(reader, writer) -> None:
        nonlocal tries
        tries += 1
        writer.write(b"Exceeded MaxStartups\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(full, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        sshd.write_config(f"Port {port}")
        error = await refused()
    assert error.step is Step.CONNECT
    assert tries == 5
    assert "Exceeded MaxStartups" in error.what
    assert "(5 tries)" in error.what
    assert "MaxStartups" in error.hint


async def test_a_proxy_command_gets_host_port_user_and_typed_name(sshd, stand_in_agent, tmp_path):
    stand_in_agent()
    wrapper = tmp_path / "px"
    wrapper.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/arguments\n'
        f"exec python3 -c 'import socket,sys,os,threading\n"
        "s=socket.create_connection((sys.argv[1],int(sys.argv[2])))\n"
        "def up():\n"
        "  while d:=os.read(0,65536): s.sendall(d)\n"
        "  s.shutdown(1)\n"
        "threading.Thread(target=up,daemon=True).start()\n"
        'while d:=s.recv(65536): os.write(1,d)\' "$1" "$2"\n'
    )
    wrapper.chmod(0o755)
    user = run("id", "-un").strip()
    sshd.write_config(host="gpu7")
    config = sshd.ssh_config
    config.write_text(f"Host * !jumpserver\n  ProxyCommand {wrapper} %h %p %r %n\n" + config.read_text())
    await (await open_one(PoolNode("n1", "gpu7", user))).close()
    assert (tmp_path / "arguments").read_text() == f"127.0.0.1 {sshd.port} {user} gpu7\n"


async def test_a_bastion_that_a_proxy_command_goes_through_is_not_overrun(make_sshd, stand_in_agent):
    """The wrapper of old: a login at the bastion for each node, which rankdeck cannot see."""
    stand_in_agent()
    bastion = make_sshd(name="bastion", settings={"MaxStartups": "10:100:10"}).start()
    bastion.write_config(host="gate")
    text = bastion.ssh_config.read_text()
    bastion.write_config(f"ProxyCommand ssh -F {bastion.folder}/gate -W %h:%p gate", host="gpu*")
    (bastion.folder / "gate").write_text(text)
    backend = open_backend(BackendKind.SSH, connect_timeout=60)
    try:
        async with asyncio.timeout(LIMIT):
            for opened in await asyncio.gather(
                *(backend.open(PoolNode(f"n{n}", f"gpu{n}")) for n in range(24))
            ):
                await opened.close()
    finally:
        await backend.close()
    assert "MaxStartups" not in bastion.log()


async def test_a_jump_host_that_is_down_and_one_that_refuses_are_named_by_hop(sshd):
    with_jump(sshd)
    text = sshd.ssh_config.read_text()
    nodes, gate = text.split("Host gate")
    sshd.ssh_config.write_text(f"{nodes}Host gate{gate.replace(f'Port {sshd.port}', f'Port {free_port()}')}")
    error = await refused(PoolNode("n1", "node1"))
    assert error.step is Step.CONNECT
    assert "jump host gate (hop 1 of 2): " in error.what
    assert "refused the connection" in error.what
    stranger = make_key(sshd.folder / "stranger")
    sshd.ssh_config.write_text(f"{nodes}Host gate{gate.replace(str(sshd.client_key), str(stranger))}")
    error = await refused(PoolNode("n1", "node1"))
    assert error.step is Step.AUTH
    assert "jump host gate (hop 1 of 2): " in error.what
    assert "the server takes: publickey" in error.what


async def test_a_user_certificate_gets_in(make_sshd, stand_in_agent, tmp_path):
    stand_in_agent()
    server = make_sshd()
    authority = make_key(tmp_path / "authority")
    server.settings["TrustedUserCAKeys"] = f"{authority}.pub"
    server.start()
    server.authorized.write_text("")
    assert (await refused()).step is Step.AUTH
    user = run("id", "-un").strip()
    run("ssh-keygen", "-q", "-s", str(authority), "-I", "me", "-n", user, f"{server.client_key}.pub")
    await (await open_one()).close()
    certificate = server.client_key.with_name(server.client_key.name + "-cert.pub")
    certificate.rename(tmp_path / "elsewhere-cert.pub")
    server.write_config(f"CertificateFile {tmp_path}/elsewhere-cert.pub")
    await (await open_one()).close()


async def test_giving_up_while_many_connect_leaves_no_connection(make_sshd):
    """Half of the nodes hang before their banner, the others wait for their turn."""
    sshd = make_sshd()
    connected, gone = [], []

    async def silent(reader, writer) -> None:
        connected.append(writer)
        gone.append(await reader.read())
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with server:
        sshd.write_config(f"Port {server.sockets[0].getsockname()[1]}", "ConnectTimeout 600", host="gpu*")
        backend = open_backend(BackendKind.SSH)
        openings = [asyncio.ensure_future(backend.open(PoolNode(f"n{n}", f"gpu{n}"))) for n in range(16)]
        async with asyncio.timeout(LIMIT):
            while len(connected) < 8:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            for opening in openings:
                opening.cancel()
            done = await asyncio.gather(*openings, return_exceptions=True)
            assert all(isinstance(each, asyncio.CancelledError) for each in done)
            await backend.close()
            while len(gone) < len(connected):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    assert len(connected) == 8
