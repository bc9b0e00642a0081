"""Getting in to a real OpenSSH server, and what is said where that fails."""

import asyncio
import os
import shutil
import socket
import subprocess

import pytest
from open_sshd import fingerprint, make_key, run
from opening import LIMIT, open_one, refused

from rankdeck_backends.base import Step
from rankdeck_profiles.model import PoolNode


async def test_an_unknown_host_is_refused_with_its_fingerprint_and_the_way_to_accept_it(sshd):
    sshd.known_hosts.write_text("")
    error = await refused()
    assert error.step is Step.HOST_KEY
    assert "is not known" in error.what
    assert fingerprint(sshd.host_key) in error.what
    assert f"ssh -F {sshd.ssh_config} node" in error.hint
    scan = error.hint.split("or `")[1].rstrip("`")
    run("sh", "-c", scan)
    assert sshd.known_hosts.read_text() == sshd.known_line().rsplit(" ", 1)[0] + "\n"


async def test_a_host_known_only_by_another_type_of_key_is_unknown_not_changed(sshd, tmp_path):
    sshd.known_hosts.write_text(sshd.known_line(make_key(tmp_path / "other", "ecdsa")))
    error = await refused()
    assert error.step is Step.HOST_KEY
    assert "is not known (known only by a key of type ecdsa-sha2-nistp256)" in error.what


async def test_a_changed_host_key_is_refused_with_both_fingerprints_and_the_line(sshd, tmp_path):
    other = make_key(tmp_path / "other")
    sshd.known_hosts.write_text("# the cluster\n\n" + sshd.known_line(other))
    error = await refused()
    assert error.step is Step.HOST_KEY
    assert "has changed" in error.what
    for key in (sshd.host_key, other):
        assert fingerprint(key) in error.what
    assert f"{sshd.known_hosts}:3" in error.what
    remove = error.hint.split("`")[1]
    run("sh", "-c", remove)
    assert "ssh-ed25519" not in sshd.known_hosts.read_text()


async def test_a_file_that_keeps_nothing_turns_no_verification_off(sshd):
    sshd.write_config("UserKnownHostsFile none")
    assert (await refused()).step is Step.HOST_KEY
    sshd.write_config("UserKnownHostsFile /dev/null")
    assert (await refused()).step is Step.HOST_KEY


async def test_a_revoked_host_key_is_refused(sshd):
    sshd.known_hosts.write_text(sshd.known_line() + f"@revoked {sshd.known_line()}")
    error = await refused()
    assert error.step is Step.HOST_KEY
    assert f"{sshd.known_hosts}:2" in error.hint


async def test_a_hashed_known_hosts_file_is_read(sshd, stand_in_agent):
    stand_in_agent()
    run("ssh-keygen", "-q", "-H", "-f", str(sshd.known_hosts))
    assert "127.0.0.1" not in sshd.known_hosts.read_text()
    await (await open_one()).close()


async def test_a_host_key_alias_is_looked_up(sshd, stand_in_agent):
    stand_in_agent()
    sshd.known_hosts.write_text("gpu-node " + sshd.host_key.with_suffix(".pub").read_text())
    assert (await refused()).step is Step.HOST_KEY
    sshd.write_config("HostKeyAlias gpu-node")
    await (await open_one()).close()


async def test_a_host_certificate_is_trusted_by_its_authority(make_sshd, stand_in_agent, tmp_path):
    stand_in_agent()
    server = make_sshd()
    authority = make_key(tmp_path / "authority")
    certificate = ["-s", str(authority), "-I", "node", "-h", "-n", "127.0.0.1"]
    run("ssh-keygen", "-q", *certificate, f"{server.host_key}.pub")
    server.settings["HostCertificate"] = f"{server.host_key}-cert.pub"
    server.known_hosts.write_text(f"@cert-authority * {authority.with_suffix('.pub').read_text()}")
    server.start()
    await (await open_one()).close()
    server.known_hosts.write_text("")
    assert (await refused()).step is Step.HOST_KEY


async def test_a_refused_key_names_methods_and_keys(sshd):
    sshd.authorized.write_text("")
    error = await refused()
    assert error.step is Step.AUTH
    assert "the server takes: publickey" in error.what
    assert str(sshd.client_key) in error.what
    assert "SHA256:" in error.what


@pytest.mark.parametrize(
    "limits",
    [("-n", "other.example.org"), ("-n", "127.0.0.1", "-V", "20200101:20200102")],
    ids=["name", "time"],
)
async def test_a_certificate_of_a_known_authority_that_does_not_fit_says_so(make_sshd, tmp_path, limits):
    server = make_sshd()
    authority = make_key(tmp_path / "authority")
    run("ssh-keygen", "-q", "-s", str(authority), "-I", "node", "-h", *limits, f"{server.host_key}.pub")
    server.settings["HostCertificate"] = f"{server.host_key}-cert.pub"
    server.known_hosts.write_text(f"@cert-authority * {authority.with_suffix('.pub').read_text()}")
    server.start()
    error = await refused()
    assert error.step is Step.HOST_KEY
    assert "have the certificate made anew" in error.hint


