"""The home screen's rows, made from records and saved files. Pure, but for `read_shelf`."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from rankdeck_profiles import frameworks, nodes, pools
from rankdeck_profiles.errors import RankdeckError
from rankdeck_profiles.model import Pool, Profile
from rankdeck_runs.states import NodeState, RunState
from rankdeck_runs.summary import RunSummary
from rankdeck_tui import words
from rankdeck_tui.logs.pattern import Pattern
from rankdeck_tui.look import Look, marks
from rankdeck_tui.look.draw import Part, Parts
from rankdeck_tui.widgets.table import Column, Row

if TYPE_CHECKING:
    from rankdeck_profiles.library import Broken, Library
    from rankdeck_runs.engine import Engine
    from rankdeck_runs.home import RunHome
    from rankdeck_runs.live import LiveRun

RUN_COLUMNS = (
    Column("State", 13),
    Column("Run", 30, grow=1),
    Column("Profile", 12, rank=3),
    Column("Framework", 10, rank=5),
    Column("Pool", 10, rank=4),
    Column("Ranks", 10),
    Column("Started", 8, rank=2),
    Column("Took", 8, right=True),
)
PROFILE_COLUMNS = (
    Column("Name", 16),
    Column("Framework", 10, rank=1),
    Column("Program", 14, grow=1, rank=3),
    Column("Pool", 8, rank=2),
)
POOL_COLUMNS = (
    Column("Name", 16),
    Column("Backend", 7, rank=1),
    Column("Nodes", 14, grow=1),
    Column("Slots", 5, rank=2, right=True),
)


@dataclass(slots=True)
class Shelf:
    """What the home screen knows."""

    runs: Sequence[RunSummary] = ()
    profiles: Sequence[Profile] = ()
    pools: Sequence[Pool] = ()
    broken: Sequence[Broken] = ()
    live: dict[str, LiveRun] = field(default_factory=dict)
    """Followed runs by id."""
    read: bool = False
    """False until the files were read once."""
    problem: str = ""
    """Why the records could not be read."""

    def broken_by_key(self, key: str) -> Broken | None:
        """The broken file of a row."""
        return next((entry for entry in self.broken if f"broken:{entry.kind}/{entry.name}" == key), None)


MOST_FOLLOWED = 8
"""Running runs that the home screen follows; the others show what was last known."""


def read_shelf(home: RunHome, library: Library, engine: Engine) -> Shelf:
    """Read everything, and follow the newest runs that go on (files: call it in a thread)."""
    problem = ""
    runs: Sequence[RunSummary] = ()
    try:
        runs = home.list()
    except OSError as error:
        problem = f"{error.filename or home.path}: {error.strerror}"
    live: dict[str, LiveRun] = {}
    for run in [run for run in runs if goes_on(run)][:MOST_FOLLOWED]:
        # A record too damaged to follow is still listed, with what its summary says.
        with contextlib.suppress(RankdeckError):
            live[run.id] = engine.attach(run.id)
    saved = library.contents()
    return Shelf(runs, saved.profiles, saved.pools, saved.broken, live, read=True, problem=problem)


def parts_of(key: str) -> tuple[str, str]:
    """Kind and name of a row's key, such as `run:20261128-...`."""
    kind, _, name = key.partition(":")
    return kind, name


def goes_on(run: RunSummary) -> bool:
    """Whether something may still happen in a run, or is still to be fetched."""
    state = state_of(run)
    return not state.is_terminal or (not run.complete and state is not RunState.UNKNOWN)


def has_ended(run: RunSummary) -> bool:
    """Whether nothing of a run is left to stop. An unknown state is no such evidence."""
    state = state_of(run)
    return state.is_terminal and state is not RunState.UNKNOWN


def state_of(run: RunSummary) -> RunState:
    """The state a summary tells."""
    return RunState(run.state) if run.state in list(RunState) else RunState.UNKNOWN


def keeper(text: str) -> Callable[[Row], bool]:
    """A test for rows that a typed filter keeps."""
    pattern = Pattern.parse(text)
    if pattern is None:
        return lambda row: True
    return lambda row: pattern.keeps(" ".join(piece for parts in row.cells for piece, _ in parts))


