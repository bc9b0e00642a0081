"""The terminal that screen tests and the pictures in the docs rest on."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from terminal import ScreenError, Tmux, draw
from terminal.sgr import Cell, Style, grid, palette

TESTS = Path(__file__).parents[1]
ECHO = "import sys; print('ready', flush=True); [print('got', repr(line), flush=True) for line in sys.stdin]"


def test_a_program_gets_keys_and_its_screen_is_seen(tmux: Tmux) -> None:
    tmux.start([sys.executable, "-c", ECHO])
    tmux.wait_for("ready")
    tmux.type("it's $HOME; Enter")
    tmux.keys("Enter")
    assert "it's $HOME; Enter\\n" in tmux.wait_for(re.compile(r"got .*"))
    assert tmux.exit_status is None
    tmux.keys("C-d")
    assert tmux.wait_exit() == 0
    assert "ready" in tmux.text(), "the last screen stays"


def test_waiting_has_a_limit_and_shows_the_screen(tmux: Tmux) -> None:
    tmux.start(["sh", "-c", "echo something else; exit 3"])
    tmux.wait_for("something else")
    tmux.wait_exit()
    with pytest.raises(ScreenError, match=r"(?s)'ready' for 0\.3 s; .* ended with status 3.*something else"):
        tmux.wait_for("ready", timeout=0.3)


def test_size_environment_and_end_by_a_signal() -> None:
    with Tmux(90, 20, env={"GREETING": "hé\u4f60"}) as tmux:
        tmux.start(["sh", "-c", 'echo "$GREETING $TERM"; while :; do stty size; sleep 0.1; done'])
        tmux.wait_for("hé\u4f60 tmux-256color")
        tmux.wait_for("20 90")
        tmux.resize(60, 10)
        tmux.wait_for("10 60")
        subprocess.run(["kill", "-KILL", str(tmux.pid)], check=True)
        assert tmux.wait_exit() == -signal.SIGKILL


def test_colours_reach_the_picture(tmux: Tmux, tmp_path: Path) -> None:
    tmux.start(["printf", r"\033[48;2;200;10;20m  \033[0m\033[7m X\033[0m\033[38;5;46m\342\226\210"])
    tmux.wait_for("X")
    wide, high = draw.cell_size()
    with Image.open(tmux.png(tmp_path / "new/screen.png")) as image:
        assert image.size == (120 * wide, 40 * high)
        assert image.getpixel((wide, high // 2)) == (200, 10, 20)
        assert image.getpixel((2 * wide + wide // 2, high // 2)) == draw.INK, "reverse"
        assert image.getpixel((4 * wide + wide // 2, high // 2)) == palette(46)
        assert image.getpixel((10 * wide, 5 * high)) == draw.PAPER


def test_the_grid_is_exact() -> None:
    cells = grid("a\x1b[1;2;31mb\x1b[22mc\u4f60e\u0301\x1b[m\x1b]8;;http://x\x1b\\d\nlast", 8, 3)
    assert [cell.text for cell in cells[0]] == ["a", "b", "c", "\u4f60", "", "e\u0301", "d", " "]
    red = (205, 49, 49)
    assert cells[0][1].style == Style(ink=red, bold=True, dim=True)
    assert cells[0][2].style == Style(ink=red)
    assert cells[0][6] == Cell("d")
    assert "".join(cell.text for cell in cells[1]) == "last    "
    assert cells[2] == [Cell()] * 8


def test_every_style_can_be_seen() -> None:
    plain = draw.picture("M", 1, 1)
    for parameters in ("1", "2", "4", "7", "9", "31", "44", "38;5;99", "48;2;1;2;3", "95", "103"):
        assert draw.picture(f"\x1b[{parameters}mM", 1, 1).tobytes() != plain.tobytes(), parameters


def test_drawing_as_a_script(tmp_path: Path) -> None:
    (tmp_path / "screen").write_text("\x1b[31mred\nsecond\n")
    command = [sys.executable, "-m", "terminal.draw", str(tmp_path / "screen"), str(tmp_path / "out.png")]
    subprocess.run([*command, "--columns", "10"], cwd=TESTS, check=True, timeout=60)
    wide, high = draw.cell_size()
    with Image.open(tmp_path / "out.png") as image:
        assert image.size == (10 * wide, 2 * high)
