"""Lines that every program's launcher writes alike: harmless ones folded, mpirun's words understood."""

from __future__ import annotations

import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankdeck_runs.causes import CauseKind
from rankdeck_runs.diagnosis import explain, told_elsewhere
from rankdeck_runs.events import fold
from rankdeck_runs.failures import Failure
from rankdeck_runs.known_lines import rank_ended, sort
from rankdeck_runs.states import RunState
from runs.waiting import finished, launched

EXIT = Failure(1.0, "n1", CauseKind.EXIT, "rank 0 ended with status 1", rank=0)
LAUNCHER = Failure(1.0, "n1", CauseKind.LAUNCHER, "the launcher ended with status 1")

NO_IPV6 = (
    b"[W1226 15:35:11.626067741 socket.cpp:752] [c10d] The client socket cannot be initialized to connect to "
    b"[gpu-a01.example.org]:8000 (errno: 97 - Address family not supported by protocol).\n"
)
OLD_NO_IPV6 = (
    b"[W socket.cpp:426] [c10d] The server socket cannot be initialized on [::]:29500 "
    b"(errno: 97 - Address family not supported by protocol).\n"
)
KEY_ERROR = b"""\
Traceback (most recent call last):
  File "train.py", line 3, in <module>
KeyError: 'labels'
"""
TIMED_OUT = (
    b"[E1226 15:36:11.7 socket.cpp:1019] [c10d] The client socket has timed out after 60000ms while trying "
    b"to connect to (198.51.100.11, 2222).\n"
)
RULE = b"-" * 74 + b"\n"


def test_warnings_of_hosts_without_ipv6_are_one_row():
    cause = explain(EXIT, NO_IPV6 * 40 + KEY_ERROR, b"")
    assert cause.message == "KeyError: 'labels'"
    assert len(cause.evidence) == 5
    assert cause.evidence[:2] == (
        "rank 0 ended with status 1",
        f"40 x, harmless (no IPv6): {NO_IPV6.decode().strip()}",
    )
    assert cause.evidence[-1] == "KeyError: 'labels'"


@pytest.mark.parametrize("prefix", [b"", b"[rank3]:"])
def test_both_sockets_warnings_of_every_age_are_folded(prefix):
    cause = explain(EXIT, (prefix + NO_IPV6 + prefix + OLD_NO_IPV6) * 3, b"")
    assert cause.message == "rank 0 ended with status 1"
    assert [line[:26] for line in cause.evidence[1:]] == ["6 x, harmless (no IPv6): ["]


def test_a_time_out_is_the_cause_and_not_the_missing_ipv6():
    cause = explain(EXIT, NO_IPV6 * 20 + TIMED_OUT + NO_IPV6 * 20, b"")
    assert "has timed out after 60000ms while trying to connect to (198.51.100.11, 2222)" in cause.message
    assert cause.evidence[1].startswith("40 x, harmless (no IPv6)")


def test_an_exception_that_has_the_same_words_is_no_warning():
    """All addresses that were tried are in it: here the other one is what went wrong."""
    said = (
        b"RuntimeError: The server socket has failed to listen on any local network address. The server "
        b"socket has failed to bind to 0.0.0.0:29500 (errno: 98 - Address already in use). The server socket "
        b"cannot be initialized on [::]:29500 (errno: 97 - Address family not supported by protocol).\n"
    )
    cause = explain(EXIT, OLD_NO_IPV6 + said, b"")
    assert cause.message.startswith("RuntimeError: The server socket has failed to listen")


SLOTS_4 = b"""\
--------------------------------------------------------------------------
There are not enough slots available in the system to satisfy the 16
slots that were requested by the application:

  ./train

Either request fewer slots for your application, or make more slots
available for use.

A "slot" is the Open MPI term for an allocatable unit where we can
launch a process.  The number of slots available are defined by the
environment in which Open MPI processes are run:

  1. Hostfile, via "slots=N" clauses (N defaults to number of
     processor cores if not provided)
--------------------------------------------------------------------------
"""
SLOTS_3 = b"""\
--------------------------------------------------------------------------
There are not enough slots available in the system to satisfy the 16 slots
that were requested by the application:
  ./train

Either request fewer slots for your application, or make more slots available
for use.
--------------------------------------------------------------------------
"""


@pytest.mark.parametrize("failure", [EXIT, LAUNCHER])
@pytest.mark.parametrize("said", [SLOTS_4, SLOTS_3])
def test_too_few_slots_are_told_with_the_number_and_the_program(said, failure):
    cause = explain(failure, b"srun: something failed\n" + said, b"")
    assert cause.message == "mpi-slots: 16 slots wanted for ./train, and mpirun has fewer"
    assert "./train" in " ".join(cause.evidence)


def test_what_called_mpirun_adds_nothing_to_the_slots():
    called = b"""\
Traceback (most recent call last):
  File "go.py", line 3, in <module>
subprocess.CalledProcessError: Command '['mpirun', './train']' returned non-zero exit status 1.
"""
    assert explain(EXIT, SLOTS_4 + called, b"").message.startswith("mpi-slots: 16")
    assert explain(EXIT, SLOTS_4 + KEY_ERROR, b"").message == "KeyError: 'labels'"


