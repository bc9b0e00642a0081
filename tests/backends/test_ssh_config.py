"""ssh configs are read as OpenSSH reads them: compared with what `ssh -G` says."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import asyncssh
import pytest

from rankdeck_backends import ssh_manners
from rankdeck_backends.ssh_config import ConfigError, HostSettings, SshConfig

CONFIGS = {
    "match host": "Match host gpu*\n  User a\n  Port 2201\nMatch all\n  User z\n",
    "several conditions": "Match host gpu1,gpu2 user bob\n  Port 2201\nMatch originalhost a\n  Port 2\n"
    "Host *\n  User bob\n",
    "match user": "Host gpu1\n  User bob\nMatch user bob\n  Port 2222\n",
    "negated": "Match !host gpu1\n  User bob\nMatch host *,!gpu2\n  Port 99\n"
    "Host * !gpu1\n  ConnectTimeout 9\n",
    "exec": 'Match exec "test %h = gpu1"\n  User ex\nMatch !exec "test %n%%=gpu2%%"\n  Port 3\n',
    "exec after others": 'Host gpu1\n HostName x.org\n Port 7\nMatch exec "test %h:%p=x.org:7"\n  User ex\n',
    "exec of a pipe": "Match exec \"echo '# %n' | grep -q gpu2\"\n  User two\n",
    "host name": "Host gpu*\n  HostName %h.example.org\nMatch host *.example.org\n  User fq\n",
    "original host": "Host a\n HostName gpu1\nMatch host gpu1\n User bob\nMatch originalhost a\n Port 77\n",
    "equal signs": "Host=gpu1\nUser=bob\nPort = 33\nHostKeyAlias= a=b\n",
    "comments": 'Host gpu1 # mine\n  User "bob # no" # me\n  Port 5 #\n  HostKeyAlias a#b\n',
    "no jump": "Host gpu1\n  ProxyJump none\nHost *\n  ProxyJump gate\n",
    "no jump, no command": "Host gpu1\n  ProxyJump none\nHost *\n  ProxyCommand nc\n",
    "no command, no jump": "Host gpu1\n  ProxyCommand none\nHost *\n  ProxyJump gate\n",
    "jump before command": "Host *\n  ProxyJump a@j1:22,j2\n  ProxyCommand nc\n",
    "command before jump": "Host *\n  ProxyCommand nc # x\n  ProxyJump gate\n",
    "final": "Host gpu1\n  HostName x.org\nMatch final host x.org\n  User fin\n",
    "final for all": "Host gpu1\n  HostName x\n  User bob\n  Port 5\nMatch final all\n  Compression no\n",
    "canonical": "Match canonical all\n  User can\nMatch final all\n  Port 44\n",
    "minutes": "Host gpu1\n  ConnectTimeout 2m\nHost gpu2\n  ConnectTimeout 1h2M3\nHost *\n"
    "  ConnectTimeout none\n  ServerAliveInterval 1m\n",
    "case": "HOST gpu1\n  uSER bob\n  PORT 5\n",
}


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / "config"
    monkeypatch.setenv("RANKDECK_SSH_CONFIG", str(path))

    def settings(text: str, host: str) -> HostSettings:
        path.write_text(text)
        return SshConfig().settings(host)

    settings.path = path  # type: ignore[attr-defined]
    return settings


@pytest.mark.skipif(shutil.which("ssh") is None, reason="the ssh client is not installed")
@pytest.mark.parametrize("name", CONFIGS)
def test_the_same_as_ssh_says(read, name: str) -> None:
    for host in ("gpu1", "gpu2", "a"):
        found = read(CONFIGS[name], host)
        argv = ["ssh", "-F", str(read.path), "-G", host]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
        told = dict(reversed([line.split(" ", 1) for line in done.stdout.splitlines() if " " in line]))
        timeout = told.get("connecttimeout", "none")
        assert (found.host, found.user, found.port) == (told["hostname"], told["user"], int(told["port"]))
        login = found.options
        assert (login.host, login.username, login.port) == (found.host, found.user, found.port)
        assert not login.config.has_match_final(), "asyncssh would read its config anew: there is none"
        assert (found.jump, found.proxy_command) == (told.get("proxyjump"), told.get("proxycommand"))
        assert found.timeout == (None if timeout == "none" else float(timeout))
        assert found.host_key_alias == told.get("hostkeyalias")


def test_a_config_is_bytes_to_ssh_and_here(read) -> None:
    """A comment in Latin-1 would send every login to the system's ssh, which asks nothing of a person."""
    read("", "gpu1")
    read.path.write_bytes(b"# J\xfcrgen's\nHost gpu1 # \xe9\n  User bob\n  Port 5\n")
    found = SshConfig().settings("gpu1")
    assert (found.user, found.port) == ("bob", 5)
    read.path.write_bytes(b"# J\xfcrgen's\nBatchMode yes\n")
    assert ssh_manners.read([read.path], host="gpu1", local_user="al", user=None, port=None).batch


def test_a_known_hosts_file_is_named_with_tokens(read, tmp_path: Path) -> None:
    found = read("UserKnownHostsFile ~/.ssh/of_%h %d/more\n", "gpu1")
    assert found.known_hosts_file == tmp_path / ".ssh" / "of_gpu1"


def test_no_known_hosts_file_is_none(read, tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    key = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
    (tmp_path / ".ssh" / "known_hosts").write_text(f"gpu1 {key}")
    assert len(read("GlobalKnownHostsFile none\n", "gpu1").trust("gpu1", 22).known) == 1
    found = read("UserKnownHostsFile none\nGlobalKnownHostsFile none\n", "gpu1")
    assert found.known_hosts_file is None
    assert found.trust("gpu1", 22).known == ()


def test_how_to_ask_may_stand_in_a_final_block(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("Match final host gpu1\n  StrictHostKeyChecking yes\n  BatchMode yes # never\n")
    asked = {"local_user": "al", "user": None, "port": None}
    assert ssh_manners.read([path], host="gpu1", **asked).batch
    assert not ssh_manners.read([path], host="gpu2", **asked).batch


def test_files_that_how_to_ask_is_read_from_are_in_lexical_order(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".ssh"
    folder.mkdir()
    for name in ("c", "a", "b"):
        (folder / f"{name}.conf").write_text(f"NumberOfPasswordPrompts {ord(name)}\n")
    (folder / "config").write_text("Include *.conf\n")
    asked = {"local_user": "al", "user": None, "port": None, "host": "gpu1"}
    assert ssh_manners.read([folder / "config"], **asked).tries == ord("a")


@pytest.mark.parametrize("line", ["ConnectTimeout soon", "Match exec", 'Match exec "true %y"', "Port 2 2"])
def test_what_ssh_refuses_is_refused_with_its_line(read, line: str) -> None:
    with pytest.raises(ConfigError, match=r"line 2|token expansion: y"):
        read(f"Host *\n{line}\n", "gpu1")
