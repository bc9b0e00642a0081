"""Log lines that are alike in every program: which mean nothing, and what a launcher's words tell. Pure.

Sources: torch/csrc/distributed/c10d/socket.cpp; what mpirun of Open MPI 4.1.4 and 5.0.11 says (PRRTE breaks
the same texts into lines elsewhere); Intel MPI's message at the end of a job.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Harmless:
    line: re.Pattern[str]
    why: str


_HARMLESS = (
    # Said of each try on a host without IPv6; then torch goes on over IPv4. The warning alone: an exception
    # that lists all that it tried has the same words in it.
    _Harmless(
        re.compile(
            r"^\[W[^\]]*\] \[c10d\] The (?:client|server) socket cannot be initialized\b"
            r".*\(errno: 97 - Address family not supported by protocol\)\.?$"
        ),
        "no IPv6",
    ),
)

_WARNING = re.compile(r"^(?:\[rank\d+\]:)?\[[WI]\d*[^\]]*\]|^(?:\S.*:\d+: )?\w*Warning: |^\s*warnings?\.warn")
"""Said of what is tried again, or goes on: torch and Python mark it."""
_ABORTED = re.compile(r"^Fatal Python error: (?:Aborted|Bus error)")
"""What PYTHONFAULTHANDLER writes at SIGBUS, and at SIGABRT behind the words of whoever called abort(): NCCL's
watchdog that gave up, an uncaught C++ exception (Modules/faulthandler.c)."""
_DRAWN = re.compile(r"^[\W_]*$")
"""Rules, boxes and bars: nothing is said."""

_OURS = re.compile(r"^rankdeck(?: shim)?: (.*)")
"""What this project's own processes under a launcher say when they refuse to run a rank."""
_RULE = re.compile(r"^(?:-{40,}|={40,})$")
"""Open MPI puts its messages between two of these, Hydra between two of the other sort."""
_GENERAL = re.compile(
    r"unable to reliably start one or more daemons|does not know how to route a message|"
    r"lost communication with a remote daemon|daemon \([^)]*\) died unexpectedly|"
    r"Primary job\s+terminated normally|"
    r"detected that one or more processes exited with non-zero status|noticed that process rank|"
    r"MPI_ABORT was invoked on rank|BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES"
)
"""What mpirun says whatever has happened: pages of guesses, and that there was an end."""

_NO_SLOTS = re.compile(
    r"There are not enough slots available in the system to satisfy the\s+(?P<wanted>\d+)\s+"
    r"slots\s+that were requested by the application:\s+(?P<program>\S[^\n]*)"
)

_NO_TRANSPORT = re.compile(
    r"No components were able to be opened in the pml framework|find-available:none found|"
    r"PML \w+ cannot be selected|OFI fi_getinfo\(\) failed \([^)\n]*No data available\)"
)
"""Open MPI without a way to send, with its help texts and without them, and libfabric's for the others."""

_DAEMON_LOST = re.compile(
    r"has lost communication with a remote daemon\.\s+HNP daemon\s*: \S+ on node \S+\s+"
    r"Remote daemon\s*: \S+ on node (?P<node>\S+)"
)
"""Open MPI 4 and 5: a node, or mpirun's own process there, has gone. mpirun then ends every rank."""

_RANK_ENDED = (
    re.compile(
        r"noticed that process rank (?P<rank>\d+) with PID \d+ on node (?P<node>\S+)\s+exited\s+on\s+"
        r"signal\s+(?P<signal>\d+)(?:\s+\((?P<name>[^)\n]*)\))?"
    ),
    re.compile(r"Process name: \[.*,(?P<rank>\d+)\]\s+Exit code:\s+(?P<code>\d+)"),
    re.compile(
        r"MPI_ABORT was invoked on rank (?P<rank>\d+) in communicator .*\s+"
        r"(?:Proc: .*\s+)?(?:Errorcode:|with errorcode)\s+(?P<code>\d+)"
    ),
    re.compile(
        r"RANK (?P<rank>\d+) PID \d+ RUNNING AT (?P<node>\S+)\s+=\s+"
        r"(?:KILLED BY SIGNAL|KILL SIGNAL): (?P<signal>\d+)(?:\s+\((?P<name>[^)\n]*)\))?"
    ),
    re.compile(
        r"RANK (?P<rank>\d+) PID \d+ RUNNING AT (?P<node>\S+)\s+=\s+EXIT (?:STATUS|CODE): (?P<code>\d+)"
    ),
    # torchrun's table: torch/distributed/elastic/multiprocessing/errors/__init__.py, ChildFailedError.
    re.compile(
        r"Root Cause \(first observed failure\):\s+\[\d+\]:\s+time\s*: \S+\s+host\s*: (?P<node>\S+)\s+"
        r"rank\s*: (?P<rank>\d+) \(local_rank: \d+\)\s+exitcode\s*: "
        r"(?:-(?P<signal>\d+)|(?P<code>\d+)) \(pid: (?P<pid>\d+)\)"
    ),
)


