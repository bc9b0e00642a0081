"""The app on a pseudo-terminal: what no test inside the process can see."""

from __future__ import annotations

import re
import termios
import time
from collections.abc import Callable
from pathlib import Path

from tui.records import happen, log, started, write_run
from tui.terminals import Terminal

APP = """
import sys
from pathlib import Path
from tui.deck import DeskEngine
from rankdeck_profiles.library import Library
from rankdeck_runs.home import RunHome
from rankdeck_tui import app, crash
place = Path({place!r})
home = RunHome(place / "home")
{before}
with crash.quiet_terminal(place / "home/state"):
    status = app.run_app(DeskEngine(home), home, Library(place / "config", place / "work"), {run!r})
sys.exit(status)
"""

COMMAND = """
import os, sys
os.environ.update(RANKDECK_HOME={home!r}, RANKDECK_CONFIG={config!r})
from rankdeck_tui.cli.main import main
sys.exit(main([]))
"""


def app(place: Path, run: str | None = None, before: str = "") -> str:
    return APP.format(place=str(place), run=run, before=before)


def test_mouse_bytes_of_old_terminals_do_not_end_the_app(place: Path) -> None:
    with Terminal(app(place)) as terminal:
        terminal.sees("No run yet")
        # Button, column and row of an X10 report: past column 95 they are no UTF-8.
        terminal.send(b"\x1b[M \xff\xa1\x1b[M#\xfe\xc8")
        terminal.send(b"\t")
        terminal.sees("bert")
        terminal.send(b"?")
        terminal.sees("esc closes")
        terminal.send(b"\x11")
        assert terminal.ends() == 0


def test_leaving_while_nodes_are_asked_prints_nothing(place: Path) -> None:
    """What asyncio says of processes and tasks that outlive their loop is nothing for a person."""
    marker = f"{int(time.monotonic() * 1000) % 900_000 + 100_000}"
    (place / "config/profiles/slow.toml").write_text(
        f'framework = "command"\ncommand = ["true"]\npool = "here"\nsetup = ["sleep {marker}"]\n'
    )
    (place / "config/pools/here.toml").write_text('backend = "local"\nnodes = ["127.0.0.1", "127.0.0.2"]\n')
    code = COMMAND.format(home=str(place / "own"), config=str(place / "config"))
    with Terminal(code) as terminal:
        terminal.sees("slow")
        for key in (b"\t", b"j", b"j", b"\r"):  # bert, resnet, slow
            terminal.send(key)
        terminal.sees("new run of slow")
        terminal.reads_until(lambda: sleeping(marker), "the nodes' setup began")
        terminal.send(b"S")
        terminal.sees("launches when checked")
        terminal.send(b"\x11")
        assert terminal.ends() == 0
        after = terminal.output.rpartition(b"\x1b[?1049l")[2]
        assert not re.sub(rb"\x1b[\[>=][0-9;?<>=]*[a-zA-Z]?|\s", b"", after), after
    wait_until(lambda: not sleeping(marker), "the nodes' setup was ended")


def wait_until(condition: Callable[[], bool], what: str, limit: float = 60.0) -> None:
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def sleeping(marker: str) -> bool:
    return b"sleep\0" + marker.encode() in b"".join(
        file.read_bytes() for file in Path("/proc").glob("[0-9]*/cmdline") if file.exists()
    )


def test_a_terminal_that_is_gone_ends_the_app(place: Path) -> None:
    with Terminal(app(place)) as terminal:
        terminal.sees("No run yet")
        terminal.hang_up()
        assert terminal.process.wait(60) == 129
    assert "the terminal is gone" in (place / "home/state/rankdeck.log").read_text()


HOSTILE = (
    b"\x1b]52;c;ZXZpbA==\x07clip\n"
    b"\x1b]0;owned title\x07title\n"
    b"\x1b[2J\x1b[Hcleared\n"
    b"\x1b[6n\x1b[c\x1b[>0qasked\n"
    b"\x9b31m\xc2\x9b31m c1\n"
    b"\x1bP+q544e\x1b\\dcs\n"
    b"back\x08\x08\x08space \x7f \x0e\x0f bell\x07\n"
    b"[red]markup[/red] [@click=app.quit]x[/]\n"
    b"bad utf-8 \xff\xfe \xe2\x28\xa1\n"
    b"\xe2\x80\xaereversed\n"
    b"\x1b[31mred\x1b[0m plain\n"
)


