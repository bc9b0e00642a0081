"""The ssh backend against a real OpenSSH server: working with a node, and losing it."""

import asyncio
import os
import signal

import asyncssh
import pytest
from open_sshd import run
from opening import LIMIT, NODE, open_one, refused

from rankdeck_backends import connection as connection_module
from rankdeck_backends import open_backend, package, ssh, ssh_logins
from rankdeck_backends.base import NodeError, NodeRefusal, Step
from rankdeck_backends.facts import from_probe
from rankdeck_profiles.model import BackendKind, Pool, PoolNode


async def test_the_agent_answers_over_ssh(sshd):
    connection = await open_one()
    async with asyncio.timeout(LIMIT):
        assert connection.hello["uid"] == os.getuid()
        assert connection.hello["folder"] == str(sshd.folder / "node")
        probe = await connection.request("probe")
        facts = from_probe(
            NODE, Pool("p", BackendKind.SSH, (NODE,)), probe.header, reached_at=connection.reached_at
        )
        # Over a tunnel one arrives at loopback: other nodes can't reach that, unless there is nothing else.
        elsewhere = [each for each in probe.header["facts"]["interfaces"] if not each["loopback"]]
        assert (facts.interface == "lo") == (not any(each["addresses"] for each in elsewhere))
        assert probe.header["facts"]["ssh_server_address"] == connection.reached_at == "127.0.0.1"
        with pytest.raises(NodeRefusal, match="dance"):
            await connection.request("dance")
        await connection.close()
        assert await connection.closed is None


async def test_noise_of_start_up_files_is_passed_over(make_sshd, stand_in_agent):
    stand_in_agent()
    server = make_sshd()
    server.run_instead(
        'echo "Loading module cuda/13.0 ... done"; printf "\\000\\001 no newline"\n'
        'exec sh -c "$SSH_ORIGINAL_COMMAND"'
    )
    server.start()
    connection = await open_one()
    async with asyncio.timeout(LIMIT):
        assert (await connection.request("echo", say="hello")).header["said"] == "hello"
        await connection.close()


async def test_the_login_shells_start_up_file_may_print(sshd, stand_in_agent):
    stand_in_agent()
    (sshd.home / ".bashrc").write_text("echo 'You have 3 new messages'\n")
    connection = await open_one()
    await connection.close()


@pytest.mark.parametrize("said", ["", "echo 'No interactive use of this node.'\n"])
async def test_a_start_up_file_that_exits_is_told_as_such(sshd, stand_in_agent, said):
    stand_in_agent()
    (sshd.home / ".bashrc").write_text(f"case $- in *i*) ;; *) {said.strip() or ':'}; exit 0;; esac\n")
    with pytest.raises(NodeError) as caught:
        await open_one()
    assert caught.value.step is Step.SHELL
    assert "status 0 before the agent started, as start-up files that call `exit` do" in caught.value.message
    assert ("No interactive use" in caught.value.message) == bool(said)


async def test_a_command_that_ends_before_it_is_given_the_agent_is_told_as_such(make_sshd, monkeypatch):
    """A busy login node comes to it late: the channel is closed by then."""
    open_session = asyncssh.SSHClientConnection.create_session

    async def late(*arguments, **settings):
        channel, session = await open_session(*arguments, **settings)
        async with asyncio.timeout(LIMIT):
            await channel.wait_closed()
        return channel, session

    monkeypatch.setattr(asyncssh.SSHClientConnection, "create_session", late)
    server = make_sshd()
    server.run_instead("exit 3")
    server.start()
    with pytest.raises(NodeError) as caught:
        await open_one()
    assert caught.value.step is Step.SHELL
    assert "status 3 before the agent started" in caught.value.message


async def test_large_bodies_go_both_ways(sshd, stand_in_agent):
    stand_in_agent()
    connection = await open_one()
    body = os.urandom(8 << 20)
    async with asyncio.timeout(LIMIT):
        assert (await connection.request("echo", body=body)).body == body
        await connection.close()


async def test_a_node_of_the_pool_may_name_user_and_port(sshd, stand_in_agent):
    stand_in_agent()
    sshd.write_config("User nobody-by-this-name", host="127.0.0.1")
    user = run("id", "-un").strip()
    connection = await open_one(PoolNode("n1", "127.0.0.1", user, sshd.port))
    await connection.close()


async def test_a_node_without_python_is_named_with_what_was_tried(sshd, monkeypatch):
    monkeypatch.setattr(package, "PYTHONS", ("no-such-python3", "/nowhere/python3"))
    error = await refused()
    assert error.step is Step.PYTHON
    assert "no-such-python3 /nowhere/python3" in error.what


async def test_a_python_that_is_too_old_is_named(sshd, monkeypatch):
    old = sshd.folder / "python3"
    old.write_text('#!/bin/sh\n[ "$1" = -V ] && echo Python 3.4.10 && exit\nexit 97\n')
    old.chmod(0o755)
    monkeypatch.setattr(package, "PYTHONS", (str(old),))
    error = await refused()
    assert error.step is Step.PYTHON
    assert "3.4.10" in error.what


