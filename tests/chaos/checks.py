"""What must hold of a run once it is over, whatever befell it. Each check gives what is wrong, in words."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from chaos.trial import TERMINAL, Trial

GONE = ("kill", "power")
"""Faults after which a node has none of its processes any more."""
SILENT = ("cut", "cut long", "freeze", "freeze long")
"""Faults during which a node is not heard of."""
EVERY_BYTE = "every byte"


def violations(trial: Trial, dice: random.Random) -> list[str]:
    """All that is wrong with a run that has ended."""
    if trial.id is None:
        return [*_never_recorded(trial), *_commands(trial)]
    return [
        *_commands(trial),
        *_state(trial),
        *_ranks(trial),
        *_logs(trial),
        *_raw(trial, dice),
        *_left(trial),
    ]


def _commands(trial: Trial) -> Iterator[str]:
    for command in ("run", "stop"):
        if "Traceback (most recent call last)" in trial.all_said(command):
            yield f"rankdeck {command} broke down: {trial.said(command)}"


def _never_recorded(trial: Trial) -> Iterator[str]:
    excused = trial.was_hit("client", "session", "login disk", "full disk", *GONE, *SILENT)
    if not excused:
        yield f"the launch failed for no reason: {trial.said('run')}"
    if trial.alive():
        yield f"it was never recorded, and runs: {list(map(str, trial.alive()))}"


def _state(trial: Trial) -> Iterator[str]:
    state = trial.shown["state"]
    if state not in TERMINAL:
        yield f"it does not come to an end: {state}; {_story(trial)}"
        return
    if not trial.shown["complete"]:
        yield f"its record never was complete: {_story(trial)}"
    ends = [trial.end(rank) for rank in range(trial.shape.world)]
    well = all(end is not None and end[0] == 0 for end in ends)
    if state == "succeeded" and not well:
        yield f"succeeded, but ranks ended {ends}"
    own = all(end == (0, "own") for end in ends)
    if state != "succeeded" and own and not trial.asked_to_stop and not _unseen(trial):
        yield f"{state}, but every rank ended with 0 and nothing befell its node; {_story(trial)}"
    if state == "stopped" and not trial.asked_to_stop:
        yield f"stopped, and nobody asked for it; {_story(trial)}"
    if state == "unknown" and not _unseen(trial):
        yield f"unknown, and nothing befell it that would explain that; {_story(trial)}"
    if state == "failed":
        yield from _cause(trial, trial.shown["cause"])


def _cause(trial: Trial, cause: dict[str, Any] | None) -> Iterator[str]:
    if cause is None:
        yield f"failed, without a cause; {_story(trial)}"
        return
    rank, node = cause["rank"], cause["node"]
    if rank is not None:
        end = trial.end(rank)
        killed = trial.was_hit("rank", rank=rank)
        unseen = _unseen(trial, trial.shape.node_of(rank))
        if node != trial.shape.node_of(rank):
            yield f"the cause is rank {rank} on {node}, which is none of its; {_story(trial)}"
        if not killed and not unseen and (end is None or end[0] == 0):
            yield f"the cause is rank {rank}, which ended {end} and was not hit; {_story(trial)}"
        if end is not None and end[1] == "term" and not killed and not unseen and not _reason_to_end(trial):
            yield f"the cause is rank {rank}, which had been told to end; {_story(trial)}"
    elif not trial.was_hit("client", "full disk") and not _reached_badly(trial, node):
        yield f"the cause is {node} ({cause['message']}), which nothing befell; {_story(trial)}"


def _ranks(trial: Trial) -> Iterator[str]:
    for shown in trial.shown.get("ranks", ()):
        rank, state = shown["rank"], shown["state"]
        node, end, began = trial.shape.node_of(rank), trial.end(rank), trial.began(rank)
        how = f"{shown['exit_code']}, {shown['signal']}, {shown['why']!r}"
        told = f"rank {rank} on {node} is shown as {state} ({how})"
        itself = f"it began: {began}, ended: {end}; {_story(trial)}"
        killed, unseen = trial.was_hit("rank", rank=rank), _unseen(trial, node)
        if state == "succeeded" and (end is None or end[0] != 0):
            yield f"{told}; {itself}"
        if state == "failed" and not killed and not unseen and began and (end is None or end[0] == 0):
            yield f"{told}; {itself}"
        if end is not None and shown["exit_code"] not in (None, end[0]) and not killed:
            yield f"{told}; {itself}"
        told_to_end = state == "stopped" and _reason_to_end(trial)  # it ended by itself, after it was told to
        if end == (0, "own") and state != "succeeded" and not told_to_end and not killed and not unseen:
            yield f"{told}; {itself}"
        cut_short = not began and trial.was_hit("client")
        if state in ("unknown", "lost") and not unseen and not cut_short:
            yield f"{told}; {itself}"
        if state == "waiting" and began:
            yield f"{told}; {itself}"
        if state == "stopped" and not _reason_to_end(trial) and not unseen:
            yield f"{told}; {itself}"


def _logs(trial: Trial) -> Iterator[str]:
    if trial.record is None or not trial.shown.get("complete"):
        return
    notes = " ".join(trial.shown["notes"])
    for rank in range(trial.shape.world):
        if trial.refused(rank) and trial.shape.node_of(rank) not in notes:
            lost = trial.refused(rank)[:60]
            yield f"rank {rank}: the disk refused {lost!r}, and no note says so: {notes!r}"
        for stream in ("out", "err"):
            if trial.began(rank):
                place = trial.record / "logs" / f"rank-{rank:05d}.{stream}"
                recorded = place.read_bytes() if place.exists() else b""
                yield from _compared(trial, rank, stream, recorded, str(place))


def _raw(trial: Trial, dice: random.Random) -> Iterator[str]:
    """The same by the command, for one rank."""
    rank, stream = dice.randrange(trial.shape.world), dice.choice(("out", "err"))
    if not trial.began(rank) or not trial.shown.get("complete"):
        return
    done = trial.site.shell(
        "logs", trial.id or "", "--rank", str(rank), "--stream", stream, "--raw", status=None
    )
    raw = done.stdout.encode("utf-8", "surrogateescape")
    yield from _compared(trial, rank, stream, raw, f"logs --raw ({done.returncode}, {done.stderr[-300:]!r})")


def _compared(trial: Trial, rank: int, stream: str, found: bytes, where: str) -> Iterator[str]:
    copy = trial.copy(rank, stream)
    rest = found[len(copy) :]
    if found[: len(copy)] != copy:
        common = next(
            (n for n, (a, b) in enumerate(zip(found, copy, strict=False)) if a != b),
            min(len(found), len(copy)),
        )
        yield f"rank {rank} wrote {len(copy)} bytes of {stream}; {where}: {len(found)}, alike up to {common}"
    elif rest and (trial.end(rank) is not None or not _tail_of(rest, trial.under_way(rank, stream))):
        yield f"rank {rank} wrote {len(copy)} bytes of {stream}; {where} has {len(rest)} more: {rest[:80]!r}"


def _tail_of(rest: bytes, piece: bytes) -> bool:
    """Whether this may be what a rank had written of a piece and not yet noted."""
    return piece.endswith(rest) or piece.startswith(rest)


def _left(trial: Trial) -> Iterator[str]:
    if trial.shown["state"] in TERMINAL and (left := trial.alive()):
        yield f"called {trial.shown['state']}, and these run: {list(map(str, left))}"


def _unseen(trial: Trial, node: str | None = None) -> bool:
    """Whether something befell a node after which it can't be known how its ranks ended."""
    return trial.was_hit(*GONE, node=node) or (
        trial.was_hit("supervisor", node=node) and trial.was_hit("shim", node=node)
    )