def run_row(run: RunSummary, shelf: Shelf, look: Look, now: float) -> Row:
    """One run; a followed one as it is right now."""
    ink = look.ink
    state = state_of(run)
    started, ended = _seconds(run.started), _seconds(run.ended)
    created = _seconds(run.created)
    live = shelf.live.get(run.id)
    if live is not None:
        snapshot = live.snapshot()
        state = snapshot.state
        started, ended = snapshot.timing.started, snapshot.timing.ended
    begin = started or created
    took = None if begin is None else (ended or (now if not state.is_terminal else None) or begin) - begin
    name: list[Part] = [(run.id, ink.text if state.is_terminal else ink.strong)]
    mark: Parts = marks.mark(state, look)
    if state is not RunState.LOST and (lost := _lost(live)):
        # The letter still tells the run's state; which nodes are lost stands in the lines below the tables.
        which = "node lost" if len(lost) == 1 else f"{len(lost)} lost"
        mark = [*marks.mark(state, look, word=False), (f" {which}", ink.lost)]
    ranks = f"{run.world_size} on {run.nodes}" if run.world_size else "-"
    return Row(
        f"run:{run.id}",
        (
            mark,
            name,
            [(run.profile or "-", ink.text)],
            [(run.framework or "-", ink.dim)],
            [(run.pool or "-", ink.dim)],
            [(ranks, ink.text)],
            [(_moment(begin, now), ink.dim)],
            [(words.duration(took) if ended or not state.is_terminal else "-", ink.text)],
        ),
    )


def profile_rows(shelf: Shelf, look: Look) -> list[Row]:
    """The profiles, and the files that are broken."""
    ink = look.ink
    rows = [
        Row(
            f"profile:{profile.name}",
            (
                [(profile.name, ink.text)],
                [(profile.framework, ink.dim)],
                [(program_of(profile), ink.text)],
                [(profile.pool or pools.LOCAL, ink.dim)],
            ),
        )
        for profile in shelf.profiles
    ]
    return rows + _broken_rows(shelf, "profiles", 4, look)


def pool_rows(shelf: Shelf, look: Look) -> list[Row]:
    """The pools, and the files that are broken."""
    ink = look.ink
    rows = []
    known: list[Pool] = list(shelf.pools)
    if shelf.read and all(pool.name != pools.LOCAL for pool in known):
        known.append(pools.local_pool())
    for pool in known:
        names = nodes_text(pool) if pool.source is not None else "this machine"
        rows.append(
            Row(
                f"pool:{pool.name}",
                (
                    [(pool.name, ink.text)],
                    [(str(pool.backend), ink.dim)],
                    [(f"{len(pool.nodes)}  ", ink.text), (names, ink.dim)],
                    [(words.slots(pool), ink.dim)],
                ),
            )
        )
    return rows + _broken_rows(shelf, "pools", 4, look)


def _broken_rows(shelf: Shelf, kind: str, columns: int, look: Look) -> list[Row]:
    ink = look.ink
    rows = []
    for entry in shelf.broken:
        if entry.kind == kind:
            # The path would fill the column; the detail line below has the whole message.
            short = entry.error.message.removeprefix(str(entry.path)).lstrip(":")
            where = f"line {short}" if short[:1].isdigit() else short
            mark: Parts = [(f"{look.glyphs.failed} {entry.name}", ink.bad)]
            rest: list[Parts] = [[("broken", ink.warn)], [(where, ink.warn)], [("", ink.text)]]
            rows.append(Row(f"broken:{kind}/{entry.name}", (mark, *rest[: columns - 1])))
    return rows


def nodes_text(pool: Pool) -> str:
    """A pool's nodes, folded: `gpu[001-004]`."""
    return nodes.folded(node.name for node in pool.nodes)


def program_of(profile: Profile) -> str:
    """What a profile runs, as a person would type it."""
    if profile.script is not None:
        words_ = [profile.script]
    elif profile.module is not None:
        words_ = ["-m", profile.module]
    else:
        words_ = list(profile.command)
    return shlex.join([*words_, *profile.args])


def summary(shelf: Shelf, look: Look, home: str, *, short: bool) -> list[Part]:
    """How many runs go on and failed, for the title."""
    ink = look.ink
    if not shelf.read:
        return [("reading" + look.glyphs.ellipsis, ink.dim)]
    if shelf.problem:
        return [(shelf.problem, ink.bad)]
    states = [
        shelf.live[run.id].snapshot().state if run.id in shelf.live else state_of(run) for run in shelf.runs
    ]
    parts: list[Part] = []
    for state in (RunState.RUNNING, RunState.STARTING, RunState.STOPPING, RunState.LOST, RunState.FAILED):
        count = states.count(state)
        if count:
            parts += [(f"{count} ", ink.text), *marks.mark(state, look, letters=False), ("   ", ink.text)]
    return parts if short else [*parts, (home, ink.faint)]


