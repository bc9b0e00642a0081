"""Writes an accepted host key to the user's known_hosts file, as ssh does."""

from __future__ import annotations

import base64
import hmac
import os
import secrets
from pathlib import Path

import asyncssh

_SALT_BYTES = 20
"""As long as the HMAC-SHA1 (OpenSSH, hostfile.c: host_hash)."""


def save(path: Path, name: str, key: asyncssh.SSHKey, *, hashed: bool) -> None:
    """Append one line. A new file is the user's alone (0600), so is a new folder (0700).

    Args:
        path: the file; what it holds already, its mode and its links stay.
        name: what the host is to be known by.
        key: its key.
        hashed: HashKnownHosts: the name is not to be read from the file.

    Raises:
        OSError: it can't be written.
    """
    public = key.export_public_key().decode("ascii").split()
    line = f"{hashed_name(name) if hashed else name} {public[0]} {public[1]}\n".encode()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with open(descriptor, "r+b", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        if end:
            file.seek(end - 1)
            if file.read(1) != b"\n":
                line = b"\n" + line
        file.write(line)


def hashed_name(name: str) -> str:
    """`|1|salt|HMAC-SHA1(salt, name)`, sshd(8) on the format of known_hosts."""
    salt = secrets.token_bytes(_SALT_BYTES)
    digest = hmac.digest(salt, name.encode(), "sha1")
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"
