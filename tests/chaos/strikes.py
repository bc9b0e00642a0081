"""What is done to runs and nodes. Each strike says what it hit, or nothing where there was nothing to hit."""

from __future__ import annotations

import contextlib
import os
import random
import signal
from collections.abc import Callable, Iterable

from chaos.sight import Seen, above, ranks, sessions
from chaos.trial import Trial
from cluster.node import Node


def strike_rank(trial: Trial, dice: random.Random, at: float) -> str:
    """SIGKILL to a rank's program."""
    node, everyone = _somewhere(trial, dice)
    chosen = _one(dice, ranks(node, trial.shape.tag))
    if chosen is None:
        return ""
    rank = next(r for r in everyone if chosen.has("RANK", r))
    trial.hit(at, "rank", node.name, rank)
    return _kill(chosen, f"rank {rank} on {node.name}")


def strike_shim(trial: Trial, dice: random.Random, at: float) -> str:
    """SIGKILL to what holds a rank."""
    node, _ = _somewhere(trial, dice)
    programs = ranks(node, trial.shape.tag)
    shims = [
        each for each in above(node, programs) if above(node, [each])
    ]  # not the supervisor, for lack of a shim
    chosen = _one(dice, shims)
    if chosen is None:
        return ""
    for each in programs:
        if each.parent == chosen.pid:
            rank = next(r for r in range(trial.shape.world) if each.has("RANK", r))
            trial.hit(at, "shim", node.name, rank)
    return _kill(chosen, f"a shim on {node.name}")


def strike_supervisor(trial: Trial, dice: random.Random, at: float) -> str:
    """SIGKILL to what holds a node's ranks."""
    node, _ = _somewhere(trial, dice)
    chosen = _one(dice, above(node, above(node, ranks(node, trial.shape.tag))))
    if chosen is None:
        return ""
    trial.hit(at, "supervisor", node.name)
    return _kill(chosen, f"the supervisor on {node.name}")


def strike_session(trial: Trial, dice: random.Random, at: float) -> str:
    """SIGKILL to anything below an SSH session: the server's process, the agent, one of its children."""
    node, _ = _somewhere(trial, dice)
    chosen = _one(dice, sessions(node))
    if chosen is None:
        return ""
    trial.hit(at, "session", node.name)
    return _kill(chosen, f"of a session on {node.name}: {chosen.words[:60]}")


def strike_client(trial: Trial, dice: random.Random, at: float) -> str:
    """SIGKILL to `rankdeck run` or the screen."""
    if trial.launching:
        assert trial.launch is not None
        trial.hit(at, "client")
        os.killpg(trial.launch.pid, signal.SIGKILL)
        return "rankdeck run"
    if trial.screen is not None and trial.screen.poll() is None:
        trial.hit(at, "client")
        trial.screen.kill()
        return "the screen"
    return ""


def interrupt(trial: Trial, dice: random.Random, at: float) -> str:
    """SIGINT to `rankdeck run`, which stops the run."""
    if not trial.launching or trial.id is None or trial.shape.client != "follow":
        return ""
    assert trial.launch is not None
    trial.hit(at, "interrupt")
    trial.launch.send_signal(signal.SIGINT)
    return "rankdeck run"


def stop(trial: Trial, dice: random.Random, at: float) -> str:
    """`rankdeck stop`, now and then with --force."""
    if trial.id is None:
        return ""
    force = dice.random() < 0.3
    trial.hit(at, "force" if force else "stop")
    trial.stops.append(trial.type("stop", trial.id, *(["--force"] if force else [])))
    return "rankdeck stop" + (" --force" if force else "")


ON_RUNS: dict[str, Callable[[Trial, random.Random, float], str]] = {
    "kill rank": strike_rank,
    "kill shim": strike_shim,
    "kill supervisor": strike_supervisor,
    "kill session": strike_session,
    "kill client": strike_client,
    "interrupt": interrupt,
    "stop": stop,
}


def _somewhere(trial: Trial, dice: random.Random) -> tuple[Node, Iterable[int]]:
    return trial.site.cluster.node(dice.choice(trial.shape.nodes)), range(trial.shape.world)


def _one(dice: random.Random, found: list[Seen]) -> Seen | None:
    return dice.choice(found) if found else None


def _kill(chosen: Seen, what: str) -> str:
    with contextlib.suppress(ProcessLookupError):
        os.kill(chosen.pid, signal.SIGKILL)
    return f"{what}: pid {chosen.pid}"
