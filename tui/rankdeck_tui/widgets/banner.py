"""A box at the top of a run's dashboard: why it failed, that it is done, or that it uses a slow network."""

from __future__ import annotations

from rich.style import Style
from textual.strip import Strip

from rankdeck_runs.early import early
from rankdeck_runs.states import RunSnapshot, RunState
from rankdeck_tui import causes, words
from rankdeck_tui.look import Look, draw, marks
from rankdeck_tui.look.draw import Part, Parts
from rankdeck_tui.widgets.painted import Painted

WHY_UNUSED = "It goes on, slower. `rankdeck check PROFILE` tells why: ofed.uverbs, os.memlock."


def banner_lines(snapshot: RunSnapshot, look: Look, *, rows: int, now: float) -> tuple[Parts, list[Parts]]:
    """Title and lines of the box; no lines and no title where there is nothing of the kind to say.

    Args:
        snapshot: the run.
        look: inks and glyphs.
        rows: at most this many lines.
        now: unix seconds.
    """
    ink = look.ink
    cause = snapshot.cause
    timing = snapshot.timing
    took = None if timing.started is None or timing.ended is None else timing.ended - timing.started
    if cause is not None:
        where = causes.where(cause)
        verb = "failed" if snapshot.state is RunState.FAILED else "failed first"
        title: Parts = [(f" {look.glyphs.failed} {where} {verb} ", ink.danger_title)]
        lines: list[Parts] = [[(cause.message, ink.bad)]]
        if cause.said:
            at = f" ({cause.proofs[0].place})" if cause.proofs and cause.proofs[0].place else ""
            lines.append([(causes.why(cause), ink.text), (at, ink.dim)])
        lines += [[(text, ink.dim)] for text in causes.followers(cause)]
        lines += [[(text, ink.text)] for text in causes.evidence(cause, rows - len(lines))]
        return title, lines[: max(1, rows)]
    network: list[Parts] = [[(snapshot.fabric_unused, ink.bad)]] if snapshot.fabric_unused else []
    if not snapshot.state.is_terminal and (done := early(snapshot, now)):
        title = [(f" {look.glyphs.warning} finished early ", ink.danger_title)]
        return title, [[(done, ink.warn)], *network][:rows]
    if not snapshot.state.is_terminal:
        title = [(f" {look.glyphs.warning} network ", ink.danger_title)] if network else []
        return title, [*network, [(WHY_UNUSED, ink.dim)]][:rows] if network else []
    title = [(" ", ink.text), *marks.mark(snapshot.state, look, letters=False), (" ", ink.text)]
    said: list[Part] = [(f"{words.plural(snapshot.world_size, 'rank')} ended", ink.text)]
    if took is not None:
        said.append((f" after {words.duration(took)}", ink.text))
    rest = (
        "everything is in the record"
        if snapshot.complete
        else "fetching the rest of the logs" + look.glyphs.ellipsis
    )
    said.append((f"; {rest}.", ink.dim if snapshot.complete else ink.warn))
    if snapshot.swept:
        swept = words.plural(len(snapshot.swept), "left-over process", "left-over processes")
        said.append((f" {swept} ended.", ink.warn))
    return title, [said, *network]


class Banner(Painted):
    """The box. Its height follows what it says; nothing to say, nothing there."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._title: Parts = ()
        self._lines: tuple[Parts, ...] = ()
        self._border = Style()

    def show(self, snapshot: RunSnapshot, *, rows: int, now: float) -> None:
        """Say how it ended, if it has."""
        title, lines = banner_lines(snapshot, self.look, rows=rows, now=now)
        new = (tuple(title), tuple(tuple(parts) for parts in lines))
        border = (
            self.look.ink.bad
            if snapshot.cause or snapshot.fabric_unused
            else marks.style(snapshot.state, self.look)
        )
        if (*new, border) == (self._title, self._lines, self._border):
            return
        self._title, self._lines, self._border = (*new, border)
        self.set_class(bool(lines), "-shown")
        self.styles.height = len(lines) + 2
        self.repaint()

    def paint(self, width: int, height: int) -> list[Strip]:
        """The box."""
        look = self.look
        ink = look.ink
        body = [
            draw.line([(" ", ink.text), *parts], width - 2, ink.text, ellipsis=look.glyphs.ellipsis)
            for parts in self._lines
        ]
        return draw.frame(self._title, body, width, height, look.glyphs, self._border, ink.text)
