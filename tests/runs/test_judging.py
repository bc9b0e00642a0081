"""Who is to blame, by the words that torch, NCCL, gloo, MPI, CPython and the kernel write."""

from __future__ import annotations

import pytest

from rankdeck_runs.causes import CauseKind
from rankdeck_runs.failures import Failure
from rankdeck_runs.judging import patterns, words
from rankdeck_runs.judging.hints import hints_of
from rankdeck_runs.judging.judge import Suspect, judge
from rankdeck_runs.judging.patterns import Blame
from rankdeck_runs.judging.words import LogEnd


def failure(rank=0, t=100.0, code=1, signal="", **more):
    kind = CauseKind.SIGNAL if signal else CauseKind.EXIT
    how = f"was ended by signal {signal}" if signal else f"ended with status {code}"
    code = None if signal else code
    return Failure(
        t, f"n{rank // 4 + 1}", kind, f"rank {rank} {how}", rank=rank, signal=signal, code=code, **more
    )


def ends(rank, err="", out="", base=0):
    return (
        LogEnd(f"rank-{rank:05d}.err", err.encode(), base, rank, "err"),
        LogEnd(f"rank-{rank:05d}.out", out.encode(), base, rank, "out"),
    )


def suspect(rank, t, err="", *, code=1, signal="", failed=True, launched=False, **more):
    failed_as = failure(rank, t, code, signal, **more)
    return Suspect(failed_as, words.of_failure(failed_as, *ends(rank, err)), failed, launched)


def traceback(exception, where="train.py"):
    return (
        "Traceback (most recent call last):\n"
        f'  File "/work/{where}", line 88, in <module>\n    main()\n{exception}\n'
    )


WATCHDOG = (
    "[rank{r}]:[E1120 16:48:25.440240908 ProcessGroupNCCL.cpp:632] [Rank {r}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum={n}, OpType=ALLREDUCE, NumelIn=865, NumelOut=865, "
    "Timeout(ms)=1800000) "
    "ran for 1800041 milliseconds before timing out.\n"
    "[rank{r}]:[E1120 16:48:25.441240908 ProcessGroupNCCL.cpp:1664] [PG ID 0 PG GUID 0(default_pg) Rank {r}] "
    "Exception (either an error or timeout) detected by watchdog at work: {n}, last enqueued NCCL work: {n}, "
    "last completed NCCL work: {n}.\n"
    "[rank{r}]:[E1120 16:48:25.442250213 ProcessGroupNCCL.cpp:698] [Rank {r}] To avoid data "
    "inconsistency, we "
    "are taking the entire process down.\n"
    "terminate called after throwing an instance of 'c10::DistBackendError'\n"
    "  what():  [PG ID 0 PG GUID 0(default_pg) Rank {r}] Process group watchdog thread terminated with "
    "exception: [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={n}, "
    "OpType=ALLREDUCE, NumelIn=865, NumelOut=865, Timeout(ms)=1800000) ran for 1800041 "
    "milliseconds before timing out.\n"
    "Fatal Python error: Aborted\n\nThread 0x00007f1c (most recent call first):\n  <no Python frame>\n\n"
    'Current thread 0x00007f2d (most recent call first):\n  File "/work/train.py", line 88 in main\n\n'
    "Extension modules: numpy._core._multiarray_umath, torch._C (total: 22)\n"
)
"""As it is written where PYTHONFAULTHANDLER=1, which every run has unless its profile says otherwise."""
GLOO_GONE = traceback(
    "RuntimeError: [/w/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer "
    "[127.0.0.1]:6816. This is typically caused by a remote worker crashing."
)
GLOO_LATE = traceback(
    "RuntimeError: [/w/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out "
    "waiting 5000ms for "
    "recv operation to complete"
)
KEY = traceback("KeyError: 'shard-00317'", "data.py")

OWN, GONE, LATE = Blame.OWN, Blame.PEER_GONE, Blame.PEER_LATE