async def test_an_account_without_a_shell_shows_what_the_server_said(make_sshd):
    server = make_sshd()
    server.run_instead("echo This account is currently not available.; exit 1")
    server.start()
    error = await refused()
    assert error.step is Step.SHELL
    assert "status 1" in error.what
    assert "This account is currently not available." in error.what


async def test_a_shell_that_hangs_runs_into_the_time_limit(make_sshd, monkeypatch):
    monkeypatch.setattr(ssh, "_HELLO_PATIENCE", 0.1)
    server = make_sshd()
    server.run_instead("echo Enter your project:; read project; exec sleep 600")
    server.start()
    error = await refused(connect_timeout=50)
    assert error.step is Step.SHELL
    assert "Enter your project:" in error.what


async def test_a_server_that_opens_no_session_is_asked_again_and_then_named(make_sshd, monkeypatch):
    monkeypatch.setattr(ssh, "_SESSION_RETRY_DELAYS", (0.01, 0.01))
    server = make_sshd(settings={"MaxSessions": "0", "LogLevel": "DEBUG1"}).start()
    error = await refused()
    assert server.log().count("server_input_channel_open: ctype session") == 3
    assert error.step is Step.SHELL
    assert "opens no session" in error.what


async def test_one_session_is_enough(make_sshd, stand_in_agent):
    stand_in_agent()
    make_sshd(settings={"MaxSessions": "1"}).start()
    connection = await open_one()
    async with asyncio.timeout(LIMIT):
        replies = await asyncio.gather(*(connection.request("echo", say=number) for number in range(20)))
    assert [reply.header["said"] for reply in replies] == list(range(20))
    await connection.close()


@pytest.mark.parametrize("victim", ["server", "agent", "nobody moves"])
async def test_a_connection_that_is_killed_mid_stream_resolves_closed(
    sshd, stand_in_agent, monkeypatch, victim
):
    stand_in_agent()
    monkeypatch.setattr(connection_module, "PING_INTERVAL", 0.3)
    connection = await open_one()
    came = asyncio.Event()
    async with asyncio.timeout(LIMIT):
        stream = asyncio.create_task(connection.stream("drip", lambda header, body: came.set()))
        await came.wait()
        if victim == "server":
            sshd.stop()
        else:
            os.kill(connection.hello["pid"], signal.SIGKILL if victim == "agent" else signal.SIGSTOP)
        reason = await connection.closed
        assert reason is not None
        assert reason.step is Step.LOST
        assert reason.what.startswith("connection lost: ")
        with pytest.raises(NodeError) as caught:
            await stream
        assert caught.value.what == reason.what
        await connection.close()
        if victim == "nobody moves":
            os.kill(connection.hello["pid"], signal.SIGKILL)


def is_there(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


async def test_closing_leaves_neither_agent_nor_login_on_the_node(sshd, stand_in_agent):
    stand_in_agent()
    connection = await open_one()
    pid = connection.hello["pid"]
    async with asyncio.timeout(LIMIT):
        await connection.close()
        while is_there(pid) or sshd.sessions():  # noqa: ASYNC110 - these are other processes
            await asyncio.sleep(0.05)


async def test_sixteen_at_once_are_all_let_in(make_sshd, stand_in_agent):
    stand_in_agent()
    make_sshd(settings={"MaxStartups": "10:30:60", "LoginGraceTime": "120"}).start()
    backend = open_backend(BackendKind.SSH, connect_timeout=60)
    async with asyncio.timeout(LIMIT):
        connections = await asyncio.gather(*(backend.open(PoolNode(f"n{n}", "node")) for n in range(16)))
        assert len({connection.hello["pid"] for connection in connections}) == 16
        await asyncio.gather(*(connection.close() for connection in connections))


async def test_a_server_that_hangs_up_before_its_banner_is_tried_again(sshd, stand_in_agent, monkeypatch):
    stand_in_agent()
    monkeypatch.setattr(ssh_logins, "_RETRY_DELAY", 0.05)
    tries = 0

    async def relay(reader, writer) -> None:
        nonlocal tries
        tries += 1
        if tries <= 3:
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection("127.0.0.1", sshd.port)

        async def copy(source, sink) -> None:
            while data := await source.read(1 << 16):
                sink.write(data)
            sink.close()

        await asyncio.gather(copy(reader, back), copy(there, writer), return_exceptions=True)

    known = sshd.known_line()
    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    port = sshd.port
    relayed = server.sockets[0].getsockname()[1]
    sshd.known_hosts.write_text(known.replace(str(port), str(relayed)))
    sshd.write_config(f"Port {relayed}")
    connection = await open_one()
    assert tries == 4
    await connection.close()
    server.close()
