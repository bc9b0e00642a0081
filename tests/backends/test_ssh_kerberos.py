"""Sites where a Kerberos ticket lets people in: rankdeck's client leaves that to the system's ssh."""

import pytest
import realm
from asked import Person
from opening import open_one, refused
from test_ssh_asking import close_all, kept_out, open_with

from rankdeck_backends import kerberos
from rankdeck_backends.base import Step

pytestmark = pytest.mark.skipif(realm.missing() is not None, reason=str(realm.missing()))


@pytest.fixture
def kdc(tmp_path, monkeypatch):
    made = realm.Realm(tmp_path / "realm")
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    yield made
    made.stop()


@pytest.fixture
def kerberos_sshd(kdc, make_sshd):
    """A server that takes Kerberos alone, and a config that allows it."""
    server = make_sshd()
    server.settings |= {
        "GSSAPIAuthentication": "yes",
        "GSSAPIStrictAcceptorCheck": "no",
        "PubkeyAuthentication": "no",
    }
    server.start()
    server.write_config("HostName localhost", "HostKeyAlias kerberized", "GSSAPIAuthentication yes")
    server.known_hosts.write_text("kerberized " + server.host_key.with_suffix(".pub").read_text())
    return server


async def test_a_ticket_gets_in_by_the_systems_ssh(kdc, kerberos_sshd, stand_in_agent):
    stand_in_agent()
    kdc.log_in()
    connection = await open_one()
    assert "reached by the system's ssh" in connection.note
    assert "Kerberos" in connection.note
    await connection.close()
    assert "Accepted gssapi-with-mic" in kerberos_sshd.log()


async def test_without_a_ticket_the_systems_ssh_is_not_tried(kdc, kerberos_sshd):
    error = await refused()
    assert error.step is Step.AUTH
    assert "the server takes: gssapi-keyex, gssapi-with-mic" in error.what
    assert "the system's ssh does not get further" not in error.what
    assert "kinit" in error.hint


async def test_a_config_without_gssapi_does_not_lead_there(kdc, kerberos_sshd):
    kdc.log_in()
    config = kerberos_sshd.ssh_config
    config.write_text(config.read_text().replace("GSSAPIAuthentication yes", "GSSAPIAuthentication no"))
    error = await refused()
    assert "the system's ssh" not in error.what


async def test_nobody_is_asked_where_a_ticket_gets_in(kdc, make_sshd, kerberos_sshd, stand_in_agent):
    stand_in_agent()
    kerberos_sshd.stop()
    kerberos_sshd.settings["PasswordAuthentication"] = "yes"
    kerberos_sshd.start()
    kdc.log_in()
    backend, opened = await open_with(Person())
    await close_all(backend, opened)
    assert "Kerberos" in opened[0].note
    # A ticket that does not get in: then the person is asked after all.
    kdc.stop()
    kdc.folder.joinpath("keytab").unlink()
    error = await kept_out(Person(None))
    assert error.needs_person


async def test_whether_there_is_a_ticket(kdc, monkeypatch, tmp_path):
    assert await kerberos.Ticket().there() is False
    kdc.log_in()
    assert await kerberos.Ticket().there() is True
    kdc.log_out()
    assert await kerberos.Ticket().there() is False
    monkeypatch.setenv("PATH", str(tmp_path))
    assert await kerberos.Ticket().there() is None
