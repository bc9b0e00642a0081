"""`rankdeck` and `rankdeck attach`: that the screens open from the command line, and are left again."""

from __future__ import annotations

from cli.on_terminal import Terminal
from cli.user import Shell


def test_the_home_screen_opens_and_is_left_with_status_0(rankdeck: Shell) -> None:
    terminal = Terminal(rankdeck)
    try:
        terminal.until("Profiles")
        terminal.type("q")
        assert terminal.end() == 0
    finally:
        terminal.close()


def test_attach_opens_on_a_run_that_goes_on_and_leaves_it_running(rankdeck: Shell) -> None:
    rankdeck.save_pool()
    rankdeck.save_profile("long", "until=go")
    run_id = rankdeck("run", "long", "--detach").stdout.strip()
    terminal = Terminal(rankdeck, "attach", "last")
    try:
        terminal.until(run_id)
        terminal.until("says hello")
        terminal.type("\x11")
        assert terminal.end() == 0
    finally:
        terminal.close()
    assert rankdeck.json("show", run_id)["state"] == "running"
