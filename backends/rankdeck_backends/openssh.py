"""The system's `ssh` program as the way to a node: slower to start, but all that OpenSSH can do works.

Kerberos (GSSAPI), PKCS#11 tokens, hardware keys that want a touch, ControlMaster, settings that only OpenSSH
reads. It runs without a terminal and asks nothing: who has to type something opens a ControlMaster before.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import shutil

from rankdeck_backends import open_files, package
from rankdeck_backends.base import NodeError, Step
from rankdeck_backends.connection import AgentConnection
from rankdeck_backends.failures import excerpt
from rankdeck_backends.process_channel import AgentProcess
from rankdeck_backends.ssh_names import CONFIG_VARIABLE, KEEPALIVE_COUNT, KEEPALIVE_INTERVAL
from rankdeck_profiles.model import PoolNode

PROGRAM = "ssh"
_AT_ONCE = 8
"""Logins under way at once: each costs some 85 ms of CPU here, and one sshd may be behind them all."""
_CONFIG_LIMIT = 30.0
"""Seconds for `ssh -G`: a `Match exec` may ask the network."""
_HELLO_PATIENCE = 4.0
"""How many times the connect timeout the login and the agent's start may take together."""
_FAILED = 255
"""ssh(1): "exits with the exit status of the remote command or with 255 if an error occurred"."""
_SYMPTOMS = (
    (Step.RESOLVE, r"Could not resolve hostname|Name or service not known"),
    (
        Step.HOST_KEY,
        r"Host key verification failed|REMOTE HOST IDENTIFICATION HAS CHANGED|No \S+ host key is",
    ),
    (Step.AUTH, r"Permission denied|Too many authentication failures|No more authentication methods"),
    (Step.CONFIG, r"Bad configuration option|terminating, \d+ bad configuration|unsupported option"),
    (
        Step.CONNECT,
        r"Connection (refused|timed out|reset|closed)|No route to host|Network is unreachable"
        r"|kex_exchange_identification|Operation timed out|no matching|stdio forwarding failed|open failed",
    ),
)
"""What OpenSSH says at which step; the first one found counts."""


class OpenSshBackend:
    """Starts one `ssh` process a node, with the agent behind it."""

    kind = "openssh"

    def __init__(self, *, connect_timeout: float = 10.0) -> None:
        """Nothing is started yet.

        Args:
            connect_timeout: seconds to connect, where the config names no ConnectTimeout.
        """
        self._timeout = connect_timeout
        self._packed = package.Packed()
        self._starts = asyncio.Semaphore(_AT_ONCE)

    async def open(self, node: PoolNode) -> AgentConnection:
        """Log in to the node and start an agent there.

        Raises:
            NodeError: at the first step that failed, as far as ssh's own words tell.
        """
        if shutil.which(PROGRAM) is None:
            raise NodeError(
                node.name,
                Step.CONFIG,
                "the program `ssh` is not on the PATH of this machine",
                'install OpenSSH\'s client, or set `backend = "ssh"` in the pool, which needs none',
            )
        async with self._starts:
            open_files.require_room(node.name)
            settings = await self._settings(node)
            return await self._start(node, settings)

    async def close(self) -> None:
        """Nothing is shared between the processes."""

    async def _start(self, node: PoolNode, settings: dict[str, str]) -> AgentConnection:
        named = settings.get("connecttimeout", "")
        timeout = float(named) if named.isdigit() and int(named) else self._timeout
        by_hand = shlex.join([*_command(), *_target(node)])
        connection = AgentConnection(node.name, by_hand=f"{by_hand} python3 -V")
        argv = [*_command(), *_options(settings, timeout), *_target(node), package.bootstrap_command()]
        packed = await self._packed.input()
        _, process = await asyncio.get_running_loop().subprocess_exec(
            lambda: AgentProcess(connection), *argv, start_new_session=True
        )
        connection.attach(process)
        process.write(packed)
        try:
            await connection.greeted(timeout * _HELLO_PATIENCE)
        except NodeError as error:
            await connection.drop()
            raise _explained(node.name, error, process, by_hand) from None
        except BaseException:
            await connection.drop()
            raise
        connection.note = f"reached by the system's ssh: {by_hand}"
        return connection

    async def _settings(self, node: PoolNode) -> dict[str, str]:
        """What ssh's config says of the node, as `ssh -G` prints it: keys in lower case."""
        process = await asyncio.create_subprocess_exec(
            *_command(),
            "-G",
            *_target(node),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(_CONFIG_LIMIT):
                out, said = await process.communicate()
        except TimeoutError:
            raise NodeError(
                node.name,
                Step.CONFIG,
                f"`ssh -G` did not read the ssh config within {_CONFIG_LIMIT:g} s",
                "a `Match exec` in it may hang, or the file system that ~/.ssh is on",
            ) from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode:
            what = f"ssh cannot use its config: {excerpt(said) or f'it ended with {process.returncode}'}"
            raise NodeError(node.name, Step.CONFIG, what, "correct it; `ssh -G HOST` shows what it reads")
        found: dict[str, str] = {}
        for line in out.decode("utf-8", "surrogateescape").splitlines():
            key, _, value = line.partition(" ")
            found.setdefault(key, value)
        return found


def _command() -> list[str]:
    config = os.environ.get(CONFIG_VARIABLE)
    return [PROGRAM, "-F", config] if config else [PROGRAM]


def _target(node: PoolNode) -> list[str]:
    port = ["-p", str(node.port)] if node.port is not None else []
    user = ["-l", node.user] if node.user else []
    return [*port, *user, "--", node.host]


def _options(settings: dict[str, str], timeout: float) -> list[str]:
    """What is set whatever the config says."""
    new_keys = settings.get("stricthostkeychecking", "ask")
    # `no` would let a changed key through, too; nothing may be asked.
    strict = "accept-new" if new_keys in ("accept-new", "no", "off", "false") else "yes"
    wanted = {
        "BatchMode": "yes",
        "StrictHostKeyChecking": strict,
        "ConnectTimeout": str(max(1, round(timeout))),
        "ServerAliveInterval": str(KEEPALIVE_INTERVAL),
        "ServerAliveCountMax": str(KEEPALIVE_COUNT),
        "ClearAllForwardings": "yes",
        "ForwardAgent": "no",
        "ForwardX11": "no",
        "PermitLocalCommand": "no",
        "RemoteCommand": "none",
        "EscapeChar": "none",
    }
    return ["-T", *(word for key, value in wanted.items() for word in ("-o", f"{key}={value}"))]


def _explained(node: str, error: NodeError, process: AgentProcess, by_hand: str) -> NodeError:
    """The step at which ssh itself failed, by its own words; else the error as it is."""
    if process.status != _FAILED:
        return error
    said = process.said.decode("utf-8", "replace")
    for step, pattern in _SYMPTOMS:
        if re.search(pattern, said, re.IGNORECASE):
            return NodeError(
                node, step, f"ssh could not log in:\n  {excerpt(process.said)}", f"try `{by_hand}`"
            )
    return NodeError(
        node, Step.CONNECT, f"ssh ended without a session:\n  {excerpt(process.said)}", f"try `{by_hand}`"
    )
