"""What can be typed, and what is said of what can't."""

from __future__ import annotations

import subprocess

import pytest

from cli.user import COMMAND, LIMIT, Shell
from rankdeck_tui import __version__


def test_help_lists_every_command_and_the_exit_statuses(rankdeck: Shell) -> None:
    text = rankdeck("--help").stdout
    for name in [
        "demo",
        "profiles",
        "pools",
        "plan",
        "run",
        "runs",
        "show",
        "logs",
        "attach",
        "stop",
        "gpus",
    ]:
        assert f"\n  {name} " in text
    assert "130 interrupted" in text


def test_every_command_has_help_of_its_own(rankdeck: Shell) -> None:
    for name in [
        "demo",
        "profiles",
        "pools",
        "plan",
        "run",
        "runs",
        "show",
        "logs",
        "attach",
        "stop",
        "gpus",
    ]:
        assert rankdeck(name, "--help").stdout.startswith(f"usage: rankdeck {name} ")


def test_version(rankdeck: Shell) -> None:
    assert rankdeck("--version").stdout == f"rankdeck {__version__}\n"


def test_an_unknown_command_says_what_exists(rankdeck: Shell) -> None:
    done = rankdeck("chek", status=2)
    assert done.stdout == ""
    assert done.stderr.startswith("rankdeck: unknown command 'chek'\n")
    assert "profiles, pools, plan, check, run, runs" in done.stderr
    assert "did you mean 'runs'?" in rankdeck("rnus", status=2).stderr


def test_a_wrong_option_shows_the_usage(rankdeck: Shell) -> None:
    assert "unknown option --wrong" in rankdeck("--wrong", status=2).stderr
    done = rankdeck("runs", "--wrong", status=2)
    told = "rankdeck: unrecognized arguments: --wrong\n  usage: rankdeck runs [-h] [--all] [--json] [--prune]"
    assert done.stderr.startswith(told)


def test_options_can_not_be_abbreviated(rankdeck: Shell) -> None:
    assert "--js" in rankdeck("runs", "--js", status=2).stderr


def test_the_screen_says_that_it_needs_a_terminal(rankdeck: Shell) -> None:
    for command in [(), ("demo",)]:
        done = rankdeck(*command, status=2)
        assert "the screen needs a terminal" in done.stderr
        assert done.stdout == ""


def test_without_runs_the_list_is_empty_and_says_how_to_make_one(rankdeck: Shell) -> None:
    assert rankdeck.json("runs") == []
    done = rankdeck("runs")
    assert done.stdout == ""
    assert "rankdeck demo" in done.stderr


def test_a_run_that_is_not_there_is_named(rankdeck: Shell) -> None:
    for command in ["show", "logs", "stop", "gpus"]:
        assert "'2025'" in rankdeck(command, "2025", status=2).stderr
    assert "no run yet" in rankdeck("show", "last", status=2).stderr


def test_control_characters_in_names_do_not_reach_the_terminal(rankdeck: Shell) -> None:
    done = rankdeck("show", "\x1b]0;owned\x07\u202e", status=2)
    assert "\x1b" not in done.stderr
    assert "\u202e" not in done.stderr


def test_a_reader_that_has_seen_enough_is_no_error(rankdeck: Shell) -> None:
    for i in range(300):
        rankdeck.save_pool(f"pool-{i:03}", 'backend = "ssh"\nnodes = ["n[1-400]"]\n')
    command = f"set -o pipefail; {COMMAND} pools --json | head -n 1"
    done = subprocess.run(
        ["bash", "-c", command],
        env=rankdeck.environment,
        cwd=rankdeck.folder,
        capture_output=True,
        timeout=LIMIT,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"[\n", b"")


@pytest.mark.parametrize("command", ["--help", "pools", "pools --json"])
def test_a_full_disk_behind_stdout_is_told_without_a_traceback(rankdeck: Shell, command: str) -> None:
    rankdeck.save_pool()
    done = subprocess.run(
        ["sh", "-c", f"{COMMAND} {command} >/dev/full"],
        env=rankdeck.environment,
        cwd=rankdeck.folder,
        stderr=subprocess.PIPE,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 1, done.stderr
    assert done.stderr == "rankdeck: standard output can't be written: No space left on device\n"


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_are_no_fault(rankdeck: Shell, closed: str) -> None:
    rankdeck.save_pool()
    done = subprocess.run(
        ["sh", "-c", f"{COMMAND} pools {closed}"],
        env=rankdeck.environment,
        cwd=rankdeck.folder,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_output_fits_an_ascii_locale(rankdeck: Shell) -> None:
    rankdeck.save_pool("ascii", 'backend = "ssh"\nnodes = ["n1"]\ninterface = "ibé"\n')
    done = rankdeck("pools", "show", "ascii", PYTHONIOENCODING="ascii")
    assert "interface: ib\\xe9" in done.stdout
