"""One command on 64 and on 256 nodes: how long until the first and the last answer, and what it costs.

Nodes are SSH servers on loopback addresses, all on this machine's cores: a server takes several times the
CPU of a good client for each login, so wall times say what client and servers take together, and the CPU of
the client is what counts where each node is a machine of its own.

- `rankdeck`: logs in by the code that every backend connection comes from, and runs `echo up`
- `rankdeck, agent`: what it really does: starts its agent on each node, an interpreter there
- the others: the same command as they come, and with the key exchange of older OpenSSH forced (`curve`)
- connected: the same over connections that are open; the others' are ControlMasters
- narrow: 64 logins at once through one server with OpenSSH's default MaxStartups, as nodes of one address
  and as a jump host in front of all

Times of rankdeck and of the library parallel-ssh are without the start of their Python, as within a program
that runs; the others' are whole.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import measure
from harness import fanout_peers, node
from harness import farm as farms
from harness.fanout_peers import CURVE, PEERS, Took

SIZES = (64, 256)
NARROW = 64
"""Logins at once through one server."""
CLUSH_LIMIT = 0.25
LEVEL = 1.1
"""Level with the best of the others: medians of the same variant differ by a tenth from run to run."""
CPU_LIMIT_MS = 6.0
OPEN_LIMIT = 0.3
CLIENT = Path(__file__).parent / "harness" / "fanout_client.py"
OURS, AGENT, CLUSH, LIBRARY = "rankdeck", "rankdeck, agent", "clush", "parallel-ssh library"


@dataclass(slots=True)
class Kind:
    """Fan-outs of one kind: variants that take turns."""

    title: str
    nodes: int
    took: dict[str, list[Took]] = field(default_factory=dict)
    refused: dict[str, list[int]] = field(default_factory=dict)
    """Connections that the narrow server has dropped."""

    def add(self, name: str, took: Took, refused: int = 0) -> None:
        """Note one fan-out."""
        self.took.setdefault(name, []).append(took)
        self.refused.setdefault(name, []).append(refused)

    def ratio(self, ours: str, theirs: str) -> float:
        """Last answer to last answer, round by round."""
        return measure.pair_ratio([t.last for t in self.took[ours]], [t.last for t in self.took[theirs]])

    def cpu_ms(self, name: str) -> float:
        """Client CPU for each node."""
        return statistics.median(took.cpu for took in self.took[name]) / self.nodes * 1e3

    def best_peer(self) -> str | None:
        """Who of the others had all answers first; None: there are none."""
        whole = {name: took for name, took in self.took.items() if name not in (OURS, AGENT)}
        whole = {n: took for n, took in whole.items() if all(len(t.seconds) == self.nodes for t in took)}
        return min(whole, key=lambda name: statistics.median(t.last for t in whole[name]), default=None)


def by_script(command: Sequence[str], names: Sequence[str], config: Path) -> list[Took]:
    """What one of our own client scripts tells."""
    environment = os.environ | {"RANKDECK_SSH_CONFIG": str(config)}
    done = subprocess.run(
        [*command, *names], check=True, capture_output=True, text=True, env=environment, timeout=600
    )
    return [Took(**part) for part in json.loads(done.stdout)]


def ours(what: str, names: Sequence[str], config: Path) -> list[Took]:
    """What rankdeck takes, in two parts: from no connection, and again."""
    return by_script([sys.executable, str(CLIENT), what], names, config)


def cold(over: farms.Farm, count: int, rounds: int) -> Kind:
    """From no connection."""
    made = Kind("cold", count)
    names = over.names[:count]
    variants = _of_ours(made, names, over.direct, part=0)
    for peer in _installed():
        for name, options in ((peer.name, ()), (f"{peer.name}, curve", CURVE)):
            variants[name] = partial(_note_peer, made, name, peer, over.direct, names, options)
    if fanout_peers.library_is_there():
        command = fanout_peers.library_command(sys.executable, over)
        variants[LIBRARY] = lambda: made.add(LIBRARY, by_script(command, names, over.direct)[0])
    _take_turns(f"{count} nodes", variants, rounds)
    return made


def connected(over: farms.Farm, count: int, rounds: int) -> Kind:
    """Over connections that are open: the others' are ControlMasters, made before."""
    made = Kind("connected", count)
    names = over.names[:count]
    variants = _of_ours(made, names, over.direct, part=1)
    for peer in _installed():
        variants[peer.name] = partial(_note_peer, made, peer.name, peer, over.kept, names, ())
    fanout_peers.XARGS.run(over.kept, names, CURVE)
    _take_turns(f"{count} nodes, connected", variants, rounds)
    return made