@pytest.mark.parametrize(
    ("text", "reason", "blame"),
    [
        (KEY, "exception", OWN),
        (
            traceback(
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
                "capacity of 79.15 GiB of which 1.20 GiB is free."
            ),
            "gpu-memory",
            OWN,
        ),
        (
            "g1:99:120 [0] init.cc:1233 NCCL WARN Cuda failure 2 'out of memory'\n",
            "gpu-memory",
            OWN,
        ),
        (
            traceback("jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying"),
            "gpu-memory",
            OWN,
        ),
        (
            traceback(
                "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Bus error. It "
                "is possible that "
                "dataloader's workers are out of shared memory. Please try to raise your shared memory limit."
            ),
            "shared-memory",
            OWN,
        ),
        (
            "g1:99:120 [0] misc/shmutils.cc:87 NCCL WARN Error while creating shared memory segment "
            "/dev/shm/nccl-Xb1 (size 9637888), error: No space left on device (28)\n",
            "shared-memory",
            OWN,
        ),
        (
            traceback("RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed. "),
            "host-memory",
            OWN,
        ),
        (traceback("MemoryError"), "host-memory", OWN),
        (
            "slurmstepd: error: Detected 1 oom_kill event in StepId=1130.0. Some of the step "
            "tasks have been OOM "
            "Killed.\n",
            "host-memory",
            OWN,
        ),
        (
            traceback(
                "torch.distributed.DistNetworkError: The server socket has failed to listen on "
                "any local network "
                "address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: "
                "address already in "
                "use"
            ),
            "port",
            OWN,
        ),
        (traceback("OSError: [Errno 98] Address already in use"), "port", OWN),
        (traceback("ModuleNotFoundError: No module named 'apex'"), "import", OWN),
        (
            traceback(
                "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory"
            ),
            "import",
            OWN,
        ),
        (
            "./train: error while loading shared libraries: libmpi.so.40: cannot open shared object file: No "
            "such file or directory\n",
            "import",
            OWN,
        ),
        (traceback("FileNotFoundError: [Errno 2] No such file or directory: '/data/x'"), "file", OWN),
        (
            "python: can't open file '/work/train.py': [Errno 2] No such file or directory\n",
            "file",
            OWN,
        ),
        (traceback("PermissionError: [Errno 13] Permission denied: '/data'"), "permission", OWN),
        (traceback("OSError: [Errno 28] No space left on device"), "disk", OWN),
        (traceback("OSError: [Errno 28] No space left on device: '/dev/shm/psm_1'"), "shared-memory", OWN),
        (traceback("OSError: [Errno 122] Disk quota exceeded: '/home/a/x.pt'"), "disk", OWN),
        (traceback("OSError: [Errno 24] Too many open files"), "limits", OWN),
        (
            traceback("RuntimeError: CUDA error: device-side assert triggered\nCUDA kernel errors might be"),
            "gpu-fault",
            OWN,
        ),
        (
            "[1234.5] NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python, GPU has fallen off the bus.\n",
            "gpu-fault",
            OWN,
        ),
        (traceback("RuntimeError: No CUDA GPUs are available"), "no-gpu", OWN),
        (
            traceback(
                "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, "
                "invalid usage\n"
                "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\n"
                "Last error:\nDuplicate GPU detected : rank 1 and rank 0 both on CUDA device 3b000"
            ),
            "nccl-use",
            OWN,
        ),
        (
            traceback(
                "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, "
                "remote process\n"
                "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting"
            ),
            "peer-gone",
            GONE,
        ),
        (GLOO_GONE, "peer-gone", GONE),
        (
            "g1:99:150 [3] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer "
            "g2<41234>\n",
            "peer-gone",
            GONE,
        ),
        (
            "g1:99:150 [4] transport/net_ib.cc:1615 NCCL WARN NET/IB : Got completion from peer "
            "10.0.0.2<5486> "
            "with status=12 opcode=0 len=0 vendor err 129 (Recv)\n",
            "peer-gone",
            GONE,
        ),
        (GLOO_LATE, "collective-late", LATE),
        (WATCHDOG.format(r=0, n=2398459), "collective-late", LATE),
        (
            traceback(
                "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for "
                "clients. 1/2 clients "
                "joined."
            ),
            "rendezvous-late",
            LATE,
        ),
        (
            traceback(
                "torch.distributed.DistNetworkError: The client socket has timed out after "
                "60000ms while trying "
                "to connect to (n0, 29500)."
            ),
            "rendezvous-late",
            LATE,
        ),
        (
            "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f (most recent call first):\n",
            "crash",
            OWN,
        ),
        (
            "terminate called after throwing an instance of 'std::runtime_error'\n  what():  bad shard\n",
            "cpp",
            OWN,
        ),
        (
            "terminate called after throwing an instance of 'c10::DistBackendError'\n  what():  "
            "[PG 3 Rank 5] "
            "Process group watchdog thread terminated with exception: [Rank 5] Watchdog caught collective "
            "operation timeout: WorkNCCL(SeqNum=9141, OpType=_ALLGATHER_BASE, NumelIn=19008)\n",
            "collective-late",
            LATE,
        ),
        (
            "application called MPI_Abort(MPI_COMM_WORLD, 3) - process 1\n",
            "mpi-abort",
            OWN,
        ),
        ("train.py: error: unrecognized arguments: --foo\n", "arguments", OWN),
        ("client_loop: send disconnect: Broken pipe\n", "peer-gone", GONE),
        (traceback("KeyboardInterrupt"), "told-to-end", GONE),
    ],
)
def test_known_words(text, reason, blame):
    told = words.of_failure(failure(), *ends(0, text))
    assert (told.reason, told.blame) == (reason, blame)
    assert told.spoken
    assert told.said
    assert told.proofs