@pytest.mark.skipif(shutil.which("mpirun.openmpi") is None, reason="needs Open MPI's mpirun.openmpi")
def test_a_script_whose_own_mpirun_has_too_few_slots(engine, pool, program):
    source = (
        "words = ['mpirun.openmpi', '--allow-run-as-root', '--host', 'localhost:1', '-n', '16', 'true']\n"
        "os.execvp(words[0], words)"
    )
    run = program(source.replace("RANK", "0"), framework="command", nodes=1)
    snapshot = finished(engine.attach(launched(engine, run, pool)))
    assert snapshot.state is RunState.FAILED
    assert snapshot.cause.message == "mpi-slots: 16 slots wanted for true, and mpirun has fewer"


GUESSES = b"""\
--------------------------------------------------------------------------
ORTE was unable to reliably start one or more daemons.
This usually is caused by:

* not finding the required libraries and/or binaries on
  one or more nodes. Please check your PATH and LD_LIBRARY_PATH
  settings, or configure OMPI with --enable-orterun-prefix-by-default

* lack of authority to execute on one or more specified nodes.
  Please verify your allocation and authorities.
--------------------------------------------------------------------------
--------------------------------------------------------------------------
ORTE does not know how to route a message to the specified daemon
located on the indicated node:

  my node:   gpu-a
  target node:  gpu-b

This is usually an internal programming error that should be
reported to the developers.
--------------------------------------------------------------------------
"""


@pytest.mark.parametrize(
    "line",
    [
        "bash: orted: command not found",
        "bash: line 1: prted: command not found",
        "OpenSSL version mismatch. Built against 30000020, you have 30100010",
        "Host key verification failed.",
    ],
)
def test_the_line_before_mpirun_s_page_of_guesses_is_the_cause(line):
    cause = explain(LAUNCHER, line.encode() + b"\n" + GUESSES, b"")
    assert cause.message == line
    assert not any("usually is caused" in told for told in cause.evidence)


STATUS_4 = """\
Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.

  Process name: [[8472,1],2]
  Exit code:    1
"""
STATUS_5 = """\
prterun detected that one or more processes exited with non-zero status,
thus causing the job to be terminated. The first process to do so was:

   Process name: [prterun-gpu-a-10635@1,2]
   Exit code:    3
"""
SIGNAL_4 = """\
mpirun noticed that process rank 5 with PID 40123 on node gpu-b exited on signal 11 (Segmentation fault).
"""
SIGNAL_5 = """\
prterun noticed that process rank 7 with PID 40777 on node gpu-b exited on
signal 9 (Killed).
"""
ABORT = """\
MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD
with errorcode 5.
"""
INTEL = """\
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   RANK 6 PID 812 RUNNING AT gpu-b
=   KILL SIGNAL: 9 (Killed)
"""
NO_HELP = """\
Sorry!  You were supposed to get help about:
    find-available:none found
from the file:
    /opt/openmpi/share/openmpi/help-mca-base.txt: No such file or directory
But I couldn't find that topic in the file.  Sorry!
"""
NO_PML = """\
No components were able to be opened in the pml framework.

This typically means that either no components of this type were
installed, or none of the installed components can be loaded.
Sometimes this means that shared libraries required by these
components are unable to be found/loaded.

  Host:      vm
  Framework: pml
"""
NO_PROVIDER = """\
Abort(1009403023) on node 0 (rank 0 in comm 0): Fatal error in internal_Init_thread: Other MPI error:
internal_Init_thread(43701)..: MPI_Init_thread(argc=(nil), argv=(nil), required=3, provided=0x7ffc) failed
open_fabric(2861)............:
find_provider(3064)..........: OFI fi_getinfo() failed (ofi_init.c:3064:find_provider:No data available)
Fatal Python error: Segmentation fault
"""


@pytest.mark.parametrize("said", [NO_HELP, NO_PML, "[vm:26011] PML ucx cannot be selected\n", NO_PROVIDER])
def test_an_mpi_that_cannot_send_as_it_was_told_to(said):
    for cause in (explain(EXIT, said.encode(), b""), told_elsewhere(EXIT, None, said.encode())):
        assert cause.message.startswith("mpi-transport: MPI found no way to send as options.transport")
        assert cause.rank == 0
    assert told_elsewhere(LAUNCHER, 3, said.encode()).rank == 3
    assert told_elsewhere(EXIT, None, KEY_ERROR) is None


