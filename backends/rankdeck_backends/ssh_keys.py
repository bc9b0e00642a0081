"""The user's keys: identity files read once, and those that cannot be used named instead of fatal."""

from __future__ import annotations

import base64
import binascii
import os
import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import asyncssh

DEFAULT_FILES = (
    "~/.ssh/id_ed25519",
    "~/.ssh/id_ecdsa",
    "~/.ssh/id_rsa",
    "~/.ssh/id_ed25519_sk",
    "~/.ssh/id_ecdsa_sk",
)
"""ssh_config(5), IdentityFile: used where none is named."""


@dataclass(slots=True, eq=False)
class LockedKey:
    """An encrypted private key: shared by all logins, so that its passphrase is typed once."""

    path: Path
    data: bytes = field(repr=False)
    public: asyncssh.SSHKey
    private: asyncssh.SSHKey | None = field(default=None, repr=False)
    """The key once it has been opened; it stays in memory for as long as this process lives."""

    def unlock(self, passphrase: str) -> bool:
        """Try a passphrase; whether it was the right one. Takes up to a second: run it in a thread."""
        try:
            private = asyncssh.import_private_key(self.data, passphrase)
        except (asyncssh.KeyEncryptionError, asyncssh.KeyImportError, ValueError):
            return False
        private.set_filename(self.path)
        self.private = private
        return True


@dataclass(frozen=True, slots=True)
class Identity:
    """One identity file."""

    path: Path
    private: asyncssh.SSHKey | None = None
    public: asyncssh.SSHKey | None = None
    """Known even where the private key is not: it may be in the ssh agent."""
    certificate: asyncssh.SSHCertificate | None = None
    trouble: str = ""
    """Why the private key cannot be used, if it cannot."""
    lock: LockedKey | None = None
    """The private key, if a passphrase makes it usable."""

    @property
    def label(self) -> str:
        """The file and its fingerprint, for messages."""
        return f"{self.path} ({self.public.get_fingerprint()})" if self.public is not None else str(self.path)


@dataclass(frozen=True, slots=True)
class Keys:
    """What is offered to one host."""

    identities: tuple[Identity, ...] = ()
    only_these: bool = False
    """IdentitiesOnly: of the ssh agent's keys, only those named here are offered."""
    certificates: tuple[asyncssh.SSHCertificate, ...] = field(default=())

    def offers(self) -> list[asyncssh.SSHKey | tuple[asyncssh.SSHKey, asyncssh.SSHCertificate]]:
        """The private keys at hand, each with its certificate if there is one."""
        return [
            (identity.private, identity.certificate) if identity.certificate is not None else identity.private
            for identity in self.identities
            if identity.private is not None
        ]

    def locked(self) -> list[tuple[LockedKey, asyncssh.SSHCertificate | None]]:
        """The encrypted keys, each with its certificate if there is one."""
        return [(identity.lock, identity.certificate) for identity in self.identities if identity.lock]

    def agent_identities(self) -> list[bytes] | None:
        """Which of the ssh agent's keys may be offered; None: all."""
        if not self.only_these:
            return None
        return [identity.public.public_data for identity in self.identities if identity.public is not None]


class KeyRing:
    """Reads each identity file once. Threads may share it."""

    def __init__(self) -> None:
        self._identities: dict[Path, Identity] = {}
        self._lock = threading.Lock()

    def keys(
        self, identity_files: Sequence[str], certificate_files: Sequence[str], *, only_these: bool
    ) -> Keys:
        """The keys for one host.

        Args:
            identity_files: IdentityFile, in order; a missing file is passed over. If none is there, the
                default files are taken.
            certificate_files: CertificateFile; a missing one is passed over.
            only_these: IdentitiesOnly.
        """
        found = self._present(identity_files) or self._present(DEFAULT_FILES)
        certificates = tuple(
            certificate
            for name in certificate_files
            if (certificate := _certificate(Path(name).expanduser())) is not None
        )
        return Keys(found, only_these, certificates)

    def _present(self, names: Sequence[str]) -> tuple[Identity, ...]:
        found = []
        for path in dict.fromkeys(Path(name).expanduser() for name in names):
            with self._lock:
                identity = self._identities.get(path)
                if identity is None:
                    identity = _read(path)
                    if identity is not None:
                        self._identities[path] = identity
            if identity is not None:
                found.append(identity)
        return tuple(found)


