"""Nodes that are reached through other hosts: ProxyJump and ProxyCommand."""

import asyncio
import shutil
from pathlib import Path

import pytest
from opening import LIMIT, open_one, refused

from rankdeck_backends import open_backend, ssh_logins
from rankdeck_backends.base import Step
from rankdeck_profiles.model import BackendKind, PoolNode


def with_jump(sshd, *extra: str) -> None:
    sshd.write_config("ProxyJump gate", *extra, host="node node1 node2")
    inner = sshd.ssh_config.read_text()
    sshd.write_config(host="gate")
    sshd.ssh_config.write_text(inner + sshd.ssh_config.read_text())


async def test_nodes_behind_a_jump_host_share_one_connection_to_it(sshd, stand_in_agent):
    stand_in_agent()
    with_jump(sshd)
    backend = open_backend(BackendKind.SSH, connect_timeout=30)
    async with asyncio.timeout(LIMIT):
        one, two = await asyncio.gather(*(backend.open(PoolNode(f"n{n}", f"node{n}")) for n in (1, 2)))
        assert (await one.request("echo", say=1)).header["said"] == 1
        assert (await two.request("echo", say=2)).header["said"] == 2
        assert one.noise is not None  # there was a login shell, and it may have printed something
        assert sshd.log().count("Accepted publickey") == 3
        await one.close()
        assert (await two.request("echo", say=3)).header["said"] == 3
        await two.close()
        await backend.close()


@pytest.mark.parametrize("jump", [False, True])
async def test_a_site_s_final_block_changes_no_address(sshd, stand_in_agent, jump):
    """As in /etc/ssh/ssh_config.d/50-redhat.conf: asyncssh reads its config a second time for it."""
    stand_in_agent()
    if jump:
        with_jump(sshd)
    with sshd.ssh_config.open("a") as config:
        config.write("Match final all\n  GSSAPIAuthentication no\n")
    connection = await open_one()
    assert (await connection.request("echo", say=1)).header["said"] == 1
    await connection.close()


async def test_a_jump_host_that_is_not_known_is_the_one_named(sshd):
    with_jump(sshd)
    sshd.ssh_config.write_text(sshd.ssh_config.read_text().replace(str(sshd.known_hosts), "/dev/null"))
    error = await refused()
    assert error.step is Step.HOST_KEY
    assert "jump host gate (hop 1 of 2): the host key of" in error.what
    assert f"ssh -F {sshd.ssh_config} gate" in error.hint


async def test_a_node_that_the_jump_host_cannot_reach_is_named(sshd):
    with_jump(sshd, "Port 1")
    error = await refused()
    assert error.step is Step.CONNECT
    assert (
        "the jump host in front of it could not connect to 127.0.0.1 port 1: Connection refused" in error.what
    )


async def test_jump_hosts_in_a_circle_are_named(sshd):
    sshd.write_config("ProxyJump gate", host="*")
    error = await refused()
    assert error.step is Step.CONFIG
    assert "node > gate > gate" in error.what


@pytest.mark.skipif(shutil.which("ssh") is None, reason="the ssh client is not installed")
async def test_a_proxy_command_is_used_and_its_complaints_do_no_harm(sshd, stand_in_agent):
    stand_in_agent()
    sshd.write_config(host="gate")
    gate = sshd.ssh_config.read_text()
    sshd.write_config(
        f"ProxyCommand sh -c 'echo Authorized use only >&2; exec ssh -F {sshd.ssh_config} -W %h:%p gate'"
    )
    sshd.ssh_config.write_text(sshd.ssh_config.read_text() + gate)
    await (await open_one()).close()


def proxy_script(folder: Path, end: str) -> tuple[Path, Path]:
    """A ProxyCommand that leaves a line for each time it is run, and that file."""
    script, runs = folder / "proxy", folder / "runs"
    script.write_text(f"#!/bin/sh\necho x >>{runs}\n{end}\n")
    script.chmod(0o755)
    return script, runs


@pytest.mark.parametrize(
    ("end", "status", "wrote"),
    [
        ("echo log in to the portal first >&2; exit 1", 1, "it wrote:\n  log in to the portal first"),
        ("exec no-such-proxy", 127, "not found"),
        ("exit 3", 3, "it wrote nothing"),
    ],
)
async def test_a_proxy_command_that_fails_is_quoted_and_not_run_again(sshd, tmp_path, end, status, wrote):
    script, runs = proxy_script(tmp_path, end)
    sshd.write_config(f"ProxyCommand {script} %h")
    error = await refused()
    assert error.step is Step.CONNECT
    assert f"ended with status {status} before the login: `{script} 127.0.0.1`" in error.what
    assert wrote in error.what
    assert "MaxStartups" not in str(error)
    assert "ssh -F" in error.hint
    assert runs.read_text() == "x\n"


async def test_a_proxy_command_that_is_not_there_is_told(sshd):
    sshd.write_config("ProxyCommand no-such-proxy %h %p")
    error = await refused()
    assert "ended with status 127" in error.what
    assert "no-such-proxy: not found" in error.what


async def test_a_proxy_command_whose_server_hung_up_is_run_again(sshd, tmp_path, monkeypatch):
    monkeypatch.setattr(ssh_logins, "_RETRY_DELAY", 0.01)
    said = "kex_exchange_identification: Connection closed by remote host"
    script, runs = proxy_script(tmp_path, f"echo {said} >&2; exit 255")
    sshd.write_config(f"ProxyCommand {script}")
    error = await refused()
    assert "(5 tries)" in error.what
    assert said in error.what
    assert runs.read_text() == "x\n" * 5
