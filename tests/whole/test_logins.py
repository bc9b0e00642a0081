"""New hosts and an encrypted key, in the real screens on a real terminal, against real servers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.open_sshd import SSHD, OpenSshd, make_key
from cli.user import COMMAND
from terminal.tmux import Tmux, missing

pytestmark = [
    pytest.mark.skipif(SSHD is None, reason="OpenSSH's server is not installed (sshd)"),
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]
PASSPHRASE = "open sesame"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Three hosts that are not known, one key that is encrypted, a pool and a profile: the environment."""
    key = make_key(tmp_path / "locked", passphrase=PASSPHRASE)
    servers = [OpenSshd(tmp_path / f"gpu{number}").start() for number in range(3)]
    text = ""
    for number, server in enumerate(servers):
        server.known_hosts, server.client_key = tmp_path / "ssh" / "known_hosts", key
        server.authorized.write_text(key.with_suffix(".pub").read_text())
        server.write_config(host=f"gpu{number}")
        text += server.ssh_config.read_text()
    (tmp_path / "ssh_config").write_text(text)
    for name in ("pools", "profiles"):
        (tmp_path / "config" / name).mkdir(parents=True)
    (tmp_path / "config/pools/lab.toml").write_text('backend = "ssh"\nnodes = ["gpu[0-2]"]\nslots = 1\n')
    (tmp_path / "config/profiles/hello.toml").write_text(
        'framework = "pytorch"\ncommand = ["/bin/true"]\npool = "lab"\nworkdir = "/tmp"\n'
    )
    yield {
        "RANKDECK_SSH_CONFIG": str(tmp_path / "ssh_config"),
        "RANKDECK_HOME": str(tmp_path / "home"),
        "RANKDECK_CONFIG": str(tmp_path / "config"),
        "SSH_AUTH_SOCK": "",
    }
    for server in servers:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)


@pytest.mark.parametrize("size", [(120, 40), (80, 24)], ids=["120x40", "80x24"])
def test_new_hosts_and_an_encrypted_key(site: dict[str, str], tmp_path: Path, size: tuple[int, int]) -> None:
    with Tmux(*size, env=site) as screen:
        screen.start([str(COMMAND)])
        screen.wait_for("hello", 90)
        screen.keys("Tab", "Enter")
        shown = screen.wait_for("3 host keys are not known yet", 90)
        assert shown.index("node gpu0") < shown.index("node gpu1") < shown.index("node gpu2")
        screen.type("a")
        screen.wait_for("Passphrase for node gpu", 90)
        screen.type("wrong")
        screen.keys("Enter")
        screen.wait_for("does not open the key", 90)
        screen.type(PASSPHRASE)
        assert PASSPHRASE not in screen.text()
        screen.keys("Enter")
        screen.wait_until_gone("Passphrase for", 90)
        # All three were reached: preflight sees that they are one machine, which no login tells.
        screen.wait_for("ssh.identity", 90)
        screen.keys("C-q")
        assert screen.wait_exit(90) == 0
    assert len((tmp_path / "ssh" / "known_hosts").read_text().splitlines()) == 3
    for folder, _, names in os.walk(tmp_path / "home"):
        for name in names:
            assert PASSPHRASE.encode() not in (Path(folder) / name).read_bytes()
