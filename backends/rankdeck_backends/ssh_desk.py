"""Puts logins' questions to the person: one at a time, each only once for all nodes that wait for it."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rankdeck_backends.asking import Accepted, Asker, Hop, Kind, Prompt, SecretQuestion, ShownKey
from rankdeck_backends.ssh_keys import LockedKey

SETTLE_SECONDS = 0.4
"""Host keys are shown together once none has come for so long: a pool's nodes answer within a moment."""
SETTLE_MOST = 10.0
"""Seconds that keys which go on coming are waited for: a login node with two cores gets the keys of 256 nodes
in 4 to 8 s. What comes later is another question."""
REFUSAL_HOLDS = 3.0
"""Seconds for which a question that was not answered is not asked again: nodes that wait for their turn to
connect come to the same jump host or key a moment after the person has cancelled it."""


@dataclass(slots=True)
class _Pending:
    shown: ShownKey
    answer: asyncio.Future[bool]
    waiting: int = 0


class Desk:
    """One person, many logins.

    Args:
        asker: shows the questions.
    """

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._turn = asyncio.Lock()
        self._pending: dict[tuple[str, str], _Pending] = {}
        self._host_keys: asyncio.Task[None] | None = None
        self._locks: dict[Path, asyncio.Lock] = {}
        self._refused: dict[str, float] = {}

    async def accepts(self, shown: ShownKey) -> bool:
        """Whether the person takes this host key for the host's own."""
        key = (shown.known_as, shown.fingerprint)
        pending = self._pending.get(key)
        if pending is None:
            pending = _Pending(shown, asyncio.get_running_loop().create_future())
            self._pending[key] = pending
        pending.waiting += 1
        if self._host_keys is None or self._host_keys.done():
            self._host_keys = asyncio.create_task(self._ask_host_keys(), name="ask for host keys")
        try:
            return await asyncio.shield(pending.answer)
        finally:
            pending.waiting -= 1
            if not pending.waiting and self._pending.get(key) is pending:
                del self._pending[key]
                if not self._pending:
                    self._host_keys.cancel()

    async def unlocks(self, lock: LockedKey, hop: Hop, tries: int) -> bool | None:
        """Have a key's passphrase typed, once for all logins that need it.

        Returns:
            Whether the key can be used now; None if the person did not answer.
        """
        async with self._locks.setdefault(lock.path, asyncio.Lock()):
            note = ""
            for _ in range(tries):
                if lock.private is not None:
                    return True
                text = f"The key {lock.path} is encrypted, and {hop.host} takes it."
                question = SecretQuestion(Kind.PASSPHRASE, hop, text, (Prompt("Passphrase: "),), note)
                typed = await self.answers(question, str(lock.path))
                if typed is None:
                    return None
                if not await asyncio.to_thread(lock.unlock, typed[0]):
                    note = "That passphrase does not open the key."
            return lock.private is not None

    async def answers(self, question: SecretQuestion, subject: str) -> Sequence[str] | None:
        """Ask when it is this question's turn; None if the person does not answer.

        Args:
            question: the question.
            subject: what it is about: if that was refused a moment ago, it is not asked.
        """
        loop = asyncio.get_running_loop()
        async with self._turn:
            if loop.time() - self._refused.get(subject, -REFUSAL_HOLDS) < REFUSAL_HOLDS:
                self._refused[subject] = loop.time()
                return None
            typed = await self._asker.secrets(question)
            if typed is None:
                self._refused[subject] = loop.time()
            return typed

    async def close(self) -> None:
        """Take back what is being asked."""
        if self._host_keys is not None:
            self._host_keys.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._host_keys

    async def _ask_host_keys(self) -> None:
        try:
            while self._pending:
                async with self._turn:
                    await self._settled()
                    batch = dict(sorted(self._pending.items(), key=lambda item: _order(item[1].shown)))
                    if not batch:
                        return
                    accepted = await self._asker.host_keys([each.shown for each in batch.values()])
                # A stop is meant for all that wait by now, too: one question, not one for each handful.
                taken = dict(self._pending) if accepted is Accepted.NONE else batch
                if accepted is Accepted.FIRST:
                    taken = dict(list(batch.items())[:1])
                for key, pending in taken.items():
                    self._pending.pop(key, None)
                    if not pending.answer.done():
                        pending.answer.set_result(accepted is not Accepted.NONE)
        finally:
            # Whoever is left is refused, not forgotten: the task has been cancelled, or the asker failed.
            left, self._pending = self._pending, {}
            for pending in left.values():
                if not pending.answer.done():
                    pending.answer.set_result(False)

    async def _settled(self) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + SETTLE_MOST
        count = -1
        while count != len(self._pending) and loop.time() < end:
            count = len(self._pending)
            await asyncio.sleep(SETTLE_SECONDS)


def _order(shown: ShownKey) -> tuple[int, list[tuple[int, str]]]:
    """Nearer hops first, then by node, n2 before n10."""
    parts = re.findall(r"\d+|\D+", shown.hop.node)
    return shown.hop.position, [(int(part), "") if part.isdigit() else (-1, part) for part in parts]
