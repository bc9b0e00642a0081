"""Which keys one login has offered, in which order, and what the ssh agent had."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import asyncssh
from asyncssh.public_key import SSHKeyPair

from rankdeck_backends.ssh_keys import Keys

_SHOWN = 6
"""How many of the agent's keys are named."""
_COMMENT = 60
_ERRNO = re.compile(r"\[Errno \d+\] ")


@dataclass(slots=True)
class Offers:
    """What has been offered so far."""

    agent: tuple[bytes, ...] = ()
    """The keys that the ssh agent has for this host, by their public data, as they are offered."""
    agent_trouble: str = ""
    """Why the ssh agent gave none."""
    made: dict[bytes, str] = field(default_factory=dict)
    """What was offered, by its public data: the file, or the agent's comment."""

    def told(self) -> list[str]:
        """In words, the agent's keys as one."""
        words = []
        mine = [label for data, label in self.made.items() if data in self.agent]
        if mine:
            some = "keys" if len(mine) > 1 else "key"
            named = ", ".join(mine[:_SHOWN]) + (", ..." if len(mine) > _SHOWN else "")
            which = (
                f"the first {len(mine)} of {len(self.agent)} keys"
                if len(mine) < len(self.agent)
                else f"{len(mine)} {some}"
            )
            words.append(f"{which} of the ssh agent ({named})")
        return words + [label for data, label in self.made.items() if data not in self.agent]

    def left(self, keys: Keys) -> list[str]:
        """The files with a usable key that it did not come to."""
        return [
            identity.label
            for identity in keys.identities
            if identity.private is not None
            and identity.public is not None
            and identity.public.public_data not in self.made
        ]


def watch(connection: asyncssh.SSHClientConnection, keys: Keys, agent_path: str, offers: Offers) -> None:
    """Note what a connection offers, and have it begin with the agent's keys that the config names.

    That is ssh's order (sshconnect2.c, pubkey_prepare): the agent's keys that the config names, the agent's
    others, then those that are in files alone. asyncssh's is the agent's own: where it holds many, the server
    hangs up before the right one's turn.
    """
    named = [identity.public.public_data for identity in keys.identities if identity.public is not None]
    agent = connection._agent
    if agent is not None and agent_path:
        get_keys = agent.get_keys

        async def in_ssh_order(identities: Sequence[bytes] | None = None) -> Sequence[SSHKeyPair]:
            try:
                pairs = await get_keys(identities)
            except ValueError as error:
                offers.agent_trouble = _ERRNO.sub("", str(error)) or "it hung up"
                raise
            pairs = sorted(pairs, key=lambda pair: _place(named, pair.public_data))
            offers.agent = tuple(pair.public_data for pair in pairs)
            return pairs

        agent.get_keys = in_ssh_order  # type: ignore[method-assign]
    _note(connection, dict(_labels(keys)), offers)


def _note(connection: asyncssh.SSHClientConnection, labels: dict[bytes, str], offers: Offers) -> None:
    take: Callable[..., object] = connection.public_key_auth_requested

    async def public_key_auth_requested() -> SSHKeyPair | None:
        pair: SSHKeyPair | None = await take()  # type: ignore[misc]
        if pair is not None:
            comment = " ".join(str(pair.get_comment()).split())[:_COMMENT]
            known = "" if pair.public_data in offers.agent else labels.get(pair.public_data, "")
            offers.made[pair.public_data] = known or comment or pair.get_algorithm()
        return pair

    connection.public_key_auth_requested = public_key_auth_requested  # type: ignore[method-assign]


def _labels(keys: Keys) -> list[tuple[bytes, str]]:
    found = []
    for identity in keys.identities:
        if identity.public is not None:
            found.append((identity.public.public_data, identity.label))
        if identity.certificate is not None:
            found.append((identity.certificate.public_data, f"the certificate of {identity.path}"))
    return found


def _place(named: Sequence[bytes], data: bytes) -> int:
    return named.index(data) if data in named else len(named)
