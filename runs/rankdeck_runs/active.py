"""Active tests: pairs of nodes send data to each other in ordinary runs, and the result is judged.

Nothing of this runs unless a person asks for it: it takes the nodes' GPUs and network for up to a minute.
"""

from __future__ import annotations

import json
import re
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from rankdeck_backends.preflight.active import GOOD_SHARE, PAIR_LIMIT
from rankdeck_profiles.errors import RankdeckError
from rankdeck_profiles.model import Pool, PoolNode, Profile
from rankdeck_profiles.nodes import folded
from rankdeck_runs import layout
from rankdeck_runs.live import LinkState, LinkStatus
from rankdeck_runs.needs import NEEDS
from rankdeck_runs.transport import Network, Transport
from rankdeck_runs.values import number, text

if TYPE_CHECKING:
    from rankdeck_backends.preflight.finding import Finding
    from rankdeck_runs.engine import Engine
    from rankdeck_runs.preparing import Prepared
    from rankdeck_runs.states import RunSnapshot

ANSWER_LIMIT = 660.0
"""Seconds for a node to get ready for a pair's run: setup lines may load modules from a cold file server."""
AT_ONCE = 16
"""Pairs that run at the same time."""
_CALLED_OFF = "it was called off"
_SEE_TO_NODE = "see that the node is up and stays reachable, then try again"
_NAME_ANOTHER = "name a Python of the nodes that has it: --python, or the profile's"
_RESULT = re.compile(r"^rankdeck-active (\{.*\})$", re.MULTILINE)


class ActiveError(RankdeckError):
    """The test can't be made."""


class ActiveTest(StrEnum):
    """What sends."""

    TORCH = "torch"
    """An all-reduce over NCCL, or over Gloo where there is no GPU."""
    MPI = "mpi"
    """Messages there and back over mpi4py."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What one pair came to."""

    pair: tuple[str, str]
    run: str = ""
    """The id of its run; empty: it could not be launched."""
    gbytes_per_s: float | None = None
    transport: str = ""
    """In words, what the libraries named: `InfiniBand mlx5_0, GPU direct`; empty: they named none."""
    fabric_unused: str = ""
    problem: str = ""
    """Why there is no result."""
    hint: str = ""
    """What to do about that."""
    tried: bool = True
    """False: nothing was sent, and so nothing is known of the network between them."""

    def to_json(self) -> dict[str, Any]:
        """The shape promised by `rankdeck check --json`, in `active`."""
        return {
            "pair": list(self.pair),
            "run": self.run,
            "gbytes_per_s": self.gbytes_per_s,
            "transport": self.transport,
            "fabric_unused": self.fabric_unused,
            "problem": self.problem,
            "tried": self.tried,
        }


def disjoint(nodes: Sequence[PoolNode]) -> list[tuple[PoolNode, PoolNode]]:
    """Every node in one pair; where their number is odd the last is tried with the first, again.

    Args:
        nodes: two or more.
    """
    pairs = list(zip(nodes[::2], nodes[1::2], strict=False))
    return [*pairs, (nodes[-1], nodes[0])] if len(nodes) % 2 and len(nodes) > 1 else pairs


def senders(profile: Profile | None, pool: Pool, unreached: Sequence[str]) -> Pool:
    """The part of a pool that is tried: the nodes of the profile.

    Raises:
        ActiveError: they are fewer than two, or one of them was not reached.
    """
    nodes = pool.nodes[: profile.nodes] if profile is not None and profile.nodes is not None else pool.nodes
    if len(nodes) < 2:
        raise ActiveError(f"pool {pool.name} has one node: an active test takes two", "name another pool")
    if unreached:
        raise ActiveError(
            f"nothing was sent: {folded(unreached)} could not be reached",
            "make the pool whole, or leave it out",
        )
    return replace(pool, nodes=nodes)


