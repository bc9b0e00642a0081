"""What part of a log is in view: it follows the end, or stays at a place, which is a byte offset."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from textual.strip import Strip

from rankdeck_runs.logs import Line
from rankdeck_tui.logs.headed import HeadedLine, head_of
from rankdeck_tui.logs.paint import paint_line
from rankdeck_tui.logs.pattern import Pattern
from rankdeck_tui.logs.source import Behind, LineSource, Log, find
from rankdeck_tui.look import Look

CACHED_LINES: Final = 400
SHARE_ABOVE_HIT: Final = 1 / 3
"""Of the view, above a search's hit: what follows it is read on."""
SHARE_ABOVE_SHOWN: Final = 2 / 3
"""Of the view, above a line that is shown as a proof: a traceback stands above the error that it ends in."""
_SEARCHES = ThreadPoolExecutor(max_workers=2, thread_name_prefix="log search")


class LogView:
    """One log in one rectangle. Only what is in view is ever read, so a log's size does not matter.

    The place is the offset of the first line in view, and how many of its wrapped rows are above the view.
    """

    def __init__(self, log: Log) -> None:
        self.log = log
        self.source: LineSource = log.source(None)
        self.follow = True
        self.wrap = False
        self.left = 0
        """Cells scrolled to the right; unused while wrapping."""
        self.query: Pattern | None = None
        self.hit: Line | None = None
        """Where the search stands."""
        self.no_hit = ""
        """Why the last search went nowhere; shown until the next key."""
        self.behind: Behind = log.behind()
        """Lines that came since following was left."""
        self._top = 0
        self._skip = 0
        self._above: float | None = None
        """The share of the view that is to stand above the line at its top, until it is painted: only then is
        its height known."""
        self._width = 1
        self._height = 1
        self._seen: tuple[int, int] | None = None
        self._cache: dict[tuple[int, int, bytes], Strip] = {}
        self._search: Future[Line | None] | None = None
        self._give_up = threading.Event()
        self._backwards = False

    # What the widget asks on its timer and when it paints.

    def tick(self) -> bool:
        """Look for new bytes and finished searches; True if the picture has changed."""
        changed = self._take_hit()
        seen = (self.source.version, self.source.size)
        if seen != self._seen:
            changed = (
                changed or self.follow or self._seen is None or self._shows_end() or self.filter is not None
            )
            self._seen = seen
        if not self.follow:
            changed = self.behind.tick() or changed
        return changed

    def rows(self, width: int, height: int, look: Look) -> list[Strip]:
        """The rows in view.

        Args:
            width: cells of a row.
            height: how many rows.
            look: inks and glyphs.

        Returns:
            At most `height` strips of `width` cells.
        """
        self._width, self._height = max(1, width), max(1, height)
        self._settle(look)
        return self._last_rows(look) if self.follow else self._rows_here(look)

    @property
    def filter(self) -> Pattern | None:
        """What the lines are filtered by."""
        return self.source.pattern

    @property
    def place(self) -> float:
        """Where the view is, 0 (the beginning) to 1 (the end)."""
        return 1.0 if self.follow else self.source.share_before(self._top)

    @property
    def ends_in_view(self) -> bool:
        """Whether the last line is in view."""
        return self.follow or self._end_of_view() >= self.source.size

    @property
    def all_in_view(self) -> bool:
        """Whether nothing is above or below what is in view."""
        return self._top == 0 and self._skip == 0 and self.ends_in_view

    @property
    def searching(self) -> bool:
        """Whether a search is under way."""
        return self._search is not None

    # What keys ask for.

    def scroll(self, rows: int, look: Look) -> None:
        """Move by rows: up leaves following, down past the last row takes it up again."""
        self._settle(look)
        if rows < 0:
            self.pause()
            self._up(-rows, look)
        elif rows > 0 and not self.follow:
            self._down(rows, look)

    def scroll_sideways(self, cells: int) -> None:
        """Move to the right or left, where lines are not wrapped."""
        if not self.wrap:
            self.left = max(0, self.left + cells)

    def to_start(self) -> None:
        """Show the first line."""
        self.pause()
        self._top = self._skip = 0
        self._above = None

    def to_end(self) -> None:
        """Follow."""
        self.follow = True
        self.hit = None
        self.no_hit = ""

    def pause(self) -> None:
        """Stay where the view is."""
        if self.follow:
            self.follow = False
            self.behind.start(self.source.size)

    def toggle_wrap(self) -> None:
        """Wrap long lines, or cut them."""
        self.wrap = not self.wrap
        self.left = self._skip = 0

    def show_line(self, offset: int) -> None:
        """Go to the line that begins at a byte offset, and mark it: unfiltered, what led to it in view."""
        self.set_filter(None)
        self.cancel_search()
        lines = self.source.after(offset, 1)
        if lines:
            self._go_to(lines[0], SHARE_ABOVE_SHOWN)

    def set_filter(self, pattern: Pattern | None) -> None:
        """Show only the lines that the pattern keeps; None: all."""
        if self.source.pattern == pattern:
            return
        self.source.close()
        self.source = self.log.source(pattern)
        self._skip = 0
        self._forget()

    def set_query(self, pattern: Pattern | None) -> None:
        """Mark what the pattern hits."""
        if pattern != self.query:
            self.query = pattern
            self.hit = None
            self._forget()

    def search(self, *, backwards: bool) -> None:
        """Go to the next hit; `tick` takes the answer up when it has been found."""
        if self.query is None:
            return
        self.cancel_search()
        self.no_hit = ""
        if self.hit is not None:
            start = self.hit.offset if backwards else self.hit.end
        elif backwards:
            # The first search looks back from what is in view: the newest hit is the one that is wanted.
            start = self.source.size if self.follow else self._end_of_view()
        else:
            start = self._top
        give_up = self._give_up = threading.Event()
        self._backwards = backwards
        self._search = _SEARCHES.submit(
            find, self.source, self.query, start, backwards=backwards, give_up=give_up
        )

    def cancel_search(self) -> None:
        """Give up a search that is under way."""
        self._give_up.set()
        self._search = None

    def close(self) -> None:
        """End threads."""
        self.cancel_search()
        self.source.close()
        self.log.close()

    # How the place is kept.

    def _forget(self) -> None:
        self._cache.clear()
        self._seen = None

    def _take_hit(self) -> bool:
        if self._search is None or not self._search.done():
            return False
        hit = self._search.result()
        self._search = None
        if hit is None:
            side = "above" if self._backwards else "below"
            self.no_hit = f"no {'more hits' if self.hit else 'hit'} {side}"
            return True
        self._go_to(hit, SHARE_ABOVE_HIT)
        return True

    def _go_to(self, line: Line, above: float) -> None:
        self.hit = line
        self.pause()
        self._cache.clear()
        self._top, self._skip, self._above = line.offset, 0, above

    def _settle(self, look: Look) -> None:
        """Put the line that was gone to where it should stand; no row stays blank if lines are above."""
        if self._above is None:
            return
        above, self._above = self._above, None
        self._up(int(self._height * above), look)
        if blank := self._height - len(self._rows_here(look)):
            self._up(blank, look)

    def _end_of_view(self) -> int:
        lines = self.source.after(self._top, self._height)
        return lines[-1].end if lines else self.source.size

    def _shows_end(self) -> bool:
        """Whether new lines would come into view although it does not follow."""
        return len(self.source.after(self._top, self._height)) < self._height

    def _strip(self, line: Line, look: Look) -> Strip:
        # A folded line's words change while it stays where it is: more ranks say it.
        key = (line.offset, line.end, line.data if isinstance(line, HeadedLine) else b"")
        strip = self._cache.get(key)
        if strip is None:
            if len(self._cache) > CACHED_LINES:
                self._cache.clear()
            current = self.hit is not None and self.hit.offset == line.offset
            strip = self._cache[key] = paint_line(line, look, self.query, current=current)
        return strip

    def _wrapped(self, line: Line, look: Look) -> list[Strip]:
        """The line's rows, each exactly as wide as the view; what stands before it stays in view."""
        head = head_of(line, look)
        if head is None:
            return self._body(line, look, self._width)
        room = max(1, self._width - head.cell_length)
        first, *more = self._body(line, look, room)
        blank = Strip.blank(head.cell_length, look.ink.text)
        rows = [Strip.join([head, first]), *(Strip.join([blank, row]) for row in more)]
        return [row.adjust_cell_length(self._width, look.ink.text) for row in rows]

    def _body(self, line: Line, look: Look, width: int) -> list[Strip]:
        strip = self._strip(line, look)
        fill = look.ink.text
        if not self.wrap:
            return [strip.crop_extend(self.left, self.left + width, fill)]
        length = strip.cell_length
        if length <= width:
            return [strip.extend_cell_length(width, fill)]
        cuts = [*range(width, length, width), length]
        return [piece.adjust_cell_length(width, fill) for piece in strip.divide(cuts)]

    def _last_rows(self, look: Look) -> list[Strip]:
        rows: list[Strip] = []
        self._top, self._skip = 0, 0
        for line in reversed(self.source.before(self.source.size, self._height)):
            wrapped = self._wrapped(line, look)
            rows[:0] = wrapped
            self._top = line.offset
            if len(rows) >= self._height:
                self._skip = len(rows) - self._height
                break
        return rows[-self._height :]

    def _rows_here(self, look: Look) -> list[Strip]:
        rows: list[Strip] = []
        skip = self._skip
        for line in self.source.after(self._top, self._height + 1):
            rows += self._wrapped(line, look)
            if len(rows) - skip >= self._height:
                break
        return rows[skip : skip + self._height]

    def _up(self, count: int, look: Look) -> None:
        while count > 0:
            step = min(self._skip, count)
            self._skip -= step
            count -= step
            if count > 0:
                lines = self.source.before(self._top, min(count, self._height))
                if not lines:
                    return
                for line in reversed(lines):
                    self._top = line.offset
                    rows = len(self._wrapped(line, look))
                    if rows >= count:
                        self._skip = rows - count
                        return
                    count -= rows

    def _down(self, count: int, look: Look) -> None:
        lines = self.source.after(self._top, self._height + count + 1)
        heights = [len(self._wrapped(line, look)) for line in lines] if self.wrap else [1] * len(lines)
        left = sum(heights) - self._skip
        if left - count <= self._height and (not lines or not self.source.after(lines[-1].end, 1)):
            self.to_end()
            return
        skip = self._skip + count
        for line, height in zip(lines, heights, strict=True):
            if skip < height:
                self._top, self._skip = line.offset, skip
                return
            skip -= height