async def test_an_identity_file_that_is_not_there_is_no_error(sshd, stand_in_agent):
    stand_in_agent()
    sshd.write_config(
        f"IdentityFile {sshd.folder}/keys/%h_%n_%p", f"CertificateFile {sshd.folder}/no-cert.pub"
    )
    await (await open_one()).close()


async def test_a_private_key_that_others_may_read_is_not_used_as_ssh_does_not(sshd):
    sshd.client_key.chmod(0o644)
    error = await refused()
    assert error.step is Step.AUTH
    assert f"{sshd.client_key} may be read by others (mode 0644)" in error.what
    assert "keys offered: none" in error.what
    sshd.client_key.chmod(0o600)


async def test_tokens_in_the_name_of_an_identity_file_are_filled_in(sshd, stand_in_agent):
    stand_in_agent()
    user = run("id", "-un").strip()
    keys = sshd.folder / "keys"
    keys.mkdir()
    for suffix in ("", ".pub"):
        name = f"127.0.0.1_node_{sshd.port}_{user}_%{suffix}"
        sshd.client_key.with_name(sshd.client_key.name + suffix).rename(keys / name)
    sshd.write_config(f"IdentityFile {keys}/%h_%n_%p_%r_%%", f"User {user}")
    await (await open_one()).close()


async def test_an_encrypted_key_is_named_with_what_to_do(sshd):
    sshd.client_key.unlink()
    make_key(sshd.client_key.with_name("locked"), passphrase="secret")
    sshd.client_key = sshd.client_key.with_name("locked")
    sshd.write_config()
    error = await refused()
    assert error.step is Step.AUTH
    assert f"{sshd.client_key} is encrypted" in error.what
    assert "keys offered: none" in error.what
    assert f"ssh-add {sshd.client_key}" in error.hint
    assert "ssh-keygen" not in str(error)


@pytest.fixture
def ssh_agent(tmp_path, monkeypatch):
    if shutil.which("ssh-agent") is None:
        pytest.skip("ssh-agent is not installed")
    path = tmp_path / "agent.sock"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL)

    def add(*keys) -> None:
        environment = {**os.environ, "SSH_AUTH_SOCK": str(path)}
        for key in keys:
            subprocess.run(
                ["ssh-add", "-q", str(key)], env=environment, check=True, timeout=60, capture_output=True
            )
        monkeypatch.setenv("SSH_AUTH_SOCK", str(path))

    yield add
    process.terminate()
    process.wait(30)


async def wait_for_socket(path) -> None:
    async with asyncio.timeout(LIMIT):
        while not path.exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.02)


async def test_the_ssh_agents_keys_are_offered(sshd, ssh_agent, stand_in_agent, tmp_path):
    stand_in_agent()
    await wait_for_socket(tmp_path / "agent.sock")
    ssh_agent(sshd.client_key)
    sshd.client_key.rename(sshd.client_key.with_name("gone"))
    # Only its public part is left, which says which of the agent's keys to take.
    await (await open_one()).close()


async def test_too_many_keys_in_the_ssh_agent_are_named(sshd, ssh_agent, stand_in_agent, tmp_path):
    stand_in_agent()
    await wait_for_socket(tmp_path / "agent.sock")
    right = make_key(tmp_path / "right")
    sshd.authorized.write_text(right.with_suffix(".pub").read_text())
    ssh_agent(*(make_key(tmp_path / f"key{number}") for number in range(7)), right)
    sshd.write_config("IdentitiesOnly no")
    error = await refused()
    assert error.step is Step.AUTH
    assert "too many refused keys" in error.what
    offered = ", ".join(f"key{number}" for number in range(6))  # sshd's MaxAuthTries: 6
    assert (
        f"keys offered: the first 6 of 8 keys of the ssh agent ({offered}); "
        f"then the server closed: MaxAuthTries; not offered: {sshd.client_key} (SHA256:" in error.what
    )
    assert "the server takes: publickey" in error.what
    assert "IdentitiesOnly yes" in error.hint
    # As with ssh, a key that the config names comes first, wherever the agent has it.
    sshd.write_config("IdentitiesOnly no", f"IdentityFile {right}.pub")
    await (await open_one()).close()
    sshd.write_config("IdentitiesOnly yes", f"IdentityFile {right}.pub")
    await (await open_one()).close()


