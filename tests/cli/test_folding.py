"""`rankdeck logs --fold`: 64 ranks fail on one screen, and no odd one is hidden."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.user import Shell, environment
from tui.records import BEGIN, ended, happen, log, started, write_run

NODES = [f"n{number}" for number in range(1, 9)]
ODD, SLOW = 17, 40


def wrote(rank: int) -> tuple[bytes, bytes]:
    """What a rank of the run wrote: 17 dies of something else than the others, 40 was given less to read."""
    files = 900 if rank == SLOW else 1000
    out = [f"rank {rank} of 64 on n{rank // 8 + 1}", f"{files} files"]
    out += [f"step {step} loss {2 / (step + 1) + rank / 1000:.4f}" for step in range(200)]
    error = (
        "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"
        if rank == ODD
        else f"torch.DistBackendError: [Rank {rank}] connection closed by peer 10.0.0.3<{40000 + rank}>"
    )
    traceback = [
        "Traceback (most recent call last):",
        '  File "/work/train.py", line 40, in <module>',
        "    main()",
        f'  File "/work/train.py", line {31 if rank == ODD else 33}, in main',
        "    loss.backward()",
        error,
    ]
    return ("\n".join(out) + "\n").encode(), "".join(f"[rank{rank}]: {x}\n" for x in traceback).encode()


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A user with a run of 64 ranks on 8 nodes that has failed."""
    folder: Path = tmp_path_factory.mktemp("failed")
    (folder / "home").mkdir()
    record = write_run(folder / "data", "20261118-102640-llama-aaaa", nodes=NODES, per_node=8)
    happen(record, [*started(record), *ended(record, dict.fromkeys(range(64), 1), first_seq=10)])
    for rank in range(64):
        out, err = wrote(rank)
        log(record, rank, out)
        log(record, rank, err, "err")
        began = BEGIN + 2 + (0.5 if rank != ODD else 0.25)
        index = f"{BEGIN + 1} {len(out) // 2} 0\n{began} {len(out)} {len(err)}\n"
        log(record, rank, index.encode(), "times")
    shell = Shell(folder, environment(folder) | {"TZ": "UTC"})
    yield shell
    shell.end()


def test_a_failure_of_64_ranks_is_read_on_one_screen(user: Shell) -> None:
    lines = user("logs", "last", "--fold").stdout.splitlines()
    assert lines == [
        "11:06:41.0 out 64 of 64 | rank 0..63 of 64 on *",
        "11:06:41.0 out 64 of 64 | 900..1000 files",
        "    1 of 64: rank 40: 900, most 1000",
        "11:06:41.0 out 64 of 64, 200 times each | step 0..199 loss 0.0100..2.0630",
        "11:06:42.2 err 1 of 64: rank 17 |",
        "    Traceback (most recent call last):",
        '      File "/work/train.py", line 40, in <module>',
        "        main()",
        '      File "/work/train.py", line 31, in main',
        "        loss.backward()",
        "    RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
        "11:06:42.5 err 63 of 64: ranks 0-16,18-63 |",
        "    Traceback (most recent call last):",
        '      File "/work/train.py", line 40, in <module>',
        "        main()",
        '      File "/work/train.py", line 33, in main',
        "        loss.backward()",
        "    torch.DistBackendError: [Rank 0..63] connection closed by peer 10.0.0.3<40000..40063>",
    ]


def test_only_the_odd_ones(user: Shell) -> None:
    heads = [
        line
        for line in user("logs", "last", "--fold", "--odd").stdout.splitlines()
        if not line.startswith(" ")
    ]
    assert [head[11:] for head in heads] == [
        "out 64 of 64 | 900..1000 files",
        "err 1 of 64: rank 17 |",
        "err 63 of 64: ranks 0-16,18-63 |",
    ]


def test_chosen_ranks_stream_and_text(user: Shell) -> None:
    def told(*arguments: str) -> list[str]:
        found = user("logs", "last", "--fold", *arguments).stdout.splitlines()
        return [line[11:] for line in found if not line.startswith(" ")]

    assert told("--rank", "node:n3", "--stream", "err") == [
        "err 1 of 8: rank 17 |",
        "err 7 of 8: ranks 16,18-23 |",
    ]
    assert told("--rank", "failed", "--grep", "cuDNN") == ["err 1 of 64: rank 17 |"]
    assert told("--rank", "40", "--grep", "files") == ["out 1 of 1 | 900 files"]
    assert (
        "no node of this run is called so"
        in user("logs", "last", "--fold", "--rank", "node:n9", status=2).stderr
    )


def test_json(user: Shell) -> None:
    document = user.json("logs", "last", "--fold", "--rank", "38-41", "--stream", "out")
    assert document["ranks"] == [38, 39, 40, 41]
    said = document["said"][1]
    assert said == {
        "first": BEGIN + 1,
        "last": BEGIN + 1,
        "stream": "out",
        "ranks": [38, 39, 40, 41],
        "times": 4,
        "lines": ["900..1000 files"],
        "all_alike": False,
        "odd": [{"ranks": [40], "what": "number", "said": "900", "most": "1000"}],
    }


def test_merged_tracebacks_are_whole(user: Shell) -> None:
    lines = user("logs", "last", "--merge", "--stream", "err").stdout.splitlines()
    ranks = [line.split()[1].strip("[") for line in lines]
    assert ranks == [str(rank) for rank in (17, *range(17), *range(18, 64)) for _ in range(6)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--fold", "--follow"], "--fold and --follow do not go together"),
        (["--fold", "--raw", "--rank", "0", "--stream", "out"], "--fold and --raw do not go together"),
        (["--odd"], "--odd is of use only with --fold"),
        (["--json"], "--json is of use only with --fold"),
    ],
)
def test_choices_that_make_no_sense(user: Shell, arguments: list[str], message: str) -> None:
    done = user("logs", "last", *arguments, status=2)
    assert message in done.stderr
    assert done.stdout == ""
