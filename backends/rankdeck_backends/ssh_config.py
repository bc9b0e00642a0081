"""What the user's ssh config says of one host, completed with what rankdeck wants of every connection."""

from __future__ import annotations

import getpass
import os
import shlex
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import asyncssh

from rankdeck_backends import ssh_config_mends as _mended  # noqa: F401 - before asyncssh's reader is used
from rankdeck_backends import ssh_includes, ssh_manners
from rankdeck_backends.ssh_hostkeys import GLOBAL_FILES, USER_FILES, KnownHosts, Trust, expand
from rankdeck_backends.ssh_keys import KeyRing, Keys
from rankdeck_backends.ssh_manners import Manners
from rankdeck_backends.ssh_names import CONFIG_VARIABLE, KEEPALIVE_COUNT, KEEPALIVE_INTERVAL

# Measured: curve25519 costs the client a fifth of the post-quantum default; AES-GCM half of chacha20 per
# byte, since it takes fewer calls per packet.
_KEX = "^curve25519-sha256,curve25519-sha256@libssh.org"
_CIPHERS = "^aes128-gcm@openssh.com,aes256-gcm@openssh.com"


class ConfigError(Exception):
    """The ssh config cannot be used for this host; the text says which file and line."""


@dataclass(frozen=True, slots=True)
class HostSettings:
    """All that is needed to log in to one host."""

    name: str
    """The host as the pool (or a ProxyJump) spells it."""
    host: str
    """The name or address to connect to."""
    port: int
    user: str
    jump: str | None
    """ProxyJump."""
    proxy_command: str | None
    family: int
    bind_address: str | None
    timeout: float | None
    """ConnectTimeout in seconds, if the config names one."""
    trust: Callable[[str, int], Trust]
    """What the known_hosts files say of a host and port."""
    known_hosts_file: Path | None
    """Where a new host key belongs."""
    host_key_alias: str | None
    keys: Keys
    agent_path: str
    """The ssh agent's socket, whether or not an agent answers there; empty if none is named."""
    gssapi: bool
    """GSSAPIAuthentication: Kerberos may be used."""
    options: asyncssh.SSHClientConnectionOptions
    manners: Callable[[], Manners]
    """Reads how a person is dealt with. Blocks, may raise ConfigError: for a thread, when needed."""
    accept: Callable[[asyncssh.SSHKey], str]
    """Takes a host key for this host's own, for good if it can be saved; else says why it could not be.
    Blocks: for a thread."""
    command_line: str
    """What a person types to get to this host with OpenSSH."""

    @property
    def target(self) -> str:
        """Where it goes, for messages."""
        return f"{self.host} port {self.port}"


