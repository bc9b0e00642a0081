"""Lines by which a failing program tells what went wrong, in the libraries' own words. Pure.

Sources: the texts as torch 2.13, NCCL 2.2x, gloo, CPython 3.8 to 3.14, glibc, Open MPI, MPICH and Slurm write
them: c10/cuda/CUDACachingAllocator.cpp, torch/csrc/distributed/c10d (ProcessGroupNCCL.cpp, TCPStore.cpp,
socket.cpp, NCCLUtils.cpp), torch/utils/data/_utils/signal_handling.py, ATen/MapAllocator.cpp,
gloo/transport/tcp (pair.cc, unbound_buffer.cc), nccl/src (misc/socket.cc, transport/net_ib.cc,
misc/shmutils.cc), Modules/faulthandler.c, elf/dl-load.c, NVIDIA's Xid catalogue.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from rankdeck_runs.judging.hints import hints_of
from rankdeck_runs.known_lines import is_told


class Blame(IntEnum):
    """What a line says of who is to blame; the greater, the more it tells."""

    PEER_LATE = 1
    """Another rank did not come: it may be alive, and the one to blame."""
    PEER_GONE = 2
    """Another rank's end is what it died of."""
    OWN = 3
    """Its own trouble."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A sort of trouble."""

    reason: str
    said: str
    line: re.Pattern[str]
    blame: Blame = Blame.OWN
    hints: tuple[str, ...] = ()
    """A text without any of these can't match; none: it may in any case."""

    def may_be_in(self, text: str) -> bool:
        """Whether it is worth looking for in a text."""
        return not self.hints or any(hint in text for hint in self.hints)


def _pattern(reason: str, said: str, line: str, blame: Blame) -> Pattern:
    return Pattern(reason, said, re.compile(line), blame, hints_of(line))


def _own(reason: str, said: str, line: str) -> Pattern:
    return _pattern(reason, said, line, Blame.OWN)


def _late(reason: str, said: str, line: str) -> Pattern:
    return _pattern(reason, said, line, Blame.PEER_LATE)


def _gone(reason: str, said: str, line: str) -> Pattern:
    return _pattern(reason, said, line, Blame.PEER_GONE)


_SHM = (
    "shared memory (/dev/shm) is full or too small: give it more room (of a container: --shm-size), or use "
    "fewer data loader workers"
)
_HOST_OOM = "the node's memory ran out, or its cgroup's limit was reached"

