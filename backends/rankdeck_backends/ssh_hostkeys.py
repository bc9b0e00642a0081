"""Which host keys are trusted: known_hosts files as OpenSSH reads them, and why a key is not among them."""

from __future__ import annotations

import base64
import binascii
import hmac
import os
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncssh
from asyncssh.public_key import get_default_certificate_algs, get_default_public_key_algs

from rankdeck_backends import ssh_accepting

GLOBAL_FILES = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
"""ssh_config(5), GlobalKnownHostsFile: sites keep the cluster's keys there."""
USER_FILES = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
"""ssh_config(5), UserKnownHostsFile."""


@dataclass(frozen=True, slots=True)
class KnownKey:
    """One line of a known_hosts file."""

    path: Path
    line: int
    marker: str
    """Empty, `cert-authority` or `revoked`."""
    patterns: str
    key: asyncssh.SSHKey

    @property
    def place(self) -> str:
        """Where it stands, as editors take it."""
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True)
class Trust:
    """What the files say of one host."""

    name: str
    """The name it should be known by."""
    found_as: str
    """The name it is known by: without the port, if only that is there."""
    known: tuple[KnownKey, ...] = ()

    def marked(self, marker: str = "") -> list[asyncssh.SSHKey]:
        """The keys on lines with that marker."""
        return [entry.key for entry in self.known if entry.marker == marker]

    def same_type(self, key: asyncssh.SSHKey) -> tuple[KnownKey, ...]:
        """The lines that hold a key of the same type: if another key is shown, the host's key has changed."""
        return tuple(e for e in self.known if not e.marker and e.key.get_algorithm() == key.get_algorithm())

    def algorithms(self) -> list[str]:
        """Host key algorithms in the order to ask for: what can be verified first, then the rest.

        The rest is asked for, too: a host known by another type of key is to be told from one that cannot be
        talked to.
        """
        wanted: list[bytes] = []
        if self.marked("cert-authority"):
            wanted += get_default_certificate_algs()
        for key in self.marked():
            wanted += key.sig_algorithms
        wanted += get_default_public_key_algs()
        return [algorithm.decode("ascii") for algorithm in dict.fromkeys(wanted)]


class KnownHosts:
    """Looks hosts up in known_hosts files, read once and again when changed. Threads may share it."""

    def __init__(self) -> None:
        self._files: dict[Path, tuple[tuple[int, int], _File]] = {}
        self._unsaved: dict[str, list[KnownKey]] = {}
        """Accepted keys that no file could be found to keep, by the host's name."""
        self._lock = threading.Lock()

    def look_up(self, paths: Iterable[Path], host: str, port: int, alias: str | None = None) -> Trust:
        """What the files say of the host, by name alone (as OpenSSH with its default `CheckHostIP no`).

        Args:
            paths: the files; one that cannot be read counts as empty, such a line is passed over.
            host: the name or address that is connected to.
            port: its port; other ports than 22 are looked up as `[host]:port`, then without.
            alias: HostKeyAlias, looked up in place of both.
        """
        files = [file for path in paths if (file := self._file(path)) is not None]
        plain = (alias or host).lower()
        names = [plain] if alias or port == 22 else [f"[{plain}]:{port}", plain]
        for name in names:
            known = tuple(entry for file in files for entry in file.find(name))
            known += tuple(self._unsaved.get(name, ()))
            if known:
                return Trust(names[0], name, known)
        return Trust(names[0], names[0])

    def accept(self, path: Path | None, name: str, key: asyncssh.SSHKey, *, hashed: bool) -> str:
        """Take a key for the host's own: appended to the file; where that can't be, kept for this process.

        Args:
            path: the known_hosts file, if there is one.
            name: what the host is known by (`Trust.name`).
            key: its key.
            hashed: HashKnownHosts.

        Returns:
            Why it is not in the file, for people; empty: it is, or no file was to keep it.
        """
        trouble = ""
        with self._lock:
            try:
                if path is not None:
                    ssh_accepting.save(path, name, key, hashed=hashed)
                    self._files.pop(path, None)  # two lines within a tick of the file system's clock
                    return ""
            except OSError as error:
                # As ssh does: the person has said yes, a read-only home changes nothing about that.
                trouble = f"{path}: {error.strerror or error}"
            self._unsaved.setdefault(name, []).append(KnownKey(path or Path(os.devnull), 0, "", name, key))
        return trouble

    def _file(self, path: Path) -> _File | None:
        with self._lock:
            try:
                stat = path.stat()
                stamp = (stat.st_mtime_ns, stat.st_size)
                held = self._files.get(path)
                if held is None or held[0] != stamp:
                    held = self._files[path] = (stamp, _File(_parse(path, path.read_bytes())))
                return held[1]
            except OSError:
                return None


