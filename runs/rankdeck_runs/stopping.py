"""Ending a run on all its nodes at once, and proving that nothing of it is left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rankdeck_profiles.model import BackendKind
from rankdeck_runs.errors import problems_of
from rankdeck_runs.gathering import from_all
from rankdeck_runs.links import Links
from rankdeck_runs.states import SweptProcess
from rankdeck_runs.targets import Target, another_machine, run_folder
from rankdeck_runs.values import integer, number, objects, text


@dataclass(frozen=True, slots=True)
class StopProgress:
    """What is left on one node while it is being stopped."""

    node: str
    left: tuple[tuple[int | None, int], ...]
    """(rank, pid) of each that is still there; rank None for other processes of the run."""
    grace_left: float
    """Seconds until SIGKILL."""


@dataclass(frozen=True, slots=True)
class StopResult:
    """How a stop ended."""

    gone: bool
    """Proven: nothing of the run is left on any node."""
    left: tuple[SweptProcess, ...] = ()
    """What could not be ended."""
    swept: tuple[SweptProcess, ...] = ()
    """What was ended besides the ranks."""
    unreached: tuple[tuple[str, str], ...] = ()
    """(node, why) of each that could not be told."""

    def to_json(self) -> dict[str, Any]:
        """The document of `rankdeck stop --json`, but for the id."""
        return {
            "gone": self.gone,
            "left": [{**process.to_json(), "why": process.why} for process in self.left],
            "swept": [process.to_json() for process in self.swept],
            "unreached": [{"node": node, "message": message} for node, message in self.unreached],
        }


async def stop_nodes(
    links: Links,
    backend: BackendKind,
    targets: list[Target],
    run_id: str,
    *,
    signal: str,
    grace: float,
    force: bool,
    progress: Callable[[StopProgress], None] | None,
) -> StopResult:
    """Tell every node at once; done when all have answered.

    Args:
        links: gives connections.
        backend: how the nodes are reached.
        targets: the nodes.
        run_id: the run.
        signal: name of the first signal.
        grace: seconds between that and SIGKILL.
        force: SIGKILL at once.
        progress: told about each node once a second.
    """

    async def one(target: Target) -> Mapping[str, Any]:
        def on_event(header: Mapping[str, Any], body: bytes) -> None:
            if progress is not None and header.get("ev") == "stopping":
                progress(_progress(target.name, header))

        async with links.use(backend, target.node) as connection:
            reply = await connection.stream(
                "stop",
                on_event,
                dir=run_folder(target, run_id, connection),
                signal=signal,
                grace=grace,
                force=force,
            )
            if reply.header.get("state") is None and (wrong := another_machine(target, connection)):
                raise wrong
            return reply.header

    answers, failed = await from_all({target.name: one(target) for target in targets})
    left = tuple(p for node, answer in answers.items() for p in _processes(node, answer, "left"))
    swept = tuple(p for node, answer in answers.items() for p in _processes(node, answer, "swept"))
    gone = not failed and not left and all(answer.get("gone") is True for answer in answers.values())
    return StopResult(gone, left, swept, tuple(problems_of(failed)))


def _progress(node: str, header: Mapping[str, Any]) -> StopProgress:
    left = tuple(
        (integer(process, "rank"), pid)
        for process in objects(header, "left")
        if (pid := integer(process, "pid")) is not None
    )
    return StopProgress(node, left, number(header, "grace_left") or 0.0)


def _processes(node: str, answer: Mapping[str, Any], key: str) -> list[SweptProcess]:
    return [
        SweptProcess(node, pid, text(process, "cmd"), integer(process, "rank"), text(process, "why"))
        for process in objects(answer, key)
        if (pid := integer(process, "pid")) is not None
    ]