def test_an_mpirun_that_kills_its_ranks_before_its_end_is_seen_is_the_cause(plan):
    plan["nodes"][0]["processes"] = [{"ranks": [0, 1, 2, 3], "local_ranks": [0, 1, 0, 1], "launcher_args": 4}]
    plan["nodes"][1]["processes"] = []
    told = [
        {"t": 1.0, "ev": "stopping", "node": "n1", "seq": 1, "why": "launcher_ended"},
        {"t": 1.1, "ev": "launcher_ended", "node": "n1", "seq": 2, "process": 0, "exit_code": 143},
    ]
    assert fold("r", plan, told).cause.message == "the launcher ended with status 143"
    told.insert(0, {"t": 0.5, "ev": "stopping", "node": "n1", "seq": 3, "why": "asked"})
    assert fold("r", plan, told).cause is None


ENDS = [
    pytest.param(STATUS_4, 2, "mpirun: rank 2 ended with status 1", id="status"),
    pytest.param(STATUS_5, 2, "mpirun: rank 2 ended with status 3", id="status, Open MPI 5"),
    pytest.param(
        SIGNAL_4, 5, "mpirun: rank 5 on gpu-b was ended by signal 11 (Segmentation fault)", id="signal"
    ),
    pytest.param(
        SIGNAL_5, 7, "mpirun: rank 7 on gpu-b was ended by signal 9 (Killed)", id="signal, Open MPI 5"
    ),
    pytest.param(ABORT, 3, "mpirun: rank 3 ended with status 5", id="abort"),
    pytest.param(INTEL, 6, "mpirun: rank 6 on gpu-b was ended by signal 9 (Killed)", id="Intel MPI"),
]


@pytest.mark.parametrize(("said", "rank", "text"), ENDS)
def test_the_rank_that_mpirun_names(said, rank, text):
    found = rank_ended("epoch 1 of 3\n" + said)
    assert (found.rank, found.text) == (rank, text)
    assert rank_ended("rank 3 exited on time, signal 4 of 5") is None


@pytest.mark.parametrize(("said", "rank", "text"), ENDS)
def test_the_program_s_own_error_tells_more_than_mpirun_s_words(said, rank, text):
    block = RULE + said.encode() + RULE
    cause = explain(EXIT, b"bad shard: cannot read\n" + block, b"")
    assert (cause.rank, cause.message) == (0, "bad shard: cannot read")
    assert text in cause.evidence


@pytest.mark.parametrize(("said", "rank", "text"), ENDS)
def test_a_failed_launcher_s_words_name_the_rank_and_where_it_is(plan, said, rank, text):
    cause = explain(LAUNCHER, RULE + said.encode() + RULE, b"")
    assert (cause.rank, cause.message) == (rank, text)
    plan["nodes"][0]["processes"] = [{"ranks": [0, 1, 2, 3], "local_ranks": [0, 1, 0, 1], "launcher_args": 4}]
    plan["nodes"][1]["processes"] = []
    told = [
        {"t": 1.0, "ev": "launcher_ended", "node": "n1", "seq": 1, "process": 0, "exit_code": 1},
        {"t": 2.0, "ev": "cause_found", **cause.to_json()},
    ]
    shown = fold("r", plan, told).cause
    assert (shown.rank, shown.node) == ((rank, "n2") if rank in (2, 3) else (None, "n1"))


def test_what_our_own_part_refused_is_the_cause_whatever_the_launcher_makes_of_it():
    said = b"""\
rankdeck shim: the launcher does not tell its ranks who they are: RANK=(not set)
Traceback (most recent call last):
  File "launch.py", line 999, in simple_launcher
subprocess.CalledProcessError: Command '['python3', '-I', 'agent.zip']' returned non-zero exit status 126.
"""
    start = Failure(1.0, "n1", CauseKind.START, "the launcher ended before all of its ranks had started")
    for failure in (start, LAUNCHER):
        cause = explain(failure, said, b"")
        assert cause.message == "the launcher does not tell its ranks who they are: RANK=(not set)"
    assert explain(EXIT, said, b"").message.startswith("subprocess.CalledProcessError")


def test_of_two_messages_only_the_general_one_is_left_out():
    rule, general = "-" * 74, "Primary job  terminated normally, but 1 process returned"
    told = sort([rule, "the library x was not found", rule, rule, general, rule, "end"])
    assert [line for line in told.lines if line[0] != "-"] == ["the library x was not found", "end"]


def test_a_message_whose_beginning_was_cut_off_takes_no_other_line_with_it():
    told = sort(["one or more nodes.", "-" * 74, "loss 3", "loss 2", "-" * 74, "loss 1"])
    assert [line for line in told.lines if line[0] != "-"] == [
        "one or more nodes.",
        "loss 3",
        "loss 2",
        "loss 1",
    ]


PIECES = [
    "-" * 74,
    "=" * 80,
    *STATUS_4.splitlines(),
    *NO_PML.splitlines(),
    *INTEL.splitlines(),
    "loss 3",
    "-",
]


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=20)), max_size=30))
def test_whatever_is_in_a_log_its_other_lines_stay_in_their_order(lines):
    kept = iter(lines)
    assert all(any(line == each for each in kept) for line in sort(lines).lines)
    assert (
        sort(lines).lines.count("loss 3") == lines.count("loss 3") or "-" * 74 in lines or "=" * 80 in lines
    )
