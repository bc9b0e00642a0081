"""Which network a run's ranks use, in words, beside the one their nodes have. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rankdeck_profiles.nodes import folded
from rankdeck_runs.states import NodeStatus, RankStatus, RunSnapshot
from rankdeck_runs.transport import Network, Transport
from rankdeck_tui import words
from rankdeck_tui.look import Look
from rankdeck_tui.look.draw import Part, Parts


def telling(transports: Iterable[Transport]) -> Transport | None:
    """The one that carries the data: NCCL's before UCX's; Gloo's where there is no other."""
    by_library = {each.library: each for each in transports}
    return next((by_library[library] for library in ("NCCL", "UCX", "Gloo") if library in by_library), None)


def of_rank(rank: RankStatus, look: Look) -> Parts:
    """`InfiniBand mlx5_[0-7], GPU direct`; nothing where its log says nothing."""
    found = telling(rank.transports)
    return [(found.words, look.ink.text)] if found is not None else []


def of_run(snapshot: RunSnapshot, look: Look) -> Parts:
    """`InfiniBand, GPU direct`; `sockets (2 ranks)` beside a fabric; nothing as long as nobody has said."""
    ink = look.ink
    counts = Counter(_short(found) for found in _told(snapshot.ranks) if found.network is not Network.NONE)
    slow = counts[str(Network.SOCKETS)]
    if snapshot.fabric_unused and slow:
        return [(f"sockets ({words.plural(slow, 'rank')})", ink.bad)]
    style = ink.good if snapshot.fabric is not None else ink.dim
    return [(", ".join(text for text, _ in counts.most_common()), style)] if counts else []


def of_node(snapshot: RunSnapshot, node: NodeStatus, look: Look) -> Parts:
    """A node's line: what its ranks use; what it has, as long as none has said, or where that is unused."""
    ink = look.ink
    found = _told(snapshot.ranks[rank] for rank in node.ranks)
    ports = snapshot.fabric.ports.get(node.name, ()) if snapshot.fabric is not None else ()
    has = (
        f"{snapshot.fabric.kind} {folded(port.partition(':')[0] for port in ports)}"
        if snapshot.fabric
        else ""
    )
    head: Part = ("  net  ", ink.dim)
    if not found:
        return [head, (has, ink.text), (", if libraries take it", ink.dim)] if ports else []
    used = Counter(each.words for each in found).most_common()
    said = used[0][0] if len(used) == 1 else ", ".join(f"{text} ({count})" for text, count in used)
    sockets = any(each.network is Network.SOCKETS and each.library != "Gloo" for each in found)
    if ports and sockets:
        return [head, (said, ink.bad), (f"; {has} is not used", ink.warn)]
    return [head, (said, ink.text)]


def _told(ranks: Iterable[RankStatus]) -> list[Transport]:
    found = (telling(rank.transports) for rank in ranks)
    return [each for each in found if each is not None]


def _short(transport: Transport) -> str:
    if transport.network is Network.PLUGIN:
        return transport.name
    direct = ", GPU direct" if transport.gpu_direct and transport.network is not Network.SOCKETS else ""
    return f"{transport.network}{direct}"
