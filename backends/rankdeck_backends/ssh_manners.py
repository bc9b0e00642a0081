"""The settings of an ssh config that are about asking, which asyncssh does not read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from asyncssh.config import SSHClientConfig, SSHConfig

from rankdeck_backends import ssh_config_mends as _mended  # noqa: F401 - before its handlers are copied

_OPTIONS = ("StrictHostKeyChecking", "HashKnownHosts", "BatchMode", "NumberOfPasswordPrompts")
PROMPTS = 3
"""ssh_config(5), NumberOfPasswordPrompts."""
_YES = ("yes", "true", "on")


class NewKeys(Enum):
    """What is done with the key of a host that is not known (StrictHostKeyChecking)."""

    ASK = "ask"
    REFUSE = "yes"
    ACCEPT = "accept-new"
    """Also for `no` and `off`, which here let nothing else through: a changed key is refused all the same."""


@dataclass(frozen=True, slots=True)
class Manners:
    """How a person is dealt with."""

    new_keys: NewKeys = NewKeys.ASK
    hash_names: bool = False
    """HashKnownHosts."""
    batch: bool = False
    """BatchMode: nothing is asked."""
    tries: int = PROMPTS
    """NumberOfPasswordPrompts: how often a passphrase or password may be typed."""


class _Config(SSHClientConfig):
    """asyncssh's reader, which passes over these options, taught to keep them."""

    _handlers = {  # noqa: RUF012 - asyncssh's own declaration
        **SSHClientConfig._handlers,
        **{option.lower(): (option, SSHConfig._set_string) for option in _OPTIONS},
    }


def read(paths: Sequence[Path], *, local_user: str, user: str | None, host: str, port: int | None) -> Manners:
    """What the config says of one host. Blocks as reading the config does; raises what asyncssh raises.

    Args:
        paths: the config files, the first value found counts.
        local_user: who runs this process.
        user: given in place of the config's User.
        host: as it was typed.
        port: given in place of the config's Port.
    """
    given_user = () if user is None else user
    given_port = () if port is None else port
    asked = (local_user, given_user, host, given_port)
    config: SSHConfig = _Config.load(None, list(paths), False, False, False, *asked)
    if config.has_match_final():
        config = _Config.load(config, list(paths), True, True, True, *asked)

    def value(option: str) -> str:
        return str(config.get(option, "")).lower()

    strict = value("StrictHostKeyChecking")
    tries = value("NumberOfPasswordPrompts")
    return Manners(
        new_keys=NewKeys.REFUSE
        if strict in _YES
        else NewKeys.ACCEPT
        if strict in ("accept-new", "no", "off", "false")
        else NewKeys.ASK,
        hash_names=value("HashKnownHosts") in _YES,
        batch=value("BatchMode") in _YES,
        tries=int(tries) if tries.isdigit() and int(tries) > 0 else PROMPTS,
    )
