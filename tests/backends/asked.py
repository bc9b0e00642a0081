"""A person as a list of answers, and servers that ask for more than a key."""

import asyncio
import contextlib
import gc
import warnings
from collections.abc import Sequence

import asyncssh

from rankdeck_backends.asking import Accepted, SecretQuestion, ShownKey


class Person:
    """Answers in order; anything asked beyond that fails the test. None means that it cancels."""

    def __init__(self, *answers) -> None:
        self.answers = list(answers)
        self.asked: list[SecretQuestion | list[ShownKey]] = []
        self.open = 0
        """Questions on the screen now."""
        self.taken_back = 0

    async def host_keys(self, keys: Sequence[ShownKey]) -> Accepted:
        return await self._answer(list(keys))

    async def secrets(self, question: SecretQuestion):
        return await self._answer(question)

    async def _answer(self, question):
        assert self.open == 0, "two questions at once"
        self.open += 1
        try:
            self.asked.append(question)
            assert self.answers, f"nothing else was to be asked: {question}"
            answer = self.answers.pop(0)
            if isinstance(answer, asyncio.Event):
                await answer.wait()
                raise AssertionError("this question is to be taken back")
            await asyncio.sleep(0)
            return answer
        except asyncio.CancelledError:
            self.taken_back += 1
            raise
        finally:
            self.open -= 1


class AskingServer(asyncssh.SSHServer):
    """Lets in whoever answers: a password, and/or rounds of prompts. Opens no session the first few times."""

    def __init__(self, password: str | None, rounds, full: int) -> None:
        self._password = password
        self._rounds = rounds
        self._full = full
        self._at = 0
        self.tries = 0
        self.connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self.connection = conn

    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return False

    def password_auth_supported(self) -> bool:
        return self._password is not None

    def validate_password(self, username: str, password: str) -> bool:
        self.tries += 1
        return password == self._password

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool:
        return True  # it is a jump host, too

    def session_requested(self) -> asyncssh.SSHServerProcess | bool:
        self._full -= 1
        return False if self._full >= 0 else asyncssh.SSHServerProcess(_run, None, 3, False)

    def kbdint_auth_supported(self) -> bool:
        return bool(self._rounds)

    def get_kbdint_challenge(self, username: str, lang: str, submethods: str):
        self._at = 0
        return self._challenge()

    def validate_kbdint_response(self, username: str, responses):
        self.tries += 1
        if list(responses) != self._rounds[self._at][3]:
            return False
        self._at += 1
        return self._challenge() if self._at < len(self._rounds) else True

    def _challenge(self):
        title, text, prompts, _ = self._rounds[self._at]
        return title, text, "", prompts


async def _run(process: asyncssh.SSHServerProcess) -> None:
    child = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", process.command, stdin=-1, stdout=-1, stderr=-1, start_new_session=True
    )
    try:
        await process.redirect(child.stdin, child.stdout, child.stderr)
        process.exit(await child.wait())
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()


@contextlib.asynccontextmanager
async def asking_server(
    port: int, host_key, *, password: str | None = None, rounds=(), full: int = 0, **options
):
    """An SSH server on the loopback that runs what it is asked to; gives the list of its logins.

    Each of them gets no session the first `full` times.
    """
    logins: list[AskingServer] = []

    def server() -> AskingServer:
        logins.append(AskingServer(password, rounds, full))
        return logins[-1]

    listener = await asyncssh.listen(
        "127.0.0.1",
        port,
        server_factory=server,
        server_host_keys=[str(host_key)],
        encoding=None,
        **options,
    )
    try:
        yield logins
    finally:
        listener.close()
        await listener.wait_closed()
        with warnings.catch_warnings():
            # asyncssh's server ends with a process that is still being read: `Queue.join` never awaited.
            warnings.simplefilter("ignore", RuntimeWarning)
            gc.collect()