async def test_keys_that_were_all_offered_are_counted_where_a_person_can_be_asked_no_more(
    sshd, ssh_agent, tmp_path
):
    await wait_for_socket(tmp_path / "agent.sock")
    ssh_agent(make_key(tmp_path / "one"), make_key(tmp_path / "two"))
    sshd.authorized.write_text("")
    sshd.write_config("IdentitiesOnly no")
    error = await refused()
    assert f"keys offered: 2 keys of the ssh agent (one, two), {sshd.client_key} (SHA256:" in error.what
    assert "not offered" not in error.what


async def test_an_ssh_agent_that_is_gone_is_told(sshd, monkeypatch, tmp_path):
    sshd.write_config("IdentitiesOnly no")
    sshd.authorized.write_text("")
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "nobody"))
    error = await refused()
    assert f"no ssh agent answers at {tmp_path}/nobody: " in error.what
    assert "No such file" in error.what
    sshd.client_key.unlink()
    sshd.client_key.with_suffix(".pub").unlink()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "dead"))  # and nobody listens there
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "dead"))
        error = await refused()
    assert "keys offered: none" in error.what
    assert f"no ssh agent answers at {tmp_path}/dead: " in error.what
    assert "start one" in error.hint


async def test_a_dead_ssh_agent_keeps_nobody_out_whose_key_is_in_a_file(
    sshd, monkeypatch, stand_in_agent, tmp_path
):
    stand_in_agent()
    sshd.write_config("IdentitiesOnly no")
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "nobody"))
    await (await open_one()).close()


async def test_nothing_listening_and_no_such_name_are_told_apart(sshd):
    sshd.stop()
    error = await refused()
    assert error.step is Step.CONNECT
    assert f"127.0.0.1 refused the connection to port {sshd.port}" in error.what
    error = await refused(PoolNode("n2", "no-such-host.invalid"))
    assert error.step is Step.RESOLVE
    assert "no-such-host.invalid" in error.what


async def test_a_server_that_says_nothing_runs_into_the_time_limit(sshd):
    accepted = []

    async def silent(reader, writer) -> None:
        accepted.append(writer)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    error = await refused(PoolNode("n1", "127.0.0.1", None, port), connect_timeout=2)
    assert error.step is Step.CONNECT
    assert "sent no SSH banner within 2 s" in error.what
    assert accepted
    server.close()


async def test_the_configs_connect_timeout_counts(sshd):
    server = await asyncio.start_server(lambda reader, writer: reader.read(), "127.0.0.1", 0)
    sshd.port = server.sockets[0].getsockname()[1]
    sshd.write_config("ConnectTimeout 3")
    error = await refused(connect_timeout=300)
    assert "within 3 s" in error.what
    server.close()


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP/1.1 400 Bad Request"),
        (b"-ERR unknown command\r\n", "-ERR unknown command"),
        (bytes(range(256)) * 40, "answers, but not as an SSH server"),
        (b"\xff\xfe\x01", "answers, but not as an SSH server"),
    ],
    ids=["web", "redis", "many bytes", "few bytes"],
)
async def test_a_server_of_another_kind_is_shown_at_once(sshd, answer, shown):
    calls = []

    def other(reader, writer) -> None:
        calls.append(writer)
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(other, "127.0.0.1", 0)
    error = await refused(PoolNode("n1", "127.0.0.1", None, server.sockets[0].getsockname()[1]))
    server.close()
    assert error.step is Step.CONNECT
    assert shown in error.what
    assert error.hint == "is it sshd that listens there? check host and port"
    assert len(calls) == 1


async def test_a_server_that_holds_an_address_back_is_not_asked_again_and_again(sshd):
    calls = []

    def penalising(reader, writer) -> None:
        calls.append(writer)
        writer.write(b"Not allowed at this time\r\n")
        writer.close()

    server = await asyncio.start_server(penalising, "127.0.0.1", 0)
    error = await refused(PoolNode("n1", "127.0.0.1", None, server.sockets[0].getsockname()[1]))
    server.close()
    assert "Not allowed at this time" in error.what
    assert "PerSourcePenalties" in error.hint
    assert len(calls) == 1


@pytest.mark.parametrize("line", ["Port many", "Host", "ConnectTimeout"])
async def test_a_wrong_config_names_file_and_line(sshd, line):
    sshd.write_config(line)
    error = await refused()
    assert error.step is Step.CONFIG
    assert f"{sshd.ssh_config} line 2" in error.what


async def test_a_config_that_is_not_there_is_named(sshd, monkeypatch):
    monkeypatch.setenv("RANKDECK_SSH_CONFIG", "/nowhere/ssh_config")
    error = await refused()
    assert error.step is Step.CONFIG
    assert "/nowhere/ssh_config" in error.what


async def test_a_config_that_hangs_is_given_up(sshd):
    sshd.ssh_config.write_text('Match exec "sleep 3"\n' + sshd.ssh_config.read_text())
    error = await refused(connect_timeout=0.1)
    assert error.step is Step.CONFIG
    assert "Match exec" in error.hint
