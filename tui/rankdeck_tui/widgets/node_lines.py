"""The nodes of a run as lines: link, load, memory, GPUs, network. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rankdeck_runs.live import LinkState, LinkStatus, Sample
from rankdeck_runs.states import NodeStatus, RunSnapshot
from rankdeck_runs.values import integer, number, objects, text
from rankdeck_tui import stops, words
from rankdeck_tui.look import Look, draw, marks
from rankdeck_tui.look.draw import Part, Parts
from rankdeck_tui.widgets import network_words

STALE = 10.0
"""Seconds after which a node's values are marked as old: five samples have not come."""


def node_lines(
    snapshot: RunSnapshot,
    links: Mapping[str, LinkStatus],
    samples: Mapping[str, Sample],
    ages: Mapping[str, float],
    look: Look,
    now: float,
    width: int,
) -> list[Parts]:
    """All nodes, by node rank.

    Args:
        snapshot: the run.
        links: node -> its link; empty for a run that is not followed.
        samples: node -> its latest sample.
        ages: node -> seconds since that sample came.
        look: inks and glyphs.
        now: unix seconds.
        width: cells of a line.
    """
    lines: list[Parts] = []
    for node in snapshot.nodes:
        lines.append(_head(node, links.get(node.name), ages.get(node.name), look, now, width))
        if node.message:
            since = "" if node.awaited is None else f", {words.duration(now - node.awaited)}"
            lines.append([("  ", look.ink.text), (node.message + since, look.ink.warn)])
        sample = samples.get(node.name)
        if sample is not None and not node.state.is_terminal:
            lines += _sample(sample, ages.get(node.name, 0.0) > STALE, look, width)
        network = network_words.of_node(snapshot, node, look)
        if network:
            lines.append(network)
    return lines


def _head(
    node: NodeStatus, link: LinkStatus | None, age: float | None, look: Look, now: float, width: int
) -> Parts:
    ink = look.ink
    left: list[Part] = [
        (node.name, ink.strong),
        ("  ", ink.text),
        *marks.mark(node.state, look, letters=False),
    ]
    right: list[Part] = []
    if link is not None and link.state is LinkState.LOST:
        asks: Parts = [("login needs you (C)  ", ink.warn)] if link.needs_person else []
        right = [*asks, (f"link lost {words.age(now - link.since)}", ink.lost)]
    elif link is not None and link.state is LinkState.CONNECTING:
        right = [("connecting", ink.waiting)]
    elif age is not None and age > STALE and not node.state.is_terminal:
        right = [(f"no data since {words.age(age)}", ink.lost)]
    elif node.kill_at is not None and not node.state.is_terminal:
        right = [(stops.countdown(node.kill_at - now), ink.warn)]
    blank = max(1, width - draw.measure(left) - draw.measure(right) - 1)
    return [*left, (" " * blank, ink.text), *right]


def _sample(sample: Sample, stale: bool, look: Look, width: int) -> list[Parts]:
    ink = look.ink
    value = ink.lost if stale else ink.text
    full = ink.lost if stale else ink.busy
    bar_width = max(4, min(16, (width - 30) // 2))
    cpu, load = number(sample, "cpu"), number(sample, "load")
    used, total = number(sample, "mem_used_mib"), number(sample, "mem_total_mib")
    first: list[Part] = [
        ("  cpu  ", ink.dim),
        *draw.bar(_share(cpu, 100), bar_width, look.glyphs, full, ink.faint),
    ]
    first.append((f" {_percent(cpu)}", value))
    first += [(" mem ", ink.dim), *draw.bar(_share(used, total), bar_width, look.glyphs, full, ink.faint)]
    first.append((f" {words.memory(used)}/{words.memory(total)}", value))
    lines: list[Parts] = [first]
    lines += [_gpu(gpu, bar_width, value, full, look) for gpu in objects(sample, "gpus")]
    if load is not None:
        note = text(sample, "gpu_note")
        about = f"  load {load:.1f}" + (f"   {note}" if note and not objects(sample, "gpus") else "")
        lines.append([(about, ink.dim)])
    return lines


def _gpu(gpu: Mapping[str, Any], bar_width: int, value: Any, full: Any, look: Look) -> Parts:
    ink = look.ink
    util, power, temp = number(gpu, "util"), number(gpu, "power_w"), number(gpu, "temp_c")
    used, total = number(gpu, "mem_used_mib"), number(gpu, "mem_total_mib")
    parts: list[Part] = [(f"  gpu{integer(gpu, 'index')}".ljust(7), ink.dim)]
    parts += draw.bar(_share(util, 100), bar_width, look.glyphs, full, ink.faint)
    parts.append((f" {_percent(util)}", value))
    parts.append((f" {words.memory(used)}/{words.memory(total)}", value))
    parts.append(
        (f" {'-' if power is None else f'{power:.0f}'}W {'-' if temp is None else f'{temp:.0f}'}C", ink.dim)
    )
    return parts


def _share(value: float | None, whole: float | None) -> float | None:
    return None if value is None or not whole else value / whole


def _percent(value: float | None) -> str:
    return "   -" if value is None else f"{value:3.0f}%"
