"""`rankdeck run` and the screen tell what happens to a run while somebody is attached."""

from __future__ import annotations

import json
import sys

from cli.on_terminal import Terminal
from cli.user import Shell


def settings(rankdeck: Shell, *lines: str) -> None:
    rankdeck.write("config/settings.toml", "\n".join(["[notify]", *lines, ""]))


def telling(rankdeck: Shell) -> str:
    """Sets a command that adds a line to `told`."""
    program = (
        "import os, sys; event, state = (os.environ['RANKDECK_NOTICE_' + n] for n in ('EVENT', 'STATE')); "
        "open('told', 'a').write(f'{event}|{state}|{sys.argv[1]}\\n')"
    )
    return f"command = {json.dumps([sys.executable, '-c', program])}"


def told(rankdeck: Shell) -> list[str]:
    path = rankdeck.folder / "told"
    return path.read_text().splitlines() if path.exists() else []


def test_a_run_that_succeeds_tells_its_end_before_the_command_returns(rankdeck: Shell) -> None:
    rankdeck.save_pool()
    rankdeck.save_profile("hello")
    settings(rankdeck, telling(rankdeck))
    rankdeck("run", "hello")
    assert told(rankdeck) == ["end|succeeded|run hello succeeded"]


def test_a_failure_is_told_with_its_cause_and_only_what_is_wanted(rankdeck: Shell) -> None:
    rankdeck.save_pool()
    rankdeck.save_profile("fails", "fail=2", "until=never")
    settings(rankdeck, 'on = ["failure", "end"]', telling(rankdeck))
    rankdeck("run", "fails", status=1)
    lines = told(rankdeck)
    assert (
        lines[-1] == "end|failed|run fails failed: rank 2 on 127.0.0.2: ValueError: the loss is not a number"
    )
    assert all(line.startswith("failure|") for line in lines[:-1])
    (rankdeck.folder / "told").unlink()
    settings(rankdeck, "on = []", telling(rankdeck))
    rankdeck("run", "fails", status=1)
    assert told(rankdeck) == []


def test_a_command_that_fails_is_a_warning_and_changes_no_exit_status(rankdeck: Shell) -> None:
    rankdeck.save_pool()
    rankdeck.save_profile("hello")
    settings(rankdeck, 'command = ["/no/such/program"]')
    done = rankdeck("run", "hello")
    assert done.stderr.count("the command that is to tell of runs failed: /no/such/program") == 1
    assert "\a" not in done.stderr, "stderr is no terminal"


def test_wrong_settings_are_told_before_anything_is_started(rankdeck: Shell) -> None:
    rankdeck.save_pool()
    rankdeck.save_profile("hello")
    settings(rankdeck, "bell = 1")
    done = rankdeck("run", "hello", status=2)
    assert "settings.toml:2: notify.bell = 1" in done.stderr
    assert rankdeck.json("runs") == []


def test_the_terminal_rings_and_shows_a_notification(rankdeck: Shell) -> None:
    rankdeck.save_pool()
    rankdeck.save_profile("hello")
    settings(rankdeck, 'desktop = "osc777"')
    terminal = Terminal(rankdeck, "run", "hello")
    try:
        terminal.until("\x1b]777;notify;rankdeck;run hello succeeded\a\a")
        assert terminal.end() == 0
    finally:
        terminal.close()


def test_the_screen_rings_for_a_run_that_it_follows(rankdeck: Shell) -> None:
    rankdeck.save_pool()
    rankdeck.save_profile("waits", "until=go")
    settings(rankdeck, 'desktop = "osc9"', telling(rankdeck))
    run = rankdeck.json("run", "waits", "--detach")["id"]
    terminal = Terminal(rankdeck, "attach", run)
    try:
        terminal.until("rank 3 of 4 says hello")
        (rankdeck.folder / "go").touch()
        terminal.until("\x1b]9;run waits succeeded\a\a")
        rankdeck.wait_for("the command has run", lambda: told(rankdeck))
        assert told(rankdeck) == ["end|succeeded|run waits succeeded"]
    finally:
        terminal.close()