def cost(test: ActiveTest, pairs: int) -> str:
    """What it takes, to be said before it is done."""
    what = "one GPU of each node (without GPUs a CPU)" if test is ActiveTest.TORCH else "one CPU of each node"
    return (
        f"{pairs} {'pair' if pairs == 1 else 'pairs'} of nodes, up to {AT_ONCE} at once, each up to "
        f"{PAIR_LIMIT:.0f} s with {what} and the network between them; jobs that run there are slowed down "
        "meanwhile"
    )


def program(test: ActiveTest) -> str:
    """The source that the ranks run: sent as an argument, so nothing needs to be installed on the nodes."""
    name = f"{test.value}_pair.py"
    here = Path(__file__).parent
    for path in (here / "active_programs" / name, here.parents[1] / "examples" / "active" / name):
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise RankdeckError(f"the program {name} is missing from {here}", "install rankdeck again")


def profile_of(test: ActiveTest, base: Profile | None, python: str) -> Profile:
    """The profile of one pair's run.

    Args:
        test: what sends.
        base: whose setup lines, folder and variables are taken; None: none.
        python: the interpreter on the nodes.
    """
    source = program(test).replace("$", "$$")
    told = {"NCCL_DEBUG": "INFO", "UCX_LOG_LEVEL": "info"}
    framework = "mpi" if test is ActiveTest.MPI else "pytorch"
    return Profile(
        name=f"active-{test.value}",
        framework=framework,
        options=base.options if base is not None and base.framework == framework else {},
        command=(python, "-u", "-c", source),
        workdir=base.workdir if base is not None else "/tmp",
        setup=base.setup if base is not None else (),
        env={**(base.env if base is not None else {}), **told},
        python=python,
        nodes=2,
        procs_per_node=1,
    )


def measure(
    engine: Engine,
    test: ActiveTest,
    pool: Pool,
    *,
    base: Profile | None = None,
    python: str = "python3",
    progress: Callable[[int, int], None] | None = None,
    called_off: Event | None = None,
) -> list[Measured]:
    """Try all pairs of a pool; blocks until all have ended.

    Args:
        engine: launches and follows.
        test: what sends.
        pool: two nodes or more.
        base: see `profile_of`.
        python: likewise.
        progress: told how many pairs of how many have ended.
        called_off: set from another thread, it ends the runs under way, and no other is begun.
    """
    pairs = disjoint(pool.nodes)
    odd = pairs[-1:] if len(pool.nodes) % 2 else []
    trial = _Trial(engine, profile_of(test, base, python), pool, called_off or Event())
    told = progress or (lambda done, total: None)
    told(0, len(pairs))
    found: dict[int, Measured] = {}
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="active test") as threads:
        try:
            # The odd node's partner is busy with its own pair until that one has ended.
            for group in (pairs[: len(pairs) - len(odd)], odd):
                asked = {threads.submit(trial.of, pair): pairs.index(pair) for pair in group}
                for each in as_completed(asked):
                    found[asked[each]] = each.result()
                    told(len(found), len(pairs))
        except BaseException:
            trial.called_off.set()
            raise
    return [found[number] for number in sorted(found)]