class SshConfig:
    """Reads the settings of hosts. Key and known_hosts files are read once, however many hosts there are."""

    def __init__(self, client_factory: Callable[[], asyncssh.SSHClient] = asyncssh.SSHClient) -> None:
        override = os.environ.get(CONFIG_VARIABLE)
        self._paths = ssh_includes.default_configs()
        self._ssh = ["ssh", "-F", override] if override else ["ssh"]
        self._known_hosts = KnownHosts()
        self._keyring = KeyRing()

    def settings(self, name: str, user: str | None = None, port: int | None = None) -> HostSettings:
        """The settings for one host. Blocks (files, `Match exec`): run it in a thread.

        Args:
            name: host name or alias.
            user: overrides the config's User.
            port: overrides the config's Port.

        Raises:
            ConfigError: a config file is missing or wrong.
        """
        given: dict[str, Any] = {"host": name}
        if user is not None:
            given["username"] = user
        if port is not None:
            given["port"] = port
        try:
            # A first reading without any key gives the config's values; a second gets what we make of them.
            base = asyncssh.SSHClientConnectionOptions(
                config=self._paths, client_keys=None, client_certs=[], x509_trusted_certs=None, **given
            )
            if base.config.has_match_final():
                base.update(host=name, reload=True, canonical=True, final=True)
            return self._complete(base, name, user, port)
        except FileNotFoundError as error:
            raise ConfigError(f"the ssh config {error.filename} is not there") from None
        except (OSError, ValueError, asyncssh.Error) as error:
            raise ConfigError(f"the ssh config cannot be used: {error}") from None

    def _complete(
        self, base: asyncssh.SSHClientConnectionOptions, name: str, user: str | None, port: int | None
    ) -> HostSettings:
        config = base.config
        keys = self._keyring.keys(
            _strings(config.get("IdentityFile")),
            _strings(config.get("CertificateFile")),
            only_these=bool(config.get("IdentitiesOnly")),
        )
        user_files = _known_hosts_files(config.get("UserKnownHostsFile"), USER_FILES)
        files = user_files + _known_hosts_files(config.get("GlobalKnownHostsFile"), GLOBAL_FILES)
        alias = cast("str | None", config.get("HostKeyAlias"))

        def trust(host: str, at: int) -> Trust:
            return self._known_hosts.look_up(files, host, at, alias)

        def trusted(host: str, _address: str, at: int | None) -> tuple[Sequence[asyncssh.SSHKey], ...]:
            found = trust(base.host if alias else host, at or 22)
            return found.marked(), found.marked("cert-authority"), found.marked("revoked")

        def manners() -> Manners:
            try:
                return ssh_manners.read(
                    self._paths, local_user=getpass.getuser(), user=user, host=name, port=port
                )
            except (OSError, ValueError, asyncssh.Error) as error:
                raise ConfigError(f"the ssh config cannot be used: {error}") from None

        def accept(key: asyncssh.SSHKey) -> str:
            return self._known_hosts.accept(
                _new_keys_file(user_files), trust(base.host, base.port).name, key, hashed=manners().hash_names
            )

        agent_path = _agent_path(config.get("IdentityAgent"))
        wanted: dict[str, Any] = {
            "known_hosts": trusted,
            # An empty list would mean asyncssh's own defaults, None no ssh agent either. This is just empty.
            "client_keys": keys.offers() or iter(()),
            "client_certs": list(keys.certificates),
        }
        if not config.get("HostKeyAlgorithms"):
            wanted["server_host_key_algs"] = trust(base.host, base.port).algorithms()
        if not config.get("KexAlgorithms"):
            wanted["kex_algs"] = _KEX
        if not config.get("Ciphers"):
            wanted["encryption_algs"] = _CIPHERS
        options = asyncssh.SSHClientConnectionOptions(
            options=base,
            config=None,
            reload=False,  # of a second reading: it would forget all that the config says
            canonical=False,
            final=False,
            **wanted,
            **_agent_options(keys, agent_path),
            compression_algs=None,
            connect_timeout=None,
            keepalive_interval=KEEPALIVE_INTERVAL,
            keepalive_count_max=KEEPALIVE_COUNT,
            gss_kex=False,
            gss_auth=bool(config.get("GSSAPIAuthentication", False)),
            agent_forwarding=False,
            x11_forwarding=False,
            request_pty=False,
            proxy_command=None,
            tunnel=None,
            encoding=None,
        )
        timeout = cast("int | None", config.get("ConnectTimeout"))
        return HostSettings(
            name=name,
            host=base.host,
            port=base.port,
            user=base.username,
            jump=cast("str | None", config.get("ProxyJump")),
            proxy_command=cast("str | None", config.get("ProxyCommand")),
            family=int(base.family or socket.AF_UNSPEC),
            bind_address=cast("str | None", config.get("BindAddress")),
            timeout=float(timeout) if timeout else None,
            trust=trust,
            known_hosts_file=_new_keys_file(user_files),
            host_key_alias=alias,
            keys=keys,
            agent_path=agent_path,
            gssapi=bool(config.get("GSSAPIAuthentication", False)),
            options=options,
            manners=manners,
            accept=accept,
            command_line=self._command_line(name, user, port),
        )

    def _command_line(self, name: str, user: str | None, port: int | None) -> str:
        words = [
            *self._ssh,
            *(["-p", str(port)] if port is not None else []),
            f"{user}@{name}" if user else name,
        ]
        return shlex.join(words)


def _known_hosts_files(named: object, usual: Sequence[str]) -> tuple[Path, ...]:
    """The files of a key of the config; where it says `none` there are none, and not the usual ones."""
    return expand(usual if named is None else _strings(named))


def _new_keys_file(user_files: Sequence[Path]) -> Path | None:
    """Where new host keys go: the first of the user's files (ssh_config(5)); None if that keeps nothing."""
    first = user_files[0] if user_files else None
    return None if first == Path(os.devnull) else first


def _agent_path(identity_agent: object) -> str:
    """The ssh agent's socket: what IdentityAgent says (`none`, a path, `$NAME`), else SSH_AUTH_SOCK."""
    named = str(identity_agent) if identity_agent else "SSH_AUTH_SOCK" if identity_agent is None else ""
    if named.startswith("$"):
        named = os.environ.get(named[1:].strip("{}"), "")
    elif named == "SSH_AUTH_SOCK":
        named = os.environ.get("SSH_AUTH_SOCK", "")
    path = Path(named).expanduser() if named else None
    return str(path) if path is not None else ""  # one that is not there is told where no key gets in


def _agent_options(keys: Keys, agent_path: str) -> dict[str, Any]:
    identities = keys.agent_identities()
    if not agent_path or identities == []:
        return {"agent_path": None}
    return {"agent_path": agent_path, "agent_identities": identities}


def _strings(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, (list, tuple)) else []