_LOST = "mpi-daemon: mpirun lost its own process on {}, and ended all ranks"


@dataclass(frozen=True, slots=True)
class RankEnded:
    """What an mpirun or a torchrun says of the rank that ended first."""

    rank: int
    """As that mpirun counts."""
    node: str
    """The host by the name that mpirun has for it; empty where it does not say."""
    text: str
    """In one line."""


@dataclass(frozen=True, slots=True)
class Sorted:
    """A log's end without what tells nothing."""

    lines: tuple[str, ...]
    """The lines that are left."""
    harmless: tuple[str, ...]
    """A row for each sort of harmless line: how many there were, and why they are harmless."""
    refusal: str
    """Why this project's own part under a launcher did not run a rank; empty: it did not refuse."""
    fatal: str
    """What no MPI goes on after, in one line that begins with its name (`mpi-slots`); empty: nothing."""
    ended: RankEnded | None
    """The first rank of which an mpirun says that it ended the job."""


def is_told(line: str) -> bool:
    """Whether a line may tell why a program ended: not a warning, how it ended, nor one without a word."""
    return not (_WARNING.search(line) or _ABORTED.match(line) or _DRAWN.match(line))


def sort(lines: Sequence[str]) -> Sorted:
    """Sort out what is known.

    Args:
        lines: those of a log that have something on them, as harmless text.
    """
    counts: dict[str, list[str]] = {}
    kept = []
    for line in lines:
        known = next((each for each in _HARMLESS if each.line.search(line)), None)
        if known is None:
            kept.append(line)
        else:
            counts.setdefault(known.why, []).append(line)
    whole = "\n".join(kept)
    return Sorted(
        tuple(_without_general(kept)),
        tuple(f"{len(found)} x, harmless ({why}): {found[0]}" for why, found in counts.items()),
        next((match[1] for line in reversed(kept) if (match := _OURS.match(line))), ""),
        _fatal(whole),
        rank_ended(whole),
    )


def rank_ended(text: str) -> RankEnded | None:
    """The first rank that a launcher names as the end of its job, by where it stands in the text."""
    found = [match for pattern in _RANK_ENDED if (match := pattern.search(text))]
    if not found:
        return None
    match = min(found, key=lambda each: each.start())
    told = match.groupdict()
    rank, node = int(told["rank"]), told.get("node") or ""
    where = f"rank {rank} on {node}" if node else f"rank {rank}"
    pid = told.get("pid")
    who = f"torchrun: {where} (pid {pid})" if pid else f"mpirun: {where}"
    if told.get("signal"):
        name = f" ({told['name']})" if told.get("name") else ""
        return RankEnded(rank, node, f"{who} was ended by signal {told['signal']}{name}")
    return RankEnded(rank, node, f"{who} ended with status {told['code']}")


def _fatal(text: str) -> str:
    if match := _NO_SLOTS.search(text):
        program = match["program"].strip()
        return f"mpi-slots: {match['wanted']} slots wanted for {program}, and mpirun has fewer"
    if match := _NO_TRANSPORT.search(text):
        return (
            "mpi-transport: MPI found no way to send as options.transport or [env] ask for (ucx is for "
            f"InfiniBand): {match[0]}"
        )
    if match := _DAEMON_LOST.search(text):
        return _LOST.format(match["node"])
    return ""


def lost_daemon(message: str) -> str:
    """The host, as its mpirun names it, of a `Sorted.fatal` that says that mpirun lost its process there."""
    before, after = _LOST.split("{}")
    told = message.removeprefix(before).removesuffix(after)
    return told if message == _LOST.format(told) else ""


def _without_general(lines: Sequence[str]) -> list[str]:
    """The lines but for those of mpirun's messages that say nothing of the cause."""
    kept: list[str] = []
    begun: int | None = None
    """Where in `kept` the rule stands that a message may have begun with."""
    for line in lines:
        kept.append(line)
        if not _RULE.match(line):
            continue
        last = len(kept) - 1
        if begun is None or begun == last - 1:  # two rules in a row: one message ends, another begins
            begun = last
            continue
        if _GENERAL.search("\n".join(kept[begun:])):
            del kept[begun:]
        begun = None
    return kept
