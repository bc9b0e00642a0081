"""Includes of an ssh config, as ssh itself reads them."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from rankdeck_backends.ssh_config import ConfigError, SshConfig
from rankdeck_backends.ssh_includes import SshConfigError, statements


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / ".ssh"
    folder.mkdir(0o700)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RANKDECK_SSH_CONFIG", raising=False)
    return folder


def test_a_block_of_an_included_file_ends_with_that_file(ssh: Path) -> None:
    (ssh / "config").write_text("Include one\nInclude two nowhere\n")
    (ssh / "one").write_text("Host other\n  User nobody\n")
    (ssh / "two").write_text("Host a01\n  ProxyJump bastion.example.org\n  User trainer\n")
    settings = SshConfig().settings("a01")
    assert (settings.user, settings.jump) == ("trainer", "bastion.example.org")
    if shutil.which("ssh"):
        shown = subprocess.run(
            ["ssh", "-F", ssh / "config", "-G", "a01"], capture_output=True, text=True, timeout=60, check=True
        ).stdout
        # ssh finds ~ in the user database, not in HOME: only what stands in the file itself can be compared.
        assert "hostname a01" in shown


def test_globs_are_in_lexical_order_and_the_first_value_counts(ssh: Path) -> None:
    (ssh / "config").write_text("Include more/*\n")
    (ssh / "more").mkdir()
    names = [f"{number:02}" for number in range(30)]
    for name in reversed(names):
        (ssh / "more" / name).write_text(f"Host a\n  User u{name}\n")
    assert [s.words for s in statements([ssh / "config"]) if s.keyword == "user"] == [
        (f"u{n}",) for n in names
    ]
    assert SshConfig().settings("a").user == "u00"


def test_a_file_that_includes_itself_is_an_error_after_16_levels(ssh: Path) -> None:
    (ssh / "config").write_text("Include loop\n")
    (ssh / "loop").write_text("Include loop\n")
    with pytest.raises(SshConfigError, match="more than 16 levels deep"):
        list(statements([ssh / "config"]))
    with pytest.raises(ConfigError, match="loop is included more than 16 levels deep"):
        SshConfig().settings("a01")


def test_blanks_of_all_kinds_equal_signs_and_comments(ssh: Path) -> None:
    (ssh / "config").write_text("Host\tgpu1 gpu2#x # mine\nHost=gpu3\n\tUser = bob\nHost\nHost 'a b\n")
    found = [(each.keyword, each.words) for each in statements([ssh / "config"])]
    assert found == [
        ("host", ("gpu1", "gpu2#x")),
        ("host", ("gpu3",)),
        ("user", ("bob",)),
        ("host", ()),
        ("host", ("'a", "b")),
    ]


def test_a_line_is_taken_apart_once_for_all_hosts(ssh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = (f"Host gpu{n}\n  HostName 10.0.0.{n}\n  User 'u {n}'\n" for n in range(1, 51))
    (ssh / "config").write_text("".join(blocks))
    split, lines = shlex.split, []
    monkeypatch.setattr(shlex, "split", lambda line: lines.append(line) or split(line))
    config = SshConfig()
    for number in range(1, 51):
        settings = config.settings(f"gpu{number}")
        assert (settings.host, settings.user) == (f"10.0.0.{number}", f"u {number}")
    own = [line for line in lines if "gpu" in line or "10.0.0." in line or "'u " in line]
    assert sorted(own) == sorted(set(own))
    assert len(own) <= 150


def test_a_quotation_that_is_not_closed_is_named_each_time(ssh: Path) -> None:
    (ssh / "config").write_text("Host a01\n  User 'nobody\n")
    config = SshConfig()
    for _ in range(2):
        with pytest.raises(ConfigError, match="line 2: No closing quotation"):
            config.settings("a01")