def _reached_badly(trial: Trial, node: str) -> bool:
    """Whether a node, or the one that hears of all, was out of reach at some time."""
    head = trial.shape.nodes[0]
    kinds = (*GONE, *SILENT, "supervisor", "session", "full disk")
    return trial.was_hit(*kinds, node=node) or trial.was_hit(*GONE, *SILENT, "supervisor", node=head)


def _reason_to_end(trial: Trial) -> bool:
    """Whether ranks had a reason to be told to end."""
    cause = trial.shown["cause"] or {}
    return (
        trial.asked_to_stop
        or cause.get("kind") == "node"  # whether that is true is asked elsewhere
        or trial.shape.fail_rank >= 0
        or trial.was_hit("rank", "shim", "client", "supervisor", "full disk", *GONE, *SILENT)
    )


def _story(trial: Trial) -> str:
    nodes = [f"{node['name']} {node['state']} {node['message']!r}" for node in trial.shown.get("nodes", ())]
    ranks = [
        f"{r['rank']} {r['state']} {r['exit_code']} {r['signal']} {r['why']!r}"
        for r in trial.shown.get("ranks", ())
    ]
    return f"nodes {nodes}, ranks {ranks}, cause {trial.shown.get('cause')}, notes {trial.shown.get('notes')}"
