"""The user's keys: identity files read once, and those that cannot be used named instead of fatal."""

from __future__ import annotations

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
    try:
        private = asyncssh.import_private_key(data)
    except asyncssh.KeyEncryptionError as error:
        return Identity(path, None, public, certificate, f"is encrypted and cannot be read: {error}")
    except (asyncssh.KeyImportError, ValueError) as error:
        public = public or _public(path)
        if "assphrase" in str(error):
            trouble = "is encrypted: add it to the ssh agent with `ssh-add`"
        elif public is not None:
            trouble = "is a public key: its private part must be in the ssh agent"
        else:
            trouble = f"cannot be read: {error}"
        return Identity(path, None, public, certificate, trouble)
    private.set_filename(path)
    return Identity(path, private, private.convert_to_public(), certificate)


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
