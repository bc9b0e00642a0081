import shutil

import pytest
import stand_in
from open_sshd import KEYGEN, SSHD, OpenSshd
from opening import close_backends

from rankdeck_backends import package


@pytest.fixture
def stand_in_agent(monkeypatch):
    """Put a stand-in in the real agent's place: stand_in_agent(source)."""

    def use(source: str = stand_in.AGENT) -> None:
        monkeypatch.setattr(package, "bootstrap_input", lambda: stand_in.bootstrap_input(source))

    return use


@pytest.fixture
async def make_sshd(tmp_path, monkeypatch):
    """Make an OpenSSH server, not yet started, whose client config is the one in use."""
    if SSHD is None or KEYGEN is None:
        pytest.skip("OpenSSH's server is not installed (sshd, ssh-keygen)")
    servers = []

    def make(*, name: str = "sshd", settings=None, host_key: str = "ed25519") -> OpenSshd:
        server = OpenSshd(tmp_path / name, settings, host_key)
        servers.append(server)
        monkeypatch.setenv("RANKDECK_SSH_CONFIG", str(server.ssh_config))
        monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
        return server

    yield make
    await close_backends()
    for server in servers:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)


@pytest.fixture
def sshd(make_sshd):
    """A running OpenSSH server that lets us in as host `node`."""
    return make_sshd().start()


@pytest.fixture(autouse=True)
def _own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("RANKDECK_NODE_DIR", str(tmp_path / "node"))