def test_a_line_is_proven_by_where_it_stands():
    before = "step 1\nstep 2\n"
    told = words.of_failure(failure(3), *ends(3, before + KEY, base=1000))
    proof = told.proofs[0]
    at = 1000 + (before + KEY).index("KeyError")
    assert (proof.log, proof.offset, proof.rank, proof.stream) == ("rank-00003.err", at, 3, "err")
    assert proof.text == "KeyError: 'shard-00317'"
    assert proof.place == f"logs/rank-00003.err, byte {at}"


def test_the_first_error_is_found_under_a_heap_of_time_outs():
    late = [suspect(r, 1900.0 + r, WATCHDOG.format(r=r, n=77), signal="ABRT") for r in (0, 1, 2, 3, 4, 6, 7)]
    cause = judge([suspect(5, 100.0, KEY), *late])
    assert (cause.rank, cause.node, cause.message) == (5, "n2", "KeyError: 'shard-00317'")
    (group,) = cause.followers
    assert group.ranks == (0, 1, 2, 3, 4, 6, 7)
    assert "ALLREDUCE number 77" in group.said


def test_a_follower_recorded_first_is_no_culprit():
    """On a loaded node the one that raised takes longer to end than those that saw it go."""
    cause = judge([suspect(0, 100.0, GLOO_GONE), suspect(1, 100.1, GLOO_GONE), suspect(2, 100.4, KEY)])
    assert (cause.rank, cause.reason) == (2, "exception")
    assert [group.ranks for group in cause.followers] == [(0, 1)]


def test_one_killed_without_a_word_is_first_by_its_time():
    late = [suspect(r, 1900.0, WATCHDOG.format(r=r, n=77), signal="ABRT") for r in (0, 1)]
    cause = judge([suspect(5, 100.0, "step 3\n", signal="KILL"), *late])
    assert (cause.rank, cause.reason) == (5, "killed")
    assert "sender unknown" in cause.said


def test_one_that_ended_silently_right_after_its_follower_is_the_culprit():
    cause = judge([suspect(0, 100.0, GLOO_GONE), suspect(2, 100.5, "", code=3)])
    assert (cause.rank, cause.reason) == (2, "unknown")
    assert cause.said.startswith("why is not known")


def test_one_that_a_launcher_killed_much_later_is_not():
    cause = judge(
        [
            suspect(0, 100.0, GLOO_LATE, launched=True),
            suspect(1, 130.0, "", signal="KILL", launched=True),
        ]
    )
    assert cause.rank == 0
    assert "which rank began it is not known" in cause.said


def test_one_that_lives_on_after_its_error_held_up_the_others():
    cause = judge(
        [
            suspect(0, 100.0, GLOO_LATE),
            suspect(1, 100.1, GLOO_LATE),
            suspect(2, 101.0, KEY, signal="TERM", failed=False),
        ]
    )
    assert (cause.rank, cause.message) == (2, "KeyError: 'shard-00317'")
    assert [group.ranks for group in cause.followers] == [(0, 1)]


def test_a_stopped_ranks_error_is_no_cause_where_the_first_lost_a_peer():
    """It was raised by the stop, as like as not: nobody had waited for it."""
    cause = judge(
        [suspect(0, 100.0, GLOO_GONE), suspect(2, 101.0, KEY, signal="TERM", failed=False)],
    )
    assert cause.rank == 0


def test_the_one_that_was_behind_is_named():
    late = [suspect(r, 100.0 + r, WATCHDOG.format(r=r, n=78), signal="ABRT") for r in (0, 1, 3)]
    behind = suspect(2, 104.0, WATCHDOG.format(r=2, n=71), signal="ABRT")
    cause = judge([*late, behind])
    assert cause.rank == 2
    assert "behind the others" in cause.said


def test_one_that_wrote_no_time_out_is_pointed_at():
    late = [suspect(r, 100.0 + r, WATCHDOG.format(r=r, n=78), signal="ABRT") for r in (0, 1, 3)]
    cause = judge(late, [2])
    assert cause.rank == 0
    assert "rank 2 wrote no such word: look there first" in cause.said


def test_an_error_under_another_is_the_cause_where_the_other_is_a_followers():
    text = KEY + "\nDuring handling of the above exception, another exception occurred:\n\n" + GLOO_GONE
    told = words.of_failure(failure(), *ends(0, text))
    assert (told.message, told.blame) == ("KeyError: 'shard-00317'", Blame.OWN)


