"""What a login does where a person is needed: a new host key, a passphrase, what the server itself asks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import asyncssh

from rankdeck_backends.asking import Asker, Hop, Kind, Prompt, SecretQuestion, ShownKey
from rankdeck_backends.base import NodeError, Step
from rankdeck_backends.ssh_config import ConfigError, HostSettings
from rankdeck_backends.ssh_desk import Desk
from rankdeck_backends.ssh_keys import LockedKey
from rankdeck_backends.ssh_manners import Manners, NewKeys
from rankdeck_backends.ssh_names import CONFIG_VARIABLE


class DeclinedError(Exception):
    """The person was asked and did not answer."""


class Person:
    """The person at the screen, or nobody.

    Args:
        asker: shows the questions; None: nothing is asked, what would have to be is refused.
    """

    def __init__(self, asker: Asker | None) -> None:
        self._desk = Desk(asker) if asker is not None else None

    def questions(self, hop: Hop, settings: HostSettings) -> LoginQuestions | None:
        """What answers the server's questions during one login; None: nobody does."""
        return LoginQuestions(self._desk, hop, settings) if self._desk is not None else None

    async def takes(self, hop: Hop, settings: HostSettings, key: asyncssh.SSHKey, told: NodeError) -> str:
        """Have an unknown host key accepted, and saved.

        Args:
            hop: the login it was shown in.
            settings: that host's.
            key: the key.
            told: what to raise where it is not accepted.

        Returns:
            What is to be said where it could not be saved; else empty.

        Raises:
            NodeError: it was not accepted.
        """
        manners = await read_manners(told.node, settings)
        if manners.new_keys is not NewKeys.ACCEPT:
            if self._desk is None or manners.batch or manners.new_keys is NewKeys.REFUSE:
                raise told
            trust = settings.trust(settings.host, settings.port)
            others = ", ".join(dict.fromkeys(known.get_algorithm() for known in trust.marked()))
            shown = ShownKey(
                hop,
                trust.name,
                key.get_algorithm(),
                key.get_fingerprint(),
                settings.known_hosts_file,
                others,
            )
            if not await self._desk.accepts(shown):
                what = f"{told.what}; you did not accept it"
                raise NodeError(told.node, Step.HOST_KEY, what, told.hint, needs_person=True)
        trouble = await asyncio.to_thread(settings.accept, key)
        if not trouble:
            return ""
        # The beginning is ssh's own (sshconnect.c, check_host_key).
        return (
            f"failed to add {settings.host} to the list of known hosts ({trouble}); "
            "its key is trusted until rankdeck is left"
        )

    async def opens(self, hop: Hop, settings: HostSettings, lock: LockedKey) -> bool:
        """Have a key's passphrase typed; False: it stays closed, other ways of logging in are left to try.

        Raises:
            NodeError: the person did not answer.
        """
        manners = await read_manners(hop.node, settings)
        if self._desk is None or manners.batch:
            return False
        opened = await self._desk.unlocks(lock, hop, manners.tries)
        if opened is None:
            raise declined(hop.node, settings, f"the passphrase of {lock.path}")
        return opened

    async def close(self) -> None:
        """Take back what is being asked."""
        if self._desk is not None:
            await self._desk.close()


class LoginQuestions:
    """Answers what one server asks during one login.

    Args:
        desk: asks the person.
        hop: the login.
        settings: that host's.
    """

    def __init__(self, desk: Desk, hop: Hop, settings: HostSettings) -> None:
        self._desk = desk
        self._hop = hop
        self._settings = settings
        self._subject = f"{settings.user}@{settings.target}"
        self._rounds: dict[Kind, int] = {}
        self._said: list[str] = []
        """What the server told without asking anything: shown with its next question."""

    async def may_ask(self, kind: Kind) -> bool:
        """Whether there is another try at this way of logging in; each call takes one."""
        manners = await read_manners(self._hop.node, self._settings)
        self._rounds[kind] = self._rounds.get(kind, 0) + 1
        return not manners.batch and self._rounds[kind] <= manners.tries

    async def password(self) -> str | None:
        """The user's password; None: no further try.

        Raises:
            DeclinedError: the person did not answer.
        """
        if not await self.may_ask(Kind.PASSWORD):
            return None
        text = f"{self._settings.host} wants the password of user {self._settings.user}."
        prompts = (Prompt("Password: "),)
        return (await self._ask(Kind.PASSWORD, text, prompts))[0]

    async def challenge(
        self, name: str, instructions: str, prompts: Sequence[tuple[str, bool]]
    ) -> Sequence[str]:
        """Answers to a keyboard-interactive request (RFC 4256).

        Raises:
            DeclinedError: the person did not answer.
        """
        self._said += [part.strip() for part in (name, instructions) if part.strip()]
        if not prompts:
            return ()
        asked = f"{self._settings.host} asks user {self._settings.user}:"
        text = "\n".join((asked, *self._said))
        self._said.clear()
        return await self._ask(Kind.PROMPTS, text, tuple(Prompt(words, echo) for words, echo in prompts))

    async def _ask(self, kind: Kind, text: str, prompts: tuple[Prompt, ...]) -> Sequence[str]:
        note = "That was not accepted." if self._rounds.get(kind, 0) > 1 else ""
        typed = await self._desk.answers(SecretQuestion(kind, self._hop, text, prompts, note), self._subject)
        if typed is None:
            raise DeclinedError
        return typed


def declined(node: str, settings: HostSettings, what: str) -> NodeError:
    """The login was given up since the person did not answer."""
    return NodeError(
        node,
        Step.AUTH,
        f"the login of user {settings.user} on {settings.target} was given up: {what} was asked for in vain",
        "connect again to be asked again",
        needs_person=True,
    )


async def read_manners(node: str, settings: HostSettings) -> Manners:
    """How the config wants a person to be dealt with.

    Raises:
        NodeError: it cannot be read any more.
    """
    try:
        return await asyncio.to_thread(settings.manners)
    except ConfigError as error:
        hint = f"correct it, or name another one in {CONFIG_VARIABLE}"
        raise NodeError(node, Step.CONFIG, str(error), hint) from None