@dataclass(frozen=True)
class _Trial:
    """One pair after the other, each in a run of its own."""

    engine: Engine
    profile: Profile
    pool: Pool
    called_off: Event

    def of(self, pair: tuple[PoolNode, PoolNode]) -> Measured:
        """What a pair comes to."""
        names = (pair[0].name, pair[1].name)
        if self.called_off.is_set():
            return Measured(names, problem=_CALLED_OFF, tried=False)
        two = Pool(self.pool.name, self.pool.backend, pair, slots=1, interface=self.pool.interface)
        run = ""
        try:
            prepared = self.engine.prepare(self.profile, two, skip_checks=True).result(ANSWER_LIMIT)
            if lacking := [each for each in _stopping(prepared) if each.id == NEEDS]:
                where = ", ".join(each.node or "" for each in lacking)
                hint = "; ".join(dict.fromkeys(each.fix for each in lacking))
                return Measured(names, problem=f"{where}: {lacking[0].message}", hint=hint, tried=False)
            run = self.engine.launch(replace(prepared, active_test=True)).result(ANSWER_LIMIT)
            return self._result(names, run)
        except (CancelledError, RuntimeError):  # the engine was closed meanwhile
            return Measured(names, run, problem=_CALLED_OFF, tried=False)
        except (RankdeckError, TimeoutError, OSError) as error:
            why = getattr(error, "message", "") or str(error) or "it took too long"
            hint = getattr(error, "hint", "")
            return Measured(names, run, problem=why, hint=hint, tried=bool(run))

    def _result(self, names: tuple[str, str], run: str) -> Measured:
        live = self.engine.attach(run)
        deadline = time.monotonic() + PAIR_LIMIT
        version = 0
        while not live.snapshot().complete and time.monotonic() < deadline and not self.called_off.is_set():
            version = live.wait(version, 0.5)
        snapshot = live.snapshot()
        if not snapshot.complete:
            self.engine.stop(run, grace=0.0).result(ANSWER_LIMIT)
            if self.called_off.is_set():
                return Measured(names, run, problem=_CALLED_OFF, tried=False)
            return without_result(names, run, live.links)
        logs = [live.path / layout.LOGS / layout.rank_log(rank, "out") for rank in (0, 1)]
        said = [log.read_text("utf-8", "replace") for log in logs if log.exists()]
        return _measured(names, snapshot, "\n".join(said))


def _stopping(prepared: Prepared) -> tuple[Finding, ...]:
    return prepared.report.stopping if prepared.report is not None else ()


def without_result(pair: tuple[str, str], run: str, links: Mapping[str, LinkStatus]) -> Measured:
    """A pair that told no result; a node that was lost meanwhile is said first."""
    late = f"no result within {PAIR_LIMIT:.0f} s"
    lost = {node: link.message for node, link in links.items() if link.state is LinkState.LOST}
    if not lost:
        return Measured(pair, run, problem=late)
    told = "; ".join(
        f"{node} was lost meanwhile ({why})" if why else f"{node} was lost" for node, why in lost.items()
    )
    return Measured(pair, run, problem=f"{told}: {late}", hint=_SEE_TO_NODE)


def _measured(pair: tuple[str, str], snapshot: RunSnapshot, log: str) -> Measured:
    match = _RESULT.search(log)
    transports = [each for rank in snapshot.ranks for each in rank.transports]
    used = _words(transports)
    if match is None:
        why = snapshot.cause.message if snapshot.cause is not None else "the ranks told no result"
        return Measured(pair, snapshot.id, None, used, snapshot.fabric_unused, why)
    try:
        told: Mapping[str, object] = json.loads(match[1])
    except (ValueError, RecursionError):
        return Measured(pair, snapshot.id, None, used, snapshot.fabric_unused, "its result can't be read")
    if missing := text(told, "missing"):
        return Measured(pair, snapshot.id, problem=missing, hint=_NAME_ANOTHER, tried=False)
    if not used and text(told, "library") == "gloo":
        used = "sockets (gloo has TCP alone)"
    return Measured(pair, snapshot.id, number(told, "gbytes_per_s"), used, snapshot.fabric_unused)


def _words(transports: Iterable[Transport]) -> str:
    known = [each for each in transports if each.connected or each.network is Network.NONE]
    return ", ".join(dict.fromkeys(f"{each.library} {each.words}" for each in known))


def slow_ones(found: Sequence[Measured]) -> dict[tuple[str, str], float]:
    """The pairs below 9 tenths of the median, with their share of it; of fewer than 3 results: none."""
    speeds = [each.gbytes_per_s for each in found if each.gbytes_per_s]
    if len(speeds) < 3:
        return {}
    median = statistics.median(speeds)
    return {
        each.pair: each.gbytes_per_s / median
        for each in found
        if each.gbytes_per_s and each.gbytes_per_s < GOOD_SHARE * median
    }