def test_what_the_kernel_did_counts_before_words():
    seen = (("oom", "memory.events of /run-7: oom_kill 0 -> 1"),)
    told = words.of_failure(failure(signal="KILL", seen=seen), *ends(0, "step 1\n"))
    assert told.reason == "host-memory"
    assert "OOM killer" in told.said
    assert told.proofs[0].text == seen[0][1]


def test_where_the_node_could_not_look_for_the_oom_killer_no_absence_is_claimed():
    seen = (("blind", "no oom_kill counter in a control group of its own, and /dev/kmsg: Permission denied"),)
    told = words.of_failure(failure(signal="KILL", seen=seen), *ends(0, "step 1\n"))
    assert told.reason == "killed"
    assert told.said.endswith("signs of the OOM killer could not be looked for")
    assert told.proofs[0].text == seen[0][1]


@pytest.mark.parametrize(
    ("code", "signal", "reason", "said"),
    [
        (None, "KILL", "killed", "sender unknown"),
        (None, "SEGV", "crash", "PYTHONFAULTHANDLER=1"),
        (None, "BUS", "bus-error", "/dev/shm"),
        (None, "ABRT", "abort", "SIGABRT"),
        (137, "", "killed", "a shell's word for SIGKILL"),
        (139, "", "crash", "a shell's word for SIGSEGV"),
        (135, "", "bus-error", "SIGBUS"),
        (134, "", "abort", "SIGABRT"),
        (245, "", "unknown", "could be SIGSEGV"),
        (249, "", "unknown", "could be SIGBUS"),
        (255, "", "unknown", "why is not known"),
        (1, "", "unknown", "why is not known"),
        (127, "", "file", "not found"),
    ],
)
def test_exits_in_all_their_dresses(code, signal, reason, said):
    told = words.of_failure(failure(code=code, signal=signal), *ends(0, "epoch 3\n"))
    assert told.reason == reason
    assert said in told.said
    if reason == "killed":
        assert "OOM killer: the" not in told.said  # 137 alone is no proof of it


def test_nothing_at_all_is_said_as_such():
    cause = judge([suspect(0, 1.0)])
    assert (cause.reason, cause.proofs) == ("unknown", ())
    assert cause.said.startswith("why is not known")


@pytest.mark.parametrize(
    "pattern", [*patterns.PATTERNS, patterns.CRASH, patterns.CPP], ids=lambda p: p.reason
)
def test_a_pattern_is_looked_for_only_where_its_words_are(pattern):
    """Without hints each line of each log would be searched for it."""
    assert pattern.hints


@pytest.mark.parametrize(
    ("expression", "hints"),
    [
        (r"^KeyError\b|No such (?:file|dir)", ("KeyError", "No such ")),
        (r"out of memories?\.", ("out of memorie",)),
        (r"[Dd]etected \d+ oom[-_]kill", ("etected ",)),
        (r"a|No such file", ()),
        (r"version `\w+_[\d.]+' not found|x\(yz\)w", ("' not found", "x(yz)w")),
    ],
)
def test_hints(expression, hints):
    assert hints_of(expression) == hints


def test_of_a_rank_of_unknown_end_the_last_line_is_not_its_reason():
    gone = Failure(
        1.0, "n1", CauseKind.UNKNOWN, "rank 0 is gone, and its exit status is not to be had", rank=0
    )
    told = words.of_failure(gone, *ends(0, "epoch 3\n"))
    assert (told.message, told.reason) == (gone.message, "unknown")
    assert told.proofs[0].text == "epoch 3"
    seen = (("oom", "/x/memory.events: oom_kill 0 -> 1"),)
    gone = Failure(1.0, "n1", CauseKind.UNKNOWN, "rank 0 is gone", rank=0, seen=seen)
    assert words.of_failure(gone, *ends(0, "epoch 3\n")).reason == "host-memory"


def test_what_our_own_part_under_a_launcher_refused_is_the_reason():
    said = "the launcher does not tell its ranks who they are: RANK=(not set)"
    text = f"rankdeck shim: {said}\n" + traceback("subprocess.CalledProcessError: Command 'x' returned 126.")
    launcher = Failure(1.0, "n1", CauseKind.LAUNCHER, "the launcher ended with status 1", code=1)
    told = words.of_failure(launcher, *ends(0, text))
    assert (told.message, told.reason) == (said, "refused")
    assert judge([Suspect(launcher, told)]).message == said


def test_a_bus_error_is_told_as_that_with_the_fault_handlers_lines_too():
    text = "Fatal Python error: Bus error\n\nCurrent thread 0x00007f2d (most recent call first):\n"
    told = words.of_failure(failure(signal="BUS"), *ends(0, text))
    assert told.reason == "bus-error"
    assert "/dev/shm" in told.said
