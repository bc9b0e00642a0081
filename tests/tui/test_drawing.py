"""Strips, layouts, marks and colours: the parts that everything on screen is made of."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from rankdeck_runs.live import LinkState
from rankdeck_runs.states import NodeState, RankState, RunState
from rankdeck_tui import words
from rankdeck_tui.logs.tiles import rectangles
from rankdeck_tui.look import Look, draw, marks
from rankdeck_tui.look.glyphs import ASCII, UNICODE, choose
from rankdeck_tui.look.ink import BASE, CURSOR, IDLE_CURSOR, contrast, in_colour, without_colour
from rankdeck_tui.widgets.grid_layout import lay_out

PLAIN = Style()
LOOKS = [Look(ink, glyphs) for ink in (in_colour(), without_colour()) for glyphs in (UNICODE, ASCII)]


@given(st.lists(st.text(max_size=20), max_size=5), st.integers(0, 40))
def test_a_line_is_exactly_as_wide_as_asked_and_harmless(texts: list[str], width: int) -> None:
    strip = draw.line([(text, PLAIN) for text in texts], width, PLAIN)
    assert sum(segment.cell_length for segment in strip) == width
    assert not any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 or c in "\u202e\u2028" for c in strip.text)


def test_the_last_look_lets_nothing_through() -> None:
    strip = draw.safe(Strip([Segment("a\x1b]0;t\x07b", PLAIN), Segment("c", PLAIN)], 9))
    assert strip.text.isprintable()
    assert sum(segment.cell_length for segment in strip) == 9


@given(st.integers(0, 60), st.integers(0, 20), st.text(max_size=30), st.text(max_size=30))
def test_a_frame_fills_its_rectangle(width: int, height: int, title: str, aside: str) -> None:
    body = [draw.line([("x" * 99, PLAIN)], max(0, width - 2), PLAIN)] * 3
    rows = draw.frame([(title, PLAIN)], body, width, height, UNICODE, PLAIN, PLAIN, aside=[(aside, PLAIN)])
    assert len(rows) == height
    assert all(sum(segment.cell_length for segment in row) == width for row in rows)


@pytest.mark.parametrize(
    ("share", "shown"), [(0.0, "────"), (0.5, "━━──"), (0.64, "━━╸─"), (1.0, "━━━━"), (7.0, "━━━━")]
)
def test_bars(share: float, shown: str) -> None:
    assert "".join(text for text, _ in draw.bar(share, 4, UNICODE, PLAIN, PLAIN)) == shown


def test_a_bar_without_a_value_is_no_bar() -> None:
    assert draw.bar(None, 4, UNICODE, PLAIN, PLAIN) == [("    ", PLAIN)]


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("states", [RunState, NodeState, RankState, LinkState])
def test_states_differ_by_shape_or_letter_and_have_a_word(look: Look, states: type[RankState]) -> None:
    seen = set()
    for state in states:
        seen.add((marks.shape(state, look), marks.letter(state)))
        assert draw.width_of(marks.shape(state, look)) == 1
        assert str(state) in marks.mark(state, look)[0][0]
    assert len(seen) == len(states)


def test_rank_shapes_differ_even_without_letters() -> None:
    for look in LOOKS:
        shapes = [marks.shape(state, look) for state in RankState]
        assert len(set(shapes)) == len(shapes)


def test_every_glyph_takes_one_cell() -> None:
    for glyphs in (UNICODE, ASCII):
        for name, value in glyphs._asdict().items():
            if isinstance(value, str):
                assert all(draw.width_of(character) == 1 for character in value), name
    assert all(str(value).isascii() for value in ASCII)


def test_text_can_be_read_on_every_background() -> None:
    quiet = {"faint", "border"}
    for name, style in in_colour().names().items():
        if name in quiet or style.color is None:
            continue
        own = style.bgcolor.name if style.bgcolor and style.bgcolor.name != BASE else None
        for ground in [own] if own else [BASE, CURSOR, IDLE_CURSOR]:
            assert contrast(style.color.name, ground) >= 4.5, (name, ground)


def test_without_colour_no_style_has_one() -> None:
    for name, style in without_colour().names().items():
        assert style.color is None, name
        assert style.bgcolor is None, name


@pytest.mark.parametrize(
    ("environ", "glyphs"),
    [
        ({"LANG": "C.UTF-8"}, UNICODE),
        ({"LANG": "de_DE.utf8", "TERM": "xterm"}, UNICODE),
        ({}, UNICODE),
        ({"LC_ALL": "C", "LANG": "C.UTF-8"}, ASCII),
        ({"LANG": "en_US.ISO-8859-1"}, ASCII),
        ({"LANG": "C.UTF-8", "TERM": "linux"}, ASCII),
        ({"LANG": "C", "RANKDECK_GLYPHS": "unicode"}, UNICODE),
    ],
)
def test_glyphs_suit_the_terminal(environ: dict[str, str], glyphs: object) -> None:
    assert choose(environ) is glyphs


@pytest.mark.parametrize(
    ("nodes", "per_node"), [(1, 1), (2, 2), (4, 8), (16, 8), (128, 8), (3, 100), (1024, 1)]
)
@pytest.mark.parametrize(("width", "height"), [(42, 8), (118, 30), (20, 3)])
def test_the_grid_places_every_rank_once(nodes: int, per_node: int, width: int, height: int) -> None:
    ranks = [range(n * per_node, (n + 1) * per_node) for n in range(nodes)]
    layout = lay_out([tuple(entry) for entry in ranks], [f"gpu{n:03}" for n in range(nodes)], width, height)
    places = {}
    for rank in range(nodes * per_node):
        place = layout.place(rank)
        assert place is not None
        assert layout.at(*place) == rank
        assert 0 <= place[1] < layout.rows
        places[place] = rank
    assert len(places) == nodes * per_node
    assert layout.place(nodes * per_node) is None
    drawn = [rank for y in range(layout.rows) for _, part in layout.row_of_blocks(y) for rank in part]
    assert sorted(drawn) == list(range(nodes * per_node))


def test_1024_ranks_fit_a_full_width_grid() -> None:
    layout = lay_out(
        [tuple(range(n * 8, n * 8 + 8)) for n in range(128)], [f"gpu{n:03}" for n in range(128)], 116, 34
    )
    assert layout.rows <= 34


@given(st.integers(1, 12), st.integers(20, 300), st.integers(6, 120))
def test_tiles_cover_the_board_without_overlap(count: int, width: int, height: int) -> None:
    tiles = rectangles(count, width, height)
    assert len(tiles) == count
    assert sum(tile.area for tile in tiles) == width * height
    assert not any(a.overlaps(b) for a, b in itertools.combinations(tiles, 2))


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(None, "-"), (-3, "0s"), (41, "41s"), (187, "3:07"), (11524, "3:12:04"), (187860, "2d 04:11")],
)
def test_durations(seconds: float | None, shown: str) -> None:
    assert words.duration(seconds) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (999, "999 B"), (1400, "1.4 kB"), (64_000, "64 kB"), (3_200_000_000, "3.2 GB")],
)
def test_sizes(count: int, shown: str) -> None:
    assert words.size(count) == shown


def test_a_noun_with_a_plural_of_its_own() -> None:
    assert words.plural(1, "left-over process", "left-over processes") == "1 left-over process"
    assert words.plural(2000, "left-over process", "left-over processes") == "2,000 left-over processes"
    assert words.plural(4, "rank") == "4 ranks"
