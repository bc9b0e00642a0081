import hmac

import asyncssh
import pytest
from open_sshd import run

from rankdeck_backends.ssh_hostkeys import KnownHosts

KEYS = [asyncssh.generate_private_key("ssh-ed25519") for _ in range(3)]
LINES = [key.export_public_key().decode().strip() for key in KEYS]


@pytest.fixture
def known(tmp_path):
    path = tmp_path / "known_hosts"

    def look_up(text: str, host: str, port: int = 22, alias: str | None = None):
        path.write_text(text)
        return KnownHosts().look_up([path, tmp_path / "not there"], host, port, alias)

    return look_up


@pytest.mark.parametrize(
    ("patterns", "host", "port", "found"),
    [
        ("n1", "n1", 22, True),
        ("n1", "N1", 22, True),
        ("n1,10.0.0.1", "10.0.0.1", 22, True),
        ("n*", "n17", 22, True),
        ("n?", "n17", 22, False),
        ("n*,!n17", "n17", 22, False),
        ("[n1]:2222", "n1", 2222, True),
        ("[n1]:2222", "n1", 22, False),
        ("n1", "n1", 2222, True),
        ("[n*]:2222", "n1", 2222, True),
        ("n2", "n1", 22, False),
        ("|1|bm9uc2Vuc2U=|bm8=", "n1", 22, False),
        ("|1|broken", "n1", 22, False),
    ],
)
def test_hosts_are_found_as_openssh_finds_them(known, patterns, host, port, found):
    trust = known(f"{patterns} {LINES[0]} a comment\n", host, port)
    assert bool(trust.known) is found


def test_a_line_for_the_port_goes_before_one_without(known):
    trust = known(f"n1 {LINES[0]}\n[n1]:2222 {LINES[1]}\n", "n1", 2222)
    assert trust.marked() == [KEYS[1].convert_to_public()]


def test_an_address_that_is_trusted_lends_no_trust_to_a_name(known):
    """Addresses are given away again: only the name that was asked for counts."""
    assert not known(f"10.0.0.1 {LINES[0]}\n", "n1").known


def test_lines_that_cannot_be_read_are_passed_over(known):
    text = (
        f"\ufeffn1 {LINES[1]}\r\n# n1 {LINES[2]}\r\nn1\r\nn1 ssh-ed25519 AAAA\r\n@odd n1 {LINES[2]}\r\n"
        f"n1 ssh-unheard-of QUJD\r\n\tn1 {LINES[0]}\r\n"
    )
    trust = known(text, "n1")
    assert [entry.line for entry in trust.known] == [7]
    assert trust.known[0].place.endswith("known_hosts:7")


def test_markers_are_kept_apart(known):
    trust = known(
        f"@cert-authority *.org {LINES[0]}\n@revoked n1.org {LINES[1]}\nn1.org {LINES[2]}\n", "n1.org"
    )
    assert trust.marked("cert-authority") == [KEYS[0].convert_to_public()]
    assert trust.marked("revoked") == [KEYS[1].convert_to_public()]
    assert trust.marked() == [KEYS[2].convert_to_public()]
    assert trust.same_type(KEYS[0]) == (trust.known[2],)


def test_what_is_known_is_asked_for_first(known):
    ecdsa = asyncssh.generate_private_key("ecdsa-sha2-nistp256").export_public_key().decode()
    algorithms = known(f"n1 {ecdsa}", "n1").algorithms()
    assert algorithms[0] == "ecdsa-sha2-nistp256"
    assert "ssh-ed25519" in algorithms
    assert not any("cert" in name for name in algorithms)


def test_an_alias_is_looked_up_in_place_of_host_and_port(known):
    text = f"cluster {LINES[0]}\n[n1]:2222 {LINES[1]}\n"
    assert known(text, "n1", 2222, "cluster").marked() == [KEYS[0].convert_to_public()]


def test_a_file_that_changed_is_read_again(tmp_path):
    path = tmp_path / "known_hosts"
    hosts = KnownHosts()
    assert not hosts.look_up([path], "n1", 22).known
    path.write_text(f"n1 {LINES[0]}\n")
    assert hosts.look_up([path], "n1", 22).known
    path.write_text("")
    assert not hosts.look_up([path], "n1", 22).known


def test_hashed_names_are_compared_once_a_host(tmp_path, monkeypatch):
    path = tmp_path / "known_hosts"
    path.write_text("".join(f"n{number} {LINES[0]}\n" for number in range(20)))
    run("ssh-keygen", "-q", "-H", "-f", str(path))
    digest = hmac.digest
    compared = []
    monkeypatch.setattr(hmac, "digest", lambda *args: compared.append(args) or digest(*args))
    hosts = KnownHosts()
    for _ in range(3):
        assert [entry.line for entry in hosts.look_up([path], "n7", 22).known] == [8]
        assert not hosts.look_up([path], "n99", 22).known
    assert len(compared) == 40
