"""The base of every widget here: it paints its own cells, once per change, without a style sheet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.style import Style
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from rankdeck_tui.look import Look, draw


class Painted(Widget):
    """A widget that paints itself.

    Subclasses override `paint`. Textual's own path (styles cache, `rich_style`, line filters) costs several
    times what the painting does, so `render_lines` is overridden and hands out the painted strips. What is
    painted stays until `repaint` is called, the size changes or the focus moves.
    """

    ALLOW_SELECT = False
    DEFAULT_CLASSES: ClassVar[str] = "painted"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._strips: list[Strip] | None = None
        self._painted_size = Size(0, 0)

    @property
    def look(self) -> Look:
        """The app's look."""
        look = getattr(self.app, "look", None)
        if not isinstance(look, Look):
            raise TypeError("a painted widget needs an app with a `look`")
        return look

    def paint(self, width: int, height: int) -> Sequence[Strip]:
        """Paint everything.

        Args:
            width: cells of the widget.
            height: rows of the widget.

        Returns:
            Strips of `width` cells; missing rows are left blank.
        """
        raise NotImplementedError

    def repaint(self) -> None:
        """Forget what was painted and ask for a new picture."""
        self._strips = None
        self.refresh()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Hand out painted rows.

        Args:
            crop: the part of the widget that is asked for.
        """
        size = self.size
        if self._strips is None or self._painted_size != size:
            strips = [draw.safe(strip) for strip in self.paint(size.width, size.height)][: size.height]
            if len(strips) < size.height:
                strips += [Strip.blank(size.width, self.look.ink.text)] * (size.height - len(strips))
            self._strips, self._painted_size = strips, size
        rows = self._strips[crop.y : crop.bottom]
        if crop.x or crop.right < size.width:
            rows = [strip.crop(crop.x, crop.right) for strip in rows]
        if len(rows) < crop.height:
            rows = rows + [Strip.blank(crop.width, self.look.ink.text)] * (crop.height - len(rows))
        return rows

    def render_line(self, y: int) -> Strip:
        """One painted row (Textual asks for single rows in a few places, such as taking pictures)."""
        return self.render_lines(Region(0, y, self.size.width, 1))[0]

    def notify_style_update(self) -> None:
        """Textual says that styles changed."""
        super().notify_style_update()
        self._strips = None

    def on_focus(self) -> None:
        """The border shows the focus."""
        self.repaint()

    def on_blur(self) -> None:
        """The border shows the focus."""
        self.repaint()

    def on_resize(self) -> None:
        """A new size is a new picture."""
        self.repaint()


class Pane(Painted):
    """A painted widget with a border, a title and something at the right of its title."""

    def title_parts(self) -> draw.Parts:
        """What the top border says."""
        return ()

    def aside_parts(self) -> draw.Parts:
        """What the top border says at its right end."""
        return ()

    def thumb(self, height: int) -> tuple[int, int] | None:
        """Where the scroll thumb stands on a track of `height` rows."""
        return None

    def body(self, width: int, height: int) -> Sequence[Strip]:
        """What is inside the border."""
        raise NotImplementedError

    def title_style(self) -> Style:
        """The title's style, by focus."""
        ink = self.look.ink
        return ink.title_focus if self.has_focus else ink.title

    def paint(self, width: int, height: int) -> Sequence[Strip]:
        """Border and body."""
        ink = self.look.ink
        border = ink.border_focus if self.has_focus else ink.border
        body = self.body(max(0, width - 2), max(0, height - 2))
        return draw.frame(
            self.title_parts(),
            body,
            width,
            height,
            self.look.glyphs,
            border,
            ink.text,
            aside=self.aside_parts(),
            thumb=self.thumb(max(0, height - 2)),
            thumb_style=ink.accent if self.has_focus else ink.dim,
        )
