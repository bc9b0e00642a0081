from __future__ import annotations

import pytest

from rankdeck_runs.causes import CauseKind
from rankdeck_runs.diagnosis import LONGEST_MESSAGE, MOST_EVIDENCE, explain
from rankdeck_runs.failures import Failure

EXIT = Failure(1.0, "n1", CauseKind.EXIT, "rank 3 ended with status 1", rank=3)
KILLED = Failure(1.0, "n1", CauseKind.SIGNAL, "rank 3 was ended by signal KILL", rank=3, signal="KILL")

TRACEBACK = b"""\
Traceback (most recent call last):
  File "train.py", line 12, in <module>
    main()
    ~~~~^^
  File "train.py", line 9, in main
    raise ValueError("loss is nan")
ValueError: loss is nan
"""
CHAINED = b"""\
Traceback (most recent call last):
  File "a.py", line 1, in <module>
    {}["x"]
KeyError: 'x'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 3, in <module>
    raise RuntimeError("no config")
RuntimeError: no config
"""
TORCH = b"""\
[rank3]: Traceback (most recent call last):
[rank3]:   File "/w/train.py", line 41, in <module>
[rank3]:     loss.backward()
[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
[rank3]:[W1128 01:02:03.123456 PG.cpp:1496] Warning: destroy_process_group() was not called
"""


@pytest.mark.parametrize(
    ("err", "message"),
    [
        (TRACEBACK, "ValueError: loss is nan"),
        (
            TRACEBACK + b"Exception ignored in: <function f>\nwandb: synced 3 files\n",
            "ValueError: loss is nan",
        ),
        (CHAINED, "RuntimeError: no config"),
        (
            TORCH,
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        ),
        (TRACEBACK.replace(b"\n", b"\r\n"), "ValueError: loss is nan"),
        (b'Traceback (most recent call last):\n  File "x"\nKeyboardInterrupt\n', "KeyboardInterrupt"),
        (b'Traceback (most recent call last):\n  File "x"\nAssertionError\n', "AssertionError"),
        (
            b"loading\n./train.sh: line 3: data.bin: No such file or directory\nbye\n",
            "./train.sh: line 3: data.bin: No such file or directory",
        ),
        (
            b"terminate called after throwing an instance of 'c10::Error'\n  what():  x\n",
            "terminate called after throwing an instance of 'c10::Error'",
        ),
        (
            b"usage: train.py [-h]\ntrain.py: error: unrecognized arguments: --foo\n",
            "train.py: error: unrecognized arguments: --foo",
        ),
        (b"it just said this\n", "it just said this"),
        (b"", "rank 3 ended with status 1"),
    ],
)
def test_the_message_is_the_ranks_own_last_error_line(err, message):
    assert explain(EXIT, err, b"").message == message


NO_IPV6 = (
    b"[W1226 15:35:11.626 socket.cpp:752] [c10d] The client socket cannot be initialized to connect to "
    b"[gpu-a01.example.org]:8000 (errno: 97 - Address family not supported by protocol).\n"
)


@pytest.mark.parametrize(
    ("err", "message"),
    [
        (NO_IPV6 * 40 + TRACEBACK + NO_IPV6, "ValueError: loss is nan"),
        (
            b"torch.distributed.DistNetworkError: The client socket has timed out after 60000ms\n"
            + NO_IPV6 * 3,
            "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms",
        ),
        (b"bad shard: cannot read\n" + NO_IPV6, "bad shard: cannot read"),
    ],
)
def test_that_there_is_no_ipv6_is_never_the_cause(err, message):
    assert explain(EXIT, err, b"").message == message


def test_output_is_looked_at_if_the_error_log_says_nothing():
    assert explain(EXIT, b"", b"step 1\nFATAL: bad shard\n").message == "FATAL: bad shard"
    assert explain(EXIT, b"", b"step 1\nstep 2\n").message == "rank 3 ended with status 1"
    assert explain(EXIT, b"some warning\n", b"ValueError: x\n").message == "ValueError: x"


def test_a_killed_rank_is_not_blamed_on_a_harmless_line():
    cause = explain(KILLED, b"epoch 3 of 10\n", b"")
    assert cause.message == "rank 3 was ended by signal KILL"
    assert "epoch 3 of 10" in cause.evidence


def test_the_evidence_holds_the_status_and_the_traceback():
    evidence = explain(EXIT, b"noise\n" * 50 + TRACEBACK, b"").evidence
    assert evidence[0] == "rank 3 ended with status 1"
    assert evidence[1].startswith("Traceback")
    assert evidence[-1] == "ValueError: loss is nan"


def test_long_things_are_cut():
    deep = (
        b"Traceback (most recent call last):\n"
        + b'  File "x", line 1, in f\n' * 900
        + b"RecursionError: deep\n"
    )
    cause = explain(EXIT, deep, b"")
    assert cause.message == "RecursionError: deep"
    assert len(cause.evidence) <= MOST_EVIDENCE
    assert any("left out" in line for line in cause.evidence)
    assert len(explain(EXIT, b"error " + b"x" * 60_000, b"").message) == LONGEST_MESSAGE


def test_hostile_bytes_are_harmless_in_the_cause():
    cause = explain(EXIT, b"\x1b]52;c;cm0=\x07\x1b[31mfatal: \x00\xff nan\x1b[0m\n", b"")
    assert cause.message == "fatal: \u2400\ufffd nan"
    assert all("\x1b" not in line for line in cause.evidence)