def detail(key: str, shelf: Shelf, look: Look, now: float) -> list[Parts]:
    """Two lines on the row with this key."""
    kind, name = parts_of(key)
    ink = look.ink
    if kind == "run":
        run = next((run for run in shelf.runs if run.id == name), None)
        return [] if run is None else _run_detail(run, shelf, look, now)
    if kind == "profile":
        profile = next((entry for entry in shelf.profiles if entry.name == name), None)
        if profile is None:
            return []
        each = "a rank per slot" if frameworks.one_a_slot(profile) else "one rank"
        if profile.procs_per_node:
            each = words.plural(profile.procs_per_node, "rank")
        counts = (
            f"{'all nodes' if profile.nodes is None else words.plural(profile.nodes, 'node')}, {each} on each"
        )
        if profile.process_count:
            counts = f"{words.plural(profile.process_count, 'rank')} in all"
        return [
            [(f"{profile.framework}  ", ink.dim), (program_of(profile), ink.text)],
            [(f"in {profile.workdir}   {counts}   {profile.source or ''}", ink.dim)],
        ]
    if kind == "pool":
        pool = next((entry for entry in shelf.pools if entry.name == name), None) or pools.local_pool()
        where = str(pool.source) if pool.source else "built in: what a profile without a pool runs on"
        return [[(f"{pool.backend}  ", ink.dim), (nodes_text(pool), ink.text)], [(where, ink.dim)]]
    broken = shelf.broken_by_key(key)
    if broken is None:
        return []
    return [[(broken.error.message, ink.bad)], [(broken.error.hint, ink.warn)]]


def _run_detail(run: RunSummary, shelf: Shelf, look: Look, now: float) -> list[Parts]:
    ink = look.ink
    cause = run.cause
    live = shelf.live.get(run.id)
    lost = _lost(live)
    if live is not None and (found := live.snapshot().cause):
        cause = found.message
    first: list[Part] = [(f"{run.framework} {run.profile} on {run.pool}", ink.dim)]
    if live is None and not state_of(run).is_terminal and run.updated:
        first.append((f"   last seen {words.age(now - run.updated)} ago", ink.warn))
    if run.disk_bytes is not None:
        first.append((f"   {words.size(run.disk_bytes)}", ink.dim))
    if run.lacks and live is None:
        first.append((f"   {run.lacks}", ink.warn))
    if lost:
        more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
        first.append((f"   can't be reached: {', '.join(lost[:3])}{more}", ink.lost))
    return [first, [(cause, ink.bad)] if cause else [("", ink.text)]]


def _lost(live: LiveRun | None) -> list[str]:
    """The nodes of a run that goes on which can't be reached."""
    return [node.name for node in live.snapshot().nodes if node.state is NodeState.LOST] if live else []


def no_runs(shelf: Shelf, look: Look, filter_text: str) -> list[Parts]:
    """What an empty list of runs says."""
    ink = look.ink
    if not shelf.read:
        return [[("reading" + look.glyphs.ellipsis, ink.dim)]]
    if filter_text and shelf.runs:
        return [
            [(f"No run with {filter_text!r}. ", ink.dim), ("/", ink.key), (" changes the filter.", ink.dim)]
        ]
    if not shelf.profiles:
        return [
            [("", ink.text)],
            [("No run yet.", ink.strong)],
            [("", ink.text)],
            [("Press ", ink.dim), ("n", ink.key), (" to describe what to run: a profile.", ink.dim)],
            [("It needs a script and a framework; this machine is the pool, unless you name one.", ink.dim)],
            [("", ink.text)],
            [("To see a real run first: leave with ", ink.dim), ("q", ink.key), (" and type ", ink.dim),
             ("rankdeck demo", ink.accent)],
        ]  # fmt: skip
    return [
        [("", ink.text)],
        [("No run yet.", ink.strong)],
        [("", ink.text)],
        [("Press ", ink.dim), ("n", ink.key), (" to compose one, or go to a profile with ", ink.dim),
         ("tab", ink.key), (" and press ", ink.dim), ("enter", ink.key), (".", ink.dim)],
        [("You see the exact commands and environment before anything starts.", ink.dim)],
    ]  # fmt: skip


def no_profiles(shelf: Shelf, look: Look, filter_text: str) -> list[Parts]:
    """What an empty list of profiles says."""
    ink = look.ink
    if not shelf.read:
        return [[("reading" + look.glyphs.ellipsis, ink.dim)]]
    if filter_text:
        return [[(f"No profile with {filter_text!r}.", ink.dim)]]
    return [[("No profile yet: ", ink.dim), ("n", ink.key), (" makes one.", ink.dim)]]


def no_pools(shelf: Shelf, look: Look, filter_text: str) -> list[Parts]:
    """What an empty list of pools says."""
    ink = look.ink
    if not shelf.read:
        return [[("reading" + look.glyphs.ellipsis, ink.dim)]]
    if filter_text:
        return [[(f"No pool with {filter_text!r}.", ink.dim)]]
    return [[("No pool yet: ", ink.dim), ("n", ink.key), (" makes one.", ink.dim)]]


def _seconds(text: str | None) -> float | None:
    """ISO 8601 as unix seconds; None for None and for what is no time."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def _moment(seconds: float | None, now: float) -> str:
    """A time of today as `14:02`, another day's as `28 Nov`."""
    if seconds is None:
        return "-"
    there, here = time.localtime(seconds), time.localtime(now)
    same_day = (there.tm_year, there.tm_yday) == (here.tm_year, here.tm_yday)
    return time.strftime("%H:%M" if same_day else "%d %b", there)
