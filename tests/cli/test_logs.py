"""`rankdeck logs`: one finished run, looked at in all ways."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.user import Shell, environment


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A user with one run that has ended."""
    folder: Path = tmp_path_factory.mktemp("finished")
    (folder / "home").mkdir()
    shell = Shell(folder, environment(folder))
    shell.save_pool()
    shell.save_profile("hello", "bytes=1", "lines=2")
    shell("run", "hello")
    yield shell
    shell.end()


def test_rank_after_rank(finished: Shell) -> None:
    prefixes = [line.partition("]")[0] for line in finished("logs", "last").stdout.splitlines()]
    assert prefixes == sorted(prefixes)
    assert set(prefixes) == {"[0 127.0.0.1", "[1 127.0.0.1", "[2 127.0.0.2", "[3 127.0.0.2"}


def test_chosen_ranks_and_stream(finished: Shell) -> None:
    text = finished("logs", "last", "--rank", "0,2-3", "--stream", "err").stdout
    assert text == "[0 127.0.0.1] rank 0 warns\n[2 127.0.0.2] rank 2 warns\n[3 127.0.0.2] rank 3 warns\n"


def test_grep(finished: Shell) -> None:
    assert finished("logs", "last", "--grep", "^line [1] .*k 3$").stdout == "[3 127.0.0.2] line 1 of rank 3\n"
    assert finished("logs", "last", "--grep", "nothing like it").stdout == ""


def test_raw_is_every_byte(finished: Shell) -> None:
    done = finished("logs", "last", "--rank", "1", "--stream", "out", "--raw")
    lines = b"line 0 of rank 1\nline 1 of rank 1\nrank 1 is done\n"
    assert (
        done.stdout.encode("utf-8", "surrogateescape")
        == b"rank 1 of 4 says hello\n" + bytes(range(256)) + lines
    )


def test_no_byte_of_a_rank_drives_the_terminal(finished: Shell) -> None:
    text = finished("logs", "last").stdout
    assert all(character.isprintable() or character == "\n" for character in text)


def test_following_a_run_that_has_ended_ends(finished: Shell) -> None:
    assert finished("logs", "last", "--follow").stdout == finished("logs", "last").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--raw"], "--raw needs one rank and one stream"),
        (["--raw", "--rank", "0-1", "--stream", "out"], "--raw needs one rank and one stream"),
        (["--raw", "--rank", "0"], "--raw needs one rank and one stream"),
        (["--raw", "--rank", "0", "--stream", "out", "--grep", "x"], "--raw prints everything"),
        (["--rank", "4"], "there is no rank 4"),
        (["--rank", "x"], "'x' is neither a rank nor a range"),
        (["--grep", "("], "'(' is no regular expression"),
        (["--stream", "log"], "invalid choice: 'log'"),
    ],
)
def test_choices_that_make_no_sense(finished: Shell, arguments: list[str], message: str) -> None:
    done = finished("logs", "last", *arguments, status=2)
    assert message in done.stderr
    assert done.stdout == ""


def test_gpus_of_a_run_that_has_ended(finished: Shell) -> None:
    assert "has ended (succeeded)" in finished("gpus", "last", status=2).stderr


def test_following_shows_lines_as_they_come_and_leaves_the_run_running(rankdeck: Shell) -> None:
    go = rankdeck.folder / "go"
    rankdeck.save_pool()
    rankdeck.save_profile("long", f"until={go}", "lines=1")
    run_id = rankdeck("run", "long", "--detach").stdout.strip()
    process = rankdeck.start("logs", run_id, "--follow", "--rank", "2", "--stream", "out")
    assert process.stdout is not None
    assert process.stdout.readline() == "[2 127.0.0.2] rank 2 of 4 says hello\n"
    other = rankdeck.start("logs", run_id, "--follow")
    assert other.stdout is not None
    other.stdout.readline()
    other.send_signal(2)
    other.communicate(timeout=60)
    assert other.returncode == 130
    go.touch()
    rest, _ = process.communicate(timeout=60)
    assert rest == "[2 127.0.0.2] line 0 of rank 2\n[2 127.0.0.2] rank 2 is done\n"
    assert process.returncode == 0
    rankdeck.wait_for("the end", lambda: rankdeck("logs", run_id) and _state(rankdeck, run_id) == "succeeded")


def _state(rankdeck: Shell, run_id: str) -> str:
    return str(rankdeck.json("show", run_id)["state"])


def test_merged_lines_are_in_the_order_of_time(rankdeck: Shell) -> None:
    """Each rank waits for the one before it, so that the order is known."""
    rankdeck.save_pool()
    source = (
        "import os, time\nrank = int(os.environ['RANK'])\n"
        "for turn in (0, 1):\n"
        "    at = turn * 4 + rank\n"
        "    while at and not os.path.exists(f'turn-{at - 1}'):\n        time.sleep(0.02)\n"
        "    print('turn', at, flush=True)\n"
        "    time.sleep(1.5)\n"
        "    open(f'turn-{at}', 'w').close()\n"
    )
    rankdeck.save_profile("turns", script="turns.py")
    rankdeck.write("turns.py", source)
    rankdeck("run", "turns")
    lines = rankdeck("logs", "last", "--merge").stdout.splitlines()
    assert [line.split("] ")[1] for line in lines] == [f"turn {at}" for at in range(8)]
    assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d \[0 127\.0\.0\.1\] turn 0", lines[0])
    some = rankdeck("logs", "last", "--merge", "--rank", "1,2", "--grep", "[56]").stdout
    assert [line.split("] ")[1] for line in some.splitlines()] == ["turn 5", "turn 6"]


def test_merge_takes_neither_raw_nor_follow(finished: Shell) -> None:
    for other, options in (("--follow", ["-f"]), ("--raw", ["--raw", "--rank", "0", "--stream", "out"])):
        done = finished("logs", "last", "--merge", *options, status=2)
        assert f"--merge and {other} do not go together" in done.stderr