PATTERNS = (
    _own(
        "gpu-memory",
        "the GPU's memory ran out",
        r"CUDA out of memory|(?:CUDA|HIP) error: out of memory|Cuda failure (?:\d+ )?'out of memory'|"
        r"HIP out of memory|"
        r"CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED|RESOURCE_EXHAUSTED: Out of memory|"
        r"OOM when allocating tensor|CUDA_ERROR_OUT_OF_MEMORY",
    ),
    _own(
        "shared-memory",
        _SHM,
        r"out of shared memory|insufficient shared memory|"
        r"unable to (?:open|allocate|resize|write to) .*shared memory|"
        r"unable to open shared memory object|creating shared memory segment|unexpected bus error|"
        r"posix_fallocate failed : No space left|/dev/shm/\S+.*No space left on device|"
        r"No space left on device: '/dev/shm/",
    ),
    _own(
        "host-memory",
        _HOST_OOM,
        r"is killed by signal: Killed|^MemoryError\b|can't allocate memory: you tried to allocate|"
        r"std::bad_alloc|"
        r"Cannot allocate memory|[Dd]etected \d+ oom[-_]kill event|\boom-kill\b|"
        r"Out of memory: Killed process",
    ),
    _own(
        "port",
        "the port is in use: another program, or an earlier run, listens there",
        r"failed to listen on any local network address|EADDRINUSE|Address already in use|"
        r"address already in use",
    ),
    _own(
        "no-gpu",
        "CUDA finds no GPU that it can use: see the driver, CUDA_VISIBLE_DEVICES and the number of ranks",
        r"No CUDA GPUs are available|invalid device ordinal|no CUDA-capable device is detected|"
        r"CUDA driver version is insufficient|Found no NVIDIA driver|driver/library version mismatch|"
        r"no kernel image is available for execution",
    ),
    _own(
        "gpu-fault",
        "the GPU stopped the program: a fault of its kernels, or of the GPU itself",
        r"device-side assert triggered|an illegal memory access was encountered|unspecified launch failure|"
        r"uncorrectable (?:NVLink )?(?:ECC )?error|misaligned address|an illegal instruction was encountered|"
        r"GPU has fallen off the bus|GPU is lost|CUDA error: unknown error|NVRM: Xid",
    ),
    _own(
        "nccl-use",
        "NCCL was used wrongly, as by two ranks on one GPU",
        r"ncclInvalidUsage|ncclInvalidArgument|Duplicate GPU detected",
    ),
    _own(
        "import",
        "a module or library can't be loaded: is this the interpreter that was meant, after its setup lines?",
        r"^ModuleNotFoundError\b|^ImportError\b|cannot open shared object file|undefined symbol: |"
        r"error while loading shared libraries|version `\w+_[\d.]+' not found|No module named ",
    ),
    _own(
        "disk",
        "a disk is full, or its quota is used up",
        r"No space left on device|Disk quota exceeded|PytorchStreamWriter failed writing file",
    ),
    _own(
        "file",
        "a file or folder is not there",
        r"^FileNotFoundError\b|\[Errno 2\] No such file or directory|No such file or directory$",
    ),
    _own(
        "permission",
        "a file or device may not be used",
        r"^PermissionError\b|Permission denied|\[Errno 13\]|Operation not permitted$",
    ),
    _own(
        "limits",
        "a limit of the system was reached: open files (nofile) or processes (nproc)",
        r"Too many open files|can't start new thread|Resource temporarily unavailable|"
        r"failed to create thread",
    ),
    _own(
        "mpi-abort",
        "the program called MPI_Abort",
        r"MPI_ABORT was invoked on rank|application called MPI_Abort|^Abort\(\d+\) on node \d+",
    ),
    _own(
        "arguments", "the program does not know its arguments", r": error: (?:unrecognized|the following) arg"
    ),
    _late(
        "collective-late",
        "it waited in vain for others in a collective",
        r"Watchdog caught collective operation timeout|Timed out waiting \d+ms for (?:recv|send) operation|"
        r"Application timeout caused pair closure|watchdog got stuck for \d+ seconds|"
        r"Some NCCL operations have failed or timed out|Timeout at NCCL work|"
        r"Exception \(either an error or timeout\) detected by watchdog|monitoredBarrier",
    ),
    _late(
        "rendezvous-late",
        "it waited in vain for others when the job came together",
        r"seconds waiting for clients|socket has timed out after|wait timeout after \d+ms|"
        r"^(?:torch\.distributed\.)?DistStoreError\b|RendezvousTimeoutError|connectFullMesh failed|"
        r"Timed out after \d+ seconds waiting",
    ),
    _gone(
        "peer-gone",
        "it lost the connection to another rank",
        r"Connection closed by (?:remote )?peer|Connection reset by (?:remote )?peer|"
        r"Connection was likely closed|"
        r"remote process exited|ncclRemoteError|Connection refused|Broken pipe|Socket is not connected|"
        r"Failed to recv, got 0 bytes|Got completion from peer|another rank (?:has )?(?:failed|died)|"
        r"NCCL communicator (?:was|has been) aborted|ConnectionResetError|BrokenPipeError|DistNetworkError",
    ),
    _gone(
        "told-to-end",
        "it was told to end",
        r"^KeyboardInterrupt\b|SignalException: Process \d+ got signal|^SystemExit\b",
    ),
    _own(
        "link",
        "a connection to a node broke",
        r"client_loop: send disconnect|closed by remote host|lost communication with a remote daemon",
    ),
)
"""The most telling first: a line may meet several."""


CRASH = _own(
    "crash",
    "it crashed in native code",
    r"^Fatal Python error: (?!Aborted|Bus error)|^\*\*\* Process received signal|Caught signal \d+ \(",
)
CPP = _own(
    "cpp",
    "a C++ exception ended it",
    r"^terminate called after throwing an instance of '([^']*)'|^libc\+\+abi: terminating",
)


def worth(text: str) -> Sequence[Pattern]:
    """Of `PATTERNS`, those that may be met somewhere in a text."""
    return [pattern for pattern in PATTERNS if pattern.may_be_in(text)]


def of_line(line: str, among: Sequence[Pattern] = PATTERNS) -> Pattern | None:
    """The sort of trouble that a line tells of, if it is a known one."""
    found = next((pattern for pattern in among if pattern.line.search(line)), None)
    return found if found is not None and is_told(line) else None


def of_block(lines: Iterable[str]) -> Pattern | None:
    """The sort of trouble of an error's lines: the first line that tells one, as the rest explains that."""
    return next((found for line in lines if (found := of_line(line)) is not None), None)


@dataclass(frozen=True, slots=True)
class Work:
    """How far a rank had come with a process group's collectives when its watchdog gave up."""

    stuck: int
    """The number of the collective that it gave up."""
    operation: str
    enqueued: int | None = None
    """The number of the last that it had begun; None: not said."""


_STUCK = re.compile(r"Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=(\d+), OpType=(\w+)")
_ENQUEUED = re.compile(r"last enqueued NCCL work: (\d+)")


def work_of(lines: Iterable[str]) -> Work | None:
    """What a rank's watchdog says of its collectives; None if it says nothing."""
    stuck: re.Match[str] | None = None
    enqueued: re.Match[str] | None = None
    for line in lines:
        stuck = stuck or _STUCK.search(line)
        enqueued = enqueued or _ENQUEUED.search(line)
    if stuck is None:
        return None
    return Work(int(stuck[1]), stuck[2], int(enqueued[1]) if enqueued else None)
