"""What every backend is: a way to get an agent on a node, its stdin and stdout in our hand; or a reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from rankdeck_profiles.errors import RankdeckError

if TYPE_CHECKING:
    from rankdeck_backends.connection import AgentConnection
    from rankdeck_profiles.model import PoolNode


class Step(StrEnum):
    """How far the way to a node's agent had come when it failed."""

    CONFIG = "config"
    """Our own settings for this host cannot be used (a wrong line in the ssh config)."""
    RESOLVE = "resolve"
    """Its name has no address."""
    CONNECT = "connect"
    """No TCP connection, no SSH banner, or no common algorithms."""
    HOST_KEY = "host key"
    """The host is not known, or not the one that is known by this name."""
    AUTH = "auth"
    """The user was not let in."""
    SHELL = "shell"
    """The login shell did not run our command line."""
    PYTHON = "python"
    """No Python there that the agent runs on."""
    AGENT = "agent"
    """The agent itself: no folder to live in, no hello, no answer, or an answer that is none."""
    LOST = "lost"
    """The connection was up and is gone."""


class NodeError(RankdeckError):
    """A node could not be reached, or is not reachable any more.

    Attributes:
        node: the node's name in the pool.
        step: how far we came.
        what: the message without the node's name in front.
    """

    exit_status = 3

    def __init__(self, node: str, step: Step | str, what: str, hint: str = "") -> None:
        super().__init__(f"{node}: {what}", hint)
        self.node = node
        self.step = Step(step)
        self.what = what

    def again(self) -> NodeError:
        """An equal error to raise elsewhere: one raised in many tasks would gather all their tracebacks."""
        return NodeError(self.node, self.step, self.what, self.hint)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing a node refuses a request for."""

    node: str
    kind: str
    """What sort of thing: a need's kind (`file`, `dir`, `program`, `module`) or the agent's kind of error."""
    message: str
    value: str = ""
    """The path, program or module it is about."""
    why: str = ""
    """The profile's key that asked for it."""
    hint: str = ""

    @property
    def line(self) -> str:
        """The problem as one line that stands alone."""
        return f"{self.node}: {self.message}" + (f" ({self.why})" if self.why else "")


_FIXES = {
    "file": "copy it there, or keep it in a folder that all nodes see",
    "dir": "create it there, or name a folder that all nodes have",
    "program": "install it there, put it into PATH in `setup`, or give its whole path",
    "module": "install it there, activate its environment in `setup`, or name the `python` that has it",
    "environment": "put long values into files, and give the files' names",
    "setup": "try the line in a login on that node",
}
"""Kind of problem -> what helps, where the node has nothing better to say."""


class NodeRefusal(RankdeckError):  # noqa: N818 - it is no error of the program's: the node answered no
    """A node was reached and said no: a script that is not there, a directory that may not be entered.

    Attributes:
        problems: every one found, on every node that was asked.
    """

    exit_status = 2

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        if not self.problems:
            raise ValueError("a refusal names at least one problem")
        lines = [problem.line for problem in self.problems]
        message = lines[0] if len(lines) == 1 else f"{len(lines)} problems:\n  " + "\n  ".join(lines)
        hints = dict.fromkeys(problem.hint for problem in self.problems if problem.hint)
        super().__init__(message, "\n  ".join(hints))

    @classmethod
    def from_check(cls, node: str, problems: Iterable[Mapping[str, Any]]) -> NodeRefusal:
        """The refusal in the problems that the agent's `check` answers (`[{kind, value, why, message}]`)."""
        return cls(
            Problem(
                node,
                kind=(kind := str(found.get("kind", ""))),
                message=str(found.get("message", "")),
                value=str(found.get("value", "")),
                why=str(found.get("why", "")),
                hint=str(found.get("hint", "")) or _FIXES.get(kind, ""),
            )
            for found in problems
        )

    @classmethod
    def merged(cls, refusals: Iterable[NodeRefusal]) -> NodeRefusal:
        """One refusal that lists the problems of several nodes, in the order given."""
        return cls(problem for refusal in refusals for problem in refusal.problems)


_NODE_TROUBLE = ("timeout", "internal")
"""Kinds of error in which the agent could not answer, as opposed to answering no."""


def refusal(node: str, error: object) -> NodeRefusal | NodeError:
    """What a reply's `error` (`{kind, message, hint}`) means, whatever state it is in."""
    fields: Mapping[str, Any] = error if isinstance(error, Mapping) else {"message": error}
    kind = str(fields.get("kind") or "error")
    message = str(fields.get("message") or "refused, without a reason")
    hint = str(fields.get("hint") or "")
    if kind in _NODE_TROUBLE:
        return NodeError(node, Step.AGENT, message, hint)
    return NodeRefusal([Problem(node, kind, message, hint=hint)])


class Backend(Protocol):
    """How a pool's nodes are reached."""

    kind: str

    async def open(self, node: PoolNode) -> AgentConnection:
        """Start an agent session on the node.

        Each call makes a connection of its own; any number may be under way at once.

        Raises:
            NodeError: it could not be reached; the step and the message say how far we came.
        """
        ...

    async def close(self) -> None:
        """Close what the connections shared. Connections handed out are closed by their owners."""
        ...