def narrow(over: farms.Farm, way: str, config: Path, count: int, rounds: int) -> Kind:
    """Through one server that takes ten unfinished logins."""
    made = Kind(way, count)
    names = over.names[:count]

    def counted(name: str, run: Callable[[], Took]) -> None:
        before = over.dropped()
        took = run()
        made.add(name, took, over.dropped() - before)

    variants: dict[str, Callable[[], None]] = {
        OURS: partial(counted, OURS, lambda: ours("commands", names, config)[0]),
        AGENT: partial(counted, AGENT, lambda: ours("agents", names, config)[0]),
    }
    for peer in _installed():
        variants[peer.name] = partial(counted, peer.name, partial(peer.run, config, names))
    _take_turns(f"{count} nodes, {way}", variants, rounds)
    return made


def _of_ours(made: Kind, names: Sequence[str], config: Path, part: int) -> dict[str, Callable[[], None]]:
    return {
        name: lambda name=name, what=what: made.add(name, ours(what, names, config)[part])
        for name, what in ((OURS, "commands"), (AGENT, "agents"))
    }


def _installed() -> list[fanout_peers.Peer]:
    return [peer for peer in PEERS if peer.there()]


def _note_peer(
    made: Kind, name: str, peer: fanout_peers.Peer, config: Path, names: Sequence[str], options: Sequence[str]
) -> None:
    made.add(name, peer.run(config, names, options))


def _take_turns(what: str, variants: dict[str, Callable[[], None]], rounds: int) -> None:
    for number in range(rounds):
        measure.say(f"{what}: round {number + 1} of {rounds}")
        measure.interleave(1, variants)


def report(kinds: Sequence[Kind]) -> measure.Report:
    """The table, the figures, and the goals."""
    columns = ("", "nodes", "first s", "last s", "to clush", "client CPU ms/node", "answers", "refused")
    made = measure.Report("SSH fan-out", columns)
    for kind in kinds:
        for name in sorted(kind.took, key=lambda name: statistics.median(t.last for t in kind.took[name])):
            took = kind.took[name]
            first, last = (statistics.median(getattr(t, at) for t in took) for at in ("first", "last"))
            to_clush = f"{kind.ratio(name, CLUSH):.2f}" if CLUSH in kind.took else "-"
            answers = min(len(t.seconds) for t in took)
            refused = max(kind.refused[name])
            cells = (f"{first:.2f}", f"{last:.2f}", to_clush, f"{kind.cpu_ms(name):.1f}", str(answers))
            made.rows.append((f"{kind.title}: {name}", str(kind.nodes), *cells, str(refused)))
            made.figures[f"{kind.title} {kind.nodes} {name}"] = {
                "seconds": [t.seconds for t in took],
                "cpu": [t.cpu for t in took],
                "refused": kind.refused[name],
                "problems": [t.problems for t in took],
            }
        made.bars += bars(kind)
    made.notes += _notes()
    return made


def bars(kind: Kind) -> list[measure.Bar]:
    """The goals that this kind of fan-out has."""
    found = []
    where = f"{kind.nodes} nodes {kind.title}"
    unanswered = sum(kind.nodes - len(took.seconds) for took in kind.took[OURS] + kind.took[AGENT])
    found.append(measure.Bar(f"{where}: nodes without an answer", unanswered, 0))
    if kind.title == "cold":
        if CLUSH in kind.took:
            found.append(measure.Bar(f"{where}: to clush", kind.ratio(OURS, CLUSH), CLUSH_LIMIT))
        if best := kind.best_peer():
            found.append(measure.Bar(f"{where}: to the best, {best}", kind.ratio(OURS, best), LEVEL))
        found.append(measure.Bar(f"{where}: client CPU of a node", kind.cpu_ms(OURS), CPU_LIMIT_MS, " ms"))
    elif kind.title == "connected":
        if CLUSH in kind.took:
            found.append(measure.Bar(f"{where}: to clush", kind.ratio(OURS, CLUSH), OPEN_LIMIT))
    else:
        refused = sum(kind.refused[OURS]) + sum(kind.refused[AGENT])
        found.append(measure.Bar(f"{where}: refused connections", refused, 0))
    return found


def _notes() -> list[str]:
    missing = [f"{peer.name} (Debian: {peer.package})" for peer in PEERS if not peer.there()]
    if not fanout_peers.library_is_there():
        missing.append(f"{LIBRARY} (PyPI: parallel-ssh)")
    notes = [f"left out, not installed: {', '.join(missing)}"] if missing else []
    notes.append(f"narrow: MaxStartups {farms.NARROW}; refused is the worst round's")
    return notes


def main() -> int:
    options = measure.arguments(__doc__, rounds=3, quick=1)
    sizes = (16,) if options.quick else SIZES
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    kinds = []
    with node.scratch() as folder, farms.serve(folder, max(*sizes, NARROW)) as over:
        for count in sizes:
            rounds = max(1, options.rounds * SIZES[0] // count) if count > SIZES[0] else options.rounds
            kinds += [cold(over, count, rounds), connected(over, count, rounds)]
        for way, config in (("at one address", over.one), ("behind a bastion", over.bastion)):
            kinds.append(narrow(over, way, config, NARROW, options.rounds))
    return report(kinds).finish(as_json=options.as_json)


if __name__ == "__main__":
    sys.exit(main())