class _File:
    """One file's lines, so that a site's thousands of hosts cost a look-up, not a search."""

    def __init__(self, entries: Iterable[KnownKey]) -> None:
        self._exact: dict[str, list[KnownKey]] = {}
        self._others: list[tuple[Callable[[str], bool], KnownKey]] = []
        self._found: dict[str, list[KnownKey]] = {}
        """What was looked up before: with hashed names that is an HMAC a line, and each login asks thrice."""
        for entry in entries:
            if entry.patterns.startswith("|"):
                self._others.append((_hashed(entry.patterns), entry))
            elif any(special in entry.patterns for special in "*?!"):
                self._others.append((_pattern(entry.patterns.lower()), entry))
            else:
                for name in entry.patterns.lower().split(","):
                    self._exact.setdefault(name, []).append(entry)

    def find(self, name: str) -> list[KnownKey]:
        """The lines that speak of a host looked up by that name (`host`, or `[host]:port`), in order."""
        found = self._found.get(name)
        if found is None:
            others = (entry for matches, entry in self._others if matches(name))
            found = sorted([*self._exact.get(name, ()), *others], key=lambda entry: entry.line)
            self._found[name] = found
        return found


def _parse(path: Path, data: bytes) -> list[KnownKey]:
    entries = []
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        words = line.split()
        marker = words.pop(0)[1:] if words and words[0].startswith("@") else ""
        if len(words) < 3 or words[0].startswith("#") or marker not in ("", "cert-authority", "revoked"):
            continue
        try:
            key = asyncssh.import_public_key(f"{words[1]} {words[2]}")
        except (asyncssh.KeyImportError, ValueError):
            continue  # a type of key this client does not know, or a damaged line: ssh passes over both
        entries.append(KnownKey(path, number, marker, words[0], key))
    return entries


def _hashed(text: str) -> Callable[[str], bool]:
    # HashKnownHosts: |1|base64(salt)|base64(HMAC-SHA1(salt, name)), sshd(8) on the known_hosts format.
    try:
        _, version, salt_text, digest_text = text.split("|")
        salt, digest = base64.b64decode(salt_text), base64.b64decode(digest_text)
    except (ValueError, binascii.Error):
        return lambda name: False
    if version != "1":
        return lambda name: False
    return lambda name: hmac.digest(salt, name.encode(), "sha1") == digest


def _pattern(text: str) -> Callable[[str], bool]:
    """`n*,!n7`: any of them, none of the negated ones. Only * and ? are special."""
    wanted: list[re.Pattern[str]] = []
    unwanted: list[re.Pattern[str]] = []
    for part in text.split(","):
        expression = re.escape(part.removeprefix("!")).replace(r"\*", ".*").replace(r"\?", ".")
        (unwanted if part.startswith("!") else wanted).append(re.compile(expression, re.DOTALL))
    return lambda name: (
        any(expression.fullmatch(name) for expression in wanted)
        and not any(expression.fullmatch(name) for expression in unwanted)
    )


def expand(paths: Sequence[str]) -> tuple[Path, ...]:
    """File names from a config as paths; `none` names no file."""
    return tuple(Path(path).expanduser() for path in paths if path.lower() != "none")