def test_hostile_logs_and_names_never_drive_the_terminal(place: Path) -> None:
    node = "n1\x1b]0;owned by a node\x07[/b]"
    record = write_run(place / "home", "20261118-102640-evil-aaaa", nodes=(node,), per_node=1)
    happen(record, started(record))
    happen(
        record, [{"ev": "note", "t": 1.0, "node": node, "message": "\x1b]52;c;bm90ZQ==\x07 a note\x1b[2J"}]
    )
    log(record, 0, HOSTILE)
    with Terminal(app(place, record.id)) as terminal:
        terminal.sees("red plain")
        terminal.sees("[red]markup[/red] [@click=app.quit]x[/]")
        terminal.sees("a note")
        for keys, wanted in (
            (b"\r", "G follow"),
            (b"o", "Nothing written yet"),
            (b"x", "Cancel"),
            (b"\x1b", "o out/err"),
        ):
            terminal.send(keys)
            terminal.sees(wanted)
        terminal.send(b"\x11")
        assert terminal.ends() == 0
    written = bytes(terminal.output)
    for forbidden in (
        b"\x1b]52", b"\x1b]0;", b"\x1b[2J", b"\x1b[6n", b"\x1b[c", b"\x1b[>0q", b"\x1bP+q", b"\x9b31m",
        b"\xe2\x80\xae", b"\x0e", b"\x0f", b"\x08", b"\x7f",
    ):  # fmt: skip
        assert forbidden not in written, forbidden


def test_a_fault_gives_the_terminal_back_and_names_its_report(place: Path) -> None:
    before = """
from rankdeck_tui.screens.home import HomeScreen
def fail(self):
    token = "secret-in-a-local"
    raise ZeroDivisionError("a fault of ours")
HomeScreen.action_refresh = fail
"""
    with Terminal(app(place, before=before)) as terminal:
        terminal.sees("No run yet")
        terminal.send(b"r")
        assert terminal.ends() == 1
        assert termios.tcgetattr(terminal.slave)[3] == terminal.before[3]
    written = bytes(terminal.output)
    assert b"\x1b[?1049l" in written
    assert written.rfind(b"\x1b[?1003l") > written.rfind(b"\x1b[?1003h")
    reports = list((place / "home" / "state").glob("crash-*.txt"))
    assert len(reports) == 1
    assert str(reports[0]).encode() in written.replace(b"\r\n", b"")
    report = reports[0].read_text()
    assert "ZeroDivisionError: a fault of ours" in report
    assert "secret-in-a-local" not in report
    assert b"secret-in-a-local" not in written
    assert reports[0].stat().st_mode & 0o077 == 0


def test_log_records_and_warnings_go_to_a_file(place: Path) -> None:
    before = """
import logging, warnings
from rankdeck_tui.screens.home import HomeScreen
def noisy(self):
    logging.getLogger("asyncssh").error("a record of a library")
    warnings.warn("a warning of a library")
HomeScreen.action_refresh = noisy
"""
    with Terminal(app(place, before=before)) as terminal:
        terminal.sees("No run yet")
        terminal.send(b"r")
        terminal.send(b"?")
        terminal.sees("esc closes")
        terminal.send(b"\x11")
        assert terminal.ends() == 0
    assert b"of a library" not in bytes(terminal.output)
    kept = (place / "home" / "state" / "rankdeck.log").read_text()
    assert "a record of a library" in kept
    assert "a warning of a library" in kept


def test_without_colour_there_is_none(place: Path) -> None:
    record = write_run(place / "home", "20261118-102640-resnet-aaaa")
    happen(record, started(record))
    log(record, 0, b"\x1b[31mred\x1b[0m plain\n")
    before = "import os; os.environ['NO_COLOR'] = '1'"
    with Terminal(app(place, record.id, before)) as terminal:
        terminal.sees("red plain")
        terminal.send(b"x")
        terminal.sees("Cancel")
        terminal.send(b"\x11")
        assert terminal.ends() == 0
    styles = re.findall(rb"\x1b\[([0-9;]*)m", bytes(terminal.output))
    codes = {int(code) for style in styles for code in style.split(b";") if code}
    assert styles
    assert not codes & {*range(30, 39), *range(40, 49), *range(90, 98), *range(100, 108)}


def test_ascii_where_the_locale_has_no_more(place: Path) -> None:
    record = write_run(place / "home", "20261118-102640-resnet-aaaa")
    happen(record, started(record))
    log(record, 0, b"all of it\n")
    before = "import os; os.environ['RANKDECK_GLYPHS'] = 'ascii'"
    with Terminal(app(place, record.id, before)) as terminal:
        terminal.sees("# R running")
        terminal.sees("all of it")
        assert terminal.text().isascii()
        terminal.send(b"\x11")
        assert terminal.ends() == 0


def test_the_first_frame_needs_no_network_library(place: Path) -> None:
    before = """
from rankdeck_tui.screens.home import HomeScreen
def modules(self):
    import sys
    (place / "modules").write_text("\\n".join(sys.modules))
HomeScreen.action_refresh = modules
"""
    with Terminal(app(place, before=before)) as terminal:
        terminal.sees("No run yet")
        terminal.send(b"r")
        terminal.send(b"?")
        terminal.sees("esc closes")
        terminal.send(b"\x11")
        assert terminal.ends() == 0
    assert "asyncssh" not in (place / "modules").read_text().split("\n")
