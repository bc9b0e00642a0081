"""What `rankdeck show` says of a failure: once, in the failed rank's own last words."""

from __future__ import annotations

import json
from collections.abc import Sequence

from cli.user import Shell
from tui.records import BEGIN, ended, happen, log, started, write_run

RUN = "20261117-091500-resnet-bbbb"


def failed(rankdeck: Shell, message: str, evidence: Sequence[str], out: str = "", err: str = "") -> list[str]:
    """The lines of `show` about a run whose rank 2 failed, from `cause` to the table of nodes."""
    record = write_run(rankdeck.folder / "data", RUN)
    happen(record, [*started(record), *ended(record, {2: 1})])
    cause = {"rank": 2, "node": "n2", "kind": "exit", "message": message, "evidence": list(evidence)}
    happen(record, [{"ev": "cause_found", "t": BEGIN + 62, **cause}])
    log(record, 2, out.encode())
    log(record, 2, err.encode(), "err")
    shown = rankdeck("show", RUN, "--offline").stdout
    assert json.loads(rankdeck("show", RUN, "--offline", "--json").stdout)["cause"]["evidence"] == list(
        evidence
    )
    return shown[shown.index("cause ") : shown.index("NODE ")].rstrip().splitlines()


def test_a_traceback_is_shown_and_its_error_said_once(rankdeck: Shell) -> None:
    error = "RuntimeError: NCCL error: unhandled system error"
    evidence = ["exit status 1", "Traceback (most recent call last):", '  File "train.py", line 12', error]
    assert failed(rankdeck, error, evidence, out="step 1\n" * 30, err="\n".join(evidence[1:])) == [
        f"cause rank 2 on n2: {error}",
        "    exit status 1",
        "    Traceback (most recent call last):",
        '      File "train.py", line 12',
    ]


def test_why_and_where_and_who_followed(rankdeck: Shell) -> None:
    record = write_run(rankdeck.folder / "data", RUN)
    happen(record, [*started(record), *ended(record, {0: 1, 1: 1, 2: 1, 3: 1})])
    error = "KeyError: 'shard-00317'"
    log(record, 2, f"Traceback (most recent call last):\n{error}\n".encode(), "err")
    proof = {"text": error, "log": "rank-00002.err", "offset": 35, "rank": 2, "stream": "err"}
    seen = {"text": "memory.events: oom_kill 0 -> 1", "log": "", "offset": None, "rank": None, "stream": ""}
    cause = {"rank": 2, "node": "n2", "kind": "exit", "message": error, "evidence": ["exit status 1", error]}
    cause |= {"reason": "exception", "said": "a Python exception ended it", "proofs": [proof, seen]}
    cause |= {"followers": [{"ranks": [0, 1, 3], "said": "it lost the connection to another rank"}]}
    about = {"node": "n1", "kind": "exit", "rank": 0}
    happen(record, [{"ev": "cause_found", "t": BEGIN + 62, "about": about, **cause}])
    shown = rankdeck("show", RUN, "--offline").stdout
    assert shown[shown.index("cause ") : shown.index("NODE ")].rstrip().splitlines() == [
        f"cause rank 2 on n2: {error}",
        "  why: a Python exception ended it",
        "  see: logs/rank-00002.err, byte 35",
        "  see: memory.events: oom_kill 0 -> 1",
        "  then ranks 0-1,3: it lost the connection to another rank",
        "    exit status 1",
    ]
    assert json.loads(rankdeck("show", RUN, "--offline", "--json").stdout)["cause"] == cause


def test_without_an_error_the_last_lines_of_stderr_are_shown(rankdeck: Shell) -> None:
    status = "ended by SIGKILL"
    lines = [f"step {n}" for n in range(30)]
    shown = failed(rankdeck, status, [status, *lines[-24:]], out="\n".join(lines), err="a\n\x1b[31mwarning\n")
    assert shown == [f"cause rank 2 on n2: {status}", "its stderr ends with", "    a", "    warning"]


def test_warnings_that_are_harmless_take_one_line(rankdeck: Shell) -> None:
    status = "ended by SIGKILL"
    warning = (
        "[W1226 15:35:11.6 socket.cpp:752] [c10d] The client socket cannot be initialized to connect to "
        "[n1]:29500 (errno: 97 - Address family not supported by protocol)."
    )
    lines = [f"step {n}" for n in range(9)]
    shown = failed(rankdeck, status, [status], err="\n".join([*lines, *[warning] * 40]))
    assert shown[2] == f"    40 x, harmless (no IPv6): {warning}"
    assert shown[3:] == [f"    step {n}" for n in range(1, 9)]


def test_without_any_stderr_a_few_lines_of_stdout_are_shown(rankdeck: Shell) -> None:
    status = "ended by SIGKILL"
    lines = [f"step {n}" for n in range(30)]
    shown = failed(rankdeck, status, [status, *lines[-24:]], out="\n".join(lines))
    assert shown == [
        f"cause rank 2 on n2: {status}",
        "its stdout ends with",
        *(f"    step {n}" for n in range(22, 30)),
    ]


def test_a_silent_rank_s_end_is_said_once(rankdeck: Shell) -> None:
    assert failed(rankdeck, "exit status 1", ["exit status 1"]) == ["cause rank 2 on n2: exit status 1"]
