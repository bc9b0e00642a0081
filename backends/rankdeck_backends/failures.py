"""What a failed or lost agent session means to a person: which step, what was seen, what to do."""

from __future__ import annotations

import re

from rankdeck_backends.base import NodeError, Step
from rankdeck_backends.package import NO_FOLDER, NO_PYTHON, OLD_PYTHON

_EXCERPT_LINES = 3
_EXCERPT_WIDTH = 200
_STAY = "see that the node is up and stays reachable, then try again"


def excerpt(data: bytes, lines: int = _EXCERPT_LINES) -> str:
    """The last lines of foreign bytes as text that is safe to show.

    Control characters (colours, cursor movement, carriage returns) are left out or spelled as escapes; empty
    lines are dropped; long lines are cut.
    """
    text = data.decode("utf-8", "backslashreplace")
    text = re.sub(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)", "", text)
    shown: list[str] = []
    for line in text.splitlines():
        clean = "".join(
            c if c.isprintable() else f"\\x{ord(c):02x}" for c in line.replace("\t", " ").rstrip()
        )
        if clean.strip(" \\x0"):
            shown.append(clean if len(clean) <= _EXCERPT_WIDTH else clean[: _EXCERPT_WIDTH - 1] + "…")
    return "\n  ".join(shown[-lines:])


def failed_start(
    node: str, noise: bytes, stderr: bytes, status: int | None, reason: str, by_hand: str = ""
) -> NodeError:
    """The channel ended before the agent had said hello.

    Args:
        node: the node's name.
        noise: the end of what came on stdout.
        stderr: the end of what came on stderr.
        status: the exit status of the command, if known.
        reason: why the transport broke, if it did.
        by_hand: what a person can type to see for themselves.
    """
    if NO_PYTHON in noise:
        tried = _rest(noise, NO_PYTHON).removeprefix("tried ")
        return NodeError(
            node,
            Step.PYTHON,
            "no Python was found there" + (f"; tried {tried}" if tried else ""),
            "install python3 (3.6 or later) on the node, or put it on the PATH of non-interactive shells",
        )
    if OLD_PYTHON in noise:
        found = _rest(noise, OLD_PYTHON) or "of unknown version"
        return NodeError(
            node,
            Step.PYTHON,
            f"the Python found there is {found}; the agent needs 3.6 or later",
            "install a newer python3 on the node, or put it first on the PATH of non-interactive shells",
        )
    if NO_FOLDER in noise:
        tried = _rest(noise, NO_FOLDER)
        return NodeError(
            node,
            Step.AGENT,
            "no folder there can hold the agent's files" + (f"; tried {tried}" if tried else ""),
            "free space or fix permissions there, or name a folder of yours in RANKDECK_NODE_DIR on the node",
        )
    said = excerpt(stderr) or excerpt(noise)
    if b"rankdeck_agent" in stderr and not reason:
        return NodeError(node, Step.AGENT, f"the agent failed at its start; it said:\n  {said}")
    if reason:
        how = f"the connection broke before the agent started: {reason}"
    elif status is None:
        how = "the connection was closed before the agent started"
    else:
        how = f"the login shell ended with status {status} before the agent started"
        if status == 0:
            how += ", as start-up files that call `exit` do"
    return NodeError(
        node, Step.SHELL, how + (f"; it said:\n  {said}" if said else " and said nothing"), _try(by_hand)
    )


def silent_start(node: str, seconds: float, noise: bytes, stderr: bytes, by_hand: str = "") -> NodeError:
    """The command was started, but no hello came in time."""
    said = excerpt(stderr) or excerpt(noise)
    return NodeError(
        node,
        Step.SHELL,
        f"logged in, but the agent did not start within {seconds:g} s"
        + (f"; so far the shell said:\n  {said}" if said else ""),
        "a start-up file that waits for input or a hanging home directory can be the reason"
        + _try(by_hand, "; "),
    )


def lost(node: str, stderr: bytes, status: int | None, signal: str | None, reason: str) -> NodeError:
    """The channel ended under a running session."""
    if reason:
        how = f"connection lost: {reason}"
    elif signal:
        how = f"connection lost: the agent's session was ended by signal {signal}"
    elif status is not None:
        how = f"connection lost: the agent's session ended with status {status}"
    else:
        how = "connection lost: the other side closed it"
    said = excerpt(stderr)
    return NodeError(node, Step.LOST, how + (f"; it said:\n  {said}" if said else ""), _STAY)


def no_answer(node: str, seconds: float) -> NodeError:
    """Pings stayed without answer."""
    return NodeError(node, Step.LOST, f"connection lost: nothing came from it for {seconds:g} s", _STAY)


def broken_stream(node: str, what: str) -> NodeError:
    """What came is not the protocol."""
    return NodeError(
        node,
        Step.AGENT,
        f"the agent's output cannot be read: {what}",
        "something else on the node may write to the session's output (a background job of a start-up file)",
    )


def refused_stream(node: str, message: object) -> NodeError:
    """The agent could not read what we sent."""
    return NodeError(node, Step.AGENT, f"the agent cannot read our requests: {message}")


def other_protocol(node: str, found: object, spoken: int) -> NodeError:
    """The agent is of another version."""
    return NodeError(
        node, Step.AGENT, f"the agent there speaks protocol {found}; this rankdeck speaks {spoken}"
    )


def closed_by_us(node: str) -> NodeError:
    """A call on a connection that was closed on purpose."""
    return NodeError(node, Step.LOST, "the connection was closed")


def _try(by_hand: str, joint: str = "") -> str:
    return f"{joint}try `{by_hand}`" if by_hand else ""


def _rest(noise: bytes, word: bytes) -> str:
    """What stands after the word on its line."""
    line = noise[noise.index(word) + len(word) :].splitlines()
    return excerpt(line[0], 1).strip() if line else ""
