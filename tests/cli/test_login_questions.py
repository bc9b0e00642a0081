"""Questions of logins, asked on a real terminal by real commands, against a real OpenSSH server."""

from __future__ import annotations

import shutil
import stat
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.open_sshd import SSHD, OpenSshd, fingerprint, make_key
from cli.on_terminal import Terminal
from cli.user import Shell

pytestmark = pytest.mark.skipif(SSHD is None, reason="OpenSSH's server is not installed (sshd)")


@pytest.fixture
def server(rankdeck: Shell, tmp_path: Path) -> Iterator[OpenSshd]:
    made = OpenSshd(tmp_path / "sshd").start()
    rankdeck.environment["RANKDECK_SSH_CONFIG"] = str(made.ssh_config)
    rankdeck.environment.pop("SSH_AUTH_SOCK", None)
    rankdeck.save_pool("far", 'backend = "ssh"\nnodes = ["node"]\n')
    yield made
    made.stop()
    shutil.rmtree(made.folder, ignore_errors=True)


def locked(server: OpenSshd, tmp_path: Path) -> None:
    server.client_key = make_key(tmp_path / "locked", passphrase="open sésame")
    server.authorized.write_text((tmp_path / "locked.pub").read_text())
    server.write_config()


def test_a_new_host_key_is_asked_about_and_saved(rankdeck: Shell, server: OpenSshd) -> None:
    server.known_hosts.unlink()
    terminal = Terminal(rankdeck, "gpus", "--pool", "far")
    try:
        terminal.until("[n]o:")
        assert fingerprint(server.host_key) in terminal.seen
        assert str(server.known_hosts) in terminal.seen
        assert "node node" in terminal.seen
        terminal.type("maybe\r")
        terminal.until("[n]o:")
        terminal.type("y\r")
        assert terminal.end() == 0
    finally:
        terminal.close()
    assert stat.S_IMODE(server.known_hosts.stat().st_mode) == 0o600
    rankdeck("gpus", "--pool", "far")  # known now, and nobody to ask


def test_no_is_a_reason_and_an_exit_status(rankdeck: Shell, server: OpenSshd) -> None:
    server.known_hosts.unlink()
    terminal = Terminal(rankdeck, "gpus", "--pool", "far")
    try:
        terminal.until("[n]o:")
        terminal.type("n\r")
        assert terminal.end() == 3
        assert "you did not accept it" in terminal.seen
    finally:
        terminal.close()
    assert not server.known_hosts.exists()


def test_a_passphrase_is_not_shown_and_the_terminal_is_as_before(
    rankdeck: Shell, server: OpenSshd, tmp_path: Path
) -> None:
    locked(server, tmp_path)
    terminal = Terminal(rankdeck, "gpus", "--pool", "far")
    try:
        terminal.until("Passphrase: ")
        before = termios.tcgetattr(terminal._fd)
        assert not before[3] & termios.ECHO
        terminal.type("wrong\r")
        terminal.until("Passphrase: ")
        assert "does not open the key" in terminal.seen
        assert "wrong" not in terminal.seen
        terminal.type("x\x15open sésamé\x7fe\r")  # Ctrl-U, and a character of two bytes taken back
        assert terminal.end() == 0
        assert "sésame" not in terminal.seen
    finally:
        terminal.close()


def test_ctrl_c_leaves_the_command_and_a_sane_terminal(
    rankdeck: Shell, server: OpenSshd, tmp_path: Path
) -> None:
    locked(server, tmp_path)
    terminal = Terminal(rankdeck, "gpus", "--pool", "far")
    try:
        terminal.until("Passphrase: ")
        terminal.type("\x03")
        assert terminal.end() == 130
        assert termios.tcgetattr(terminal._fd)[3] & termios.ECHO
    finally:
        terminal.close()


def test_without_a_terminal_nothing_is_asked(rankdeck: Shell, server: OpenSshd, tmp_path: Path) -> None:
    locked(server, tmp_path)
    done = rankdeck("gpus", "--pool", "far", status=3)
    assert "is encrypted" in done.stderr


def test_without_a_terminal_all_unknown_hosts_are_listed(
    rankdeck: Shell, server: OpenSshd, tmp_path: Path
) -> None:
    other = OpenSshd(tmp_path / "other").start()
    try:
        other.known_hosts = server.known_hosts
        other.write_config(host="second")
        server.ssh_config.write_text(server.ssh_config.read_text() + other.ssh_config.read_text())
        server.known_hosts.write_text("")
        rankdeck.save_pool("both", 'backend = "ssh"\nnodes = ["node", "second"]\n')
        done = rankdeck("gpus", "--pool", "both", status=3)
        for name, each in (("node", server), ("second", other)):
            assert name in done.stderr
            assert fingerprint(each.host_key) in done.stderr
        assert server.known_hosts.read_text() == ""
    finally:
        other.stop()


def test_the_systems_ssh_is_named_where_it_is_used(rankdeck: Shell, server: OpenSshd) -> None:
    rankdeck.save_pool("system", 'backend = "openssh"\nnodes = ["node"]\n')
    rankdeck.save_profile("hello", pool="system")
    done = rankdeck("run", "hello", "--skip-checks")
    assert f"reached by the system's ssh: ssh -F {server.ssh_config}" in done.stderr
    server.write_config("Match originalhost=node")  # OpenSSH alone reads it
    done = rankdeck("gpus", "--pool", "far")
    assert "the ssh config has something that rankdeck does not read" in done.stderr