def _read(path: Path) -> Identity | None:
    """The identity in this file; None if neither it nor its public part is there."""
    public = _public(path.with_name(path.name + ".pub"))
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return (
            None if public is None else Identity(path, None, public, trouble="has only its public part here")
        )
    except OSError as error:
        return Identity(path, None, public, trouble=f"cannot be read: {error.strerror or error}")
    certificate = _certificate(path.with_name(path.name + "-cert.pub"))
    if open_to := _open_to_others(path, data):
        return Identity(path, None, public, certificate, open_to)
    try:
        private = asyncssh.import_private_key(data)
    except asyncssh.KeyEncryptionError as error:
        return Identity(path, None, public, certificate, f"is encrypted and cannot be read: {error}")
    except (asyncssh.KeyImportError, ValueError) as error:
        public = public or _public(path)
        if "assphrase" in str(error):
            return _encrypted(path, data, public or _public_part(data), certificate)
        if public is not None:
            trouble = "is a public key: its private part must be in the ssh agent"
        else:
            trouble = f"cannot be read: {error}"
        return Identity(path, None, public, certificate, trouble)
    private.set_filename(path)
    return Identity(path, private, private.convert_to_public(), certificate)


def _open_to_others(path: Path, data: bytes) -> str:
    """Why ssh would not use a private key of ours that others may read (OpenSSH's authfile.c); else empty."""
    if b"PRIVATE KEY" not in data:
        return ""
    found = path.stat()
    mode = found.st_mode & 0o777
    if found.st_uid != os.getuid() or not mode & 0o077:
        return ""
    return f"may be read by others (mode {mode:04o}): ssh does not use it either; `chmod 600 {path}`"


def _encrypted(
    path: Path, data: bytes, public: asyncssh.SSHKey | None, certificate: asyncssh.SSHCertificate | None
) -> Identity:
    trouble = "is encrypted: add it to the ssh agent with `ssh-add`"
    if public is None:
        trouble += f", or write its public part with `ssh-keygen -y -f {path} > {path}.pub`"
        return Identity(path, None, None, certificate, trouble)
    return Identity(path, None, public, certificate, trouble, LockedKey(path, data, public))


_OPENSSH_BEGIN, _OPENSSH_END = b"-----BEGIN OPENSSH PRIVATE KEY-----", b"-----END OPENSSH PRIVATE KEY-----"
_OPENSSH_MAGIC = b"openssh-key-v1\0"


def _public_part(data: bytes) -> asyncssh.SSHKey | None:
    """The public key of an encrypted private one: OpenSSH's format has it in the clear (PROTOCOL.key)."""
    _, begun, rest = data.partition(_OPENSSH_BEGIN)
    body, ended, _ = rest.partition(_OPENSSH_END)
    if not begun or not ended:
        return None
    try:
        blob = base64.b64decode(b"".join(body.split()), validate=True)
        if not blob.startswith(_OPENSSH_MAGIC):
            return None
        at = len(_OPENSSH_MAGIC)
        for _name in ("cipher", "kdf", "kdf options"):
            at += 4 + int.from_bytes(blob[at : at + 4])
        (length,) = struct.unpack_from(">I", blob, at + 4)  # behind the number of keys, which is always 1
        public = blob[at + 8 : at + 8 + length]
        algorithm = public[4 : 4 + int.from_bytes(public[:4])]
        return asyncssh.import_public_key(algorithm + b" " + base64.b64encode(public))
    except (binascii.Error, struct.error, asyncssh.KeyImportError, ValueError):
        return None


def _public(path: Path) -> asyncssh.SSHKey | None:
    try:
        return asyncssh.read_public_key(path)
    except (OSError, asyncssh.KeyImportError, ValueError):
        return None


def _certificate(path: Path) -> asyncssh.SSHCertificate | None:
    try:
        return asyncssh.read_certificate(path)
    except (OSError, asyncssh.KeyImportError, ValueError):
        return None
