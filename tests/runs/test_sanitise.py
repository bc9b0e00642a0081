from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rankdeck_runs.sanitise import Span, clean, plain
from rankdeck_runs.sgr import PLAIN, Style, styled

FRAGMENTS = st.sampled_from(
    [
        b"\x1b[31m",
        b"\x1b[0m",
        b"\x1b]52;c;cm0gLXJm\x07",
        b"\x1b]0;title\x1b\\",
        b"\x1b[2J",
        b"\x1b[38;2;1;2;3m",
        b"\x1b[",
        b"\x1b",
        b"\x9b31m",
        b"\xc2\x9b31m",
        b"\r",
        b"\n",
        b"\t",
        b"\xe2\x80\xae",
        b"\xf0\x9f\x98\x80",
        b"\xff",
        b"loss=0.1",
    ]
)
HOSTILE = st.lists(st.one_of(FRAGMENTS, st.binary(max_size=6)), max_size=12).map(b"".join)


def is_harmless(character: str) -> bool:
    if character in "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}":
        return True
    return unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}


@given(HOSTILE)
@example(b"\x1b" * 100)
@example(b"\x1b]" + b"x" * 1000)
def test_no_control_character_ever_comes_out(data):
    assert all(is_harmless(character) for character in clean(data).text)


@given(HOSTILE)
def test_cleaning_twice_changes_nothing_more(data):
    once = plain(data)
    assert plain(once.encode()) == once


@given(HOSTILE)
def test_spans_lie_in_order_within_the_text(data):
    result = clean(data)
    position = 0
    for span in result.spans:
        assert position <= span.start < span.end <= len(result.text)
        assert span.style != PLAIN
        position = span.end


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E)))
def test_plain_text_is_left_as_it_is(text):
    assert clean(text.encode()).text == text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"loss 0.5\n", "loss 0.5"),
        (b"loss 0.5\r\n", "loss 0.5"),
        (b"", ""),
        (b"\r", ""),
        (b" 10%\r 50%\r100%", "100%"),
        (b" 10%\r100%\r", "100%"),
        (b" 10%\r100%\r\x1b[K", "100%"),
        (b"a\tb", "a       b"),
        (b"1234567\tb", "1234567 b"),
        (b"12345678\tb", "12345678        b"),
        (b"\x1b]52;c;cm0gLXJmIH4=\x07after", "after"),
        (b"\x1b]0;root@prod\x1b\\after", "after"),
        (b"\x1b]8;;http://x\x07link\x1b]8;;\x07", "link"),
        (b"before\x1b[2J\x1b[Hafter", "beforeafter"),
        (b"\x1bPq#0~\x1b\\after", "after"),
        (b"\x1b(0after", "after"),
        (b"\x1bcafter", "after"),
        (b"\x1b[?1049hafter", "after"),
        (b"bell\x07 back\x08 nul\x00 del\x7f", "bell\u2407 back\u2408 nul\u2400 del\u2421"),
        (b"\xc2\x9b31mx", "\ufffd31mx"),
        (b"\x9b31mx", "\ufffd31mx"),
        ("user\N{RIGHT-TO-LEFT OVERRIDE}gpj.exe".encode(), "user\ufffdgpj.exe"),
        ("a\N{LINE SEPARATOR}b\N{NO-BREAK SPACE}c".encode(), "a\ufffdb c"),
        ("Größe 10 µs 測試 😀".encode(), "Größe 10 µs 測試 😀"),
        (b"caf\xe9", "caf\ufffd"),
        (b"two\nlines", "two\u240alines"),
        (b"[bold]not markup[/bold]", "[bold]not markup[/bold]"),
    ],
)
def test_what_comes_out(data, text):
    assert clean(data).text == text


def test_an_unfinished_string_hides_no_more_than_its_line():
    assert clean(b"before\x1b]52;c;never ended").text == "before"
    assert clean(b"the next line").text == "the next line"


def test_colours_become_spans():
    result = clean(b"step \x1b[1;31mERROR\x1b[0m: \x1b[38;5;208mnan\x1b[m")
    assert result.text == "step ERROR: nan"
    assert result.spans == (
        Span(5, 10, Style(foreground=1, bold=True)),
        Span(12, 15, Style(foreground=208)),
    )


def test_tabs_count_from_the_lines_beginning_across_styles():
    result = clean(b"ab\x1b[32mcd\tx")
    assert result.text == "abcd    x"
    assert result.spans == (Span(2, 9, Style(foreground=2)),)


@pytest.mark.parametrize(
    ("params", "style"),
    [
        ("", PLAIN),
        ("1", Style(bold=True)),
        ("31;42", Style(foreground=1, background=2)),
        ("97", Style(foreground=15)),
        ("38;2;10;20;30", Style(foreground=(10, 20, 30))),
        ("38:2::10:20:30", Style(foreground=(10, 20, 30))),
        ("38:2:10:20:30", Style(foreground=(10, 20, 30))),
        ("38:5:7", Style(foreground=7)),
        ("48;5;255;1", Style(background=255, bold=True)),
        ("38;5;256", PLAIN),
        ("38;5", PLAIN),
        ("38", PLAIN),
        ("4:3", Style(underline=True)),
        ("4:0", PLAIN),
        ("58;2;1;2;3;1", Style(bold=True)),
        ("5;8", PLAIN),
        ("999999999999999999999", PLAIN),
        ("1;0", PLAIN),
    ],
)
def test_sgr_parameters(params, style):
    assert styled(PLAIN, params) == style


def test_sgr_switches_off_what_it_switched_on():
    on = styled(PLAIN, "1;2;3;4;7;9;31;41")
    assert on == Style(1, 1, True, True, True, True, True, True)
    assert styled(on, "22;23;24;27;29;39;49") == PLAIN
