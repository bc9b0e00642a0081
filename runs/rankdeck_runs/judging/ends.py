"""What an exit status or signal means, in words. Pure.

Sources: wait(2), signal(7), Bash's manual (EXIT STATUS).
"""

from __future__ import annotations

from rankdeck_runs.causes import CauseKind
from rankdeck_runs.failures import Failure

SEEN_OOM = "oom"
"""A node saw the kernel's OOM killer at work in the rank's cgroup, or its kernel log names the process."""
SEEN_NOTHING = "blind"
"""Nothing on the node could have shown the OOM killer: no counter, no kernel log that tells of its pids."""

_SIGNALS = {
    "KILL": ("killed", "SIGKILL, sender unknown: neither rankdeck, nor a sign of the OOM killer was seen"),
    "SEGV": (
        "crash",
        "it crashed (SIGSEGV); with PYTHONFAULTHANDLER=1 in [env] its log says where",
    ),
    "BUS": (
        "bus-error",
        "bus error (SIGBUS): mostly /dev/shm is full, or a mapped file was cut short",
    ),
    "ABRT": ("abort", "it ended itself (SIGABRT): an assertion or C++ exception"),
    "FPE": ("crash", "arithmetic error (SIGFPE)"),
    "ILL": ("crash", "illegal instruction (SIGILL): built for another CPU"),
    "TERM": ("told-to-end", "SIGTERM, not sent by rankdeck"),
    "INT": ("told-to-end", "SIGINT, not sent by rankdeck"),
    "HUP": ("told-to-end", "SIGHUP, not sent by rankdeck: its terminal was closed"),
    "XCPU": ("limits", "its CPU time limit was reached (SIGXCPU)"),
    "XFSZ": ("limits", "its limit on a file's size was reached (SIGXFSZ)"),
    "PIPE": ("abort", "SIGPIPE: it wrote to what nobody reads"),
}
_BLIND_KILL = "SIGKILL, sender unknown: not rankdeck; signs of the OOM killer could not be looked for"
_NUMBERS = {4: "ILL", 6: "ABRT", 7: "BUS", 8: "FPE", 9: "KILL", 11: "SEGV", 15: "TERM"}
"""Linux on x86-64 and ARM64."""
_SHELL = 128
"""A shell adds it to the number of the signal that ended its command."""
OOM_SAID = "killed by the kernel's OOM killer: the node's memory ran out, or its cgroup's limit was reached"


def is_oom(failure: Failure) -> bool:
    """Whether the OOM killer ended it: its status alone never says so."""
    by_kill = failure.signal == "KILL" or failure.kind is CauseKind.UNKNOWN
    return by_kill and any(what == SEEN_OOM for what, _ in failure.seen)


def of_signal(failure: Failure) -> tuple[str, str]:
    """Reason and words for a rank that a signal ended."""
    if is_oom(failure):
        return "host-memory", OOM_SAID
    if failure.signal == "KILL" and any(what == SEEN_NOTHING for what, _ in failure.seen):
        return "killed", _BLIND_KILL
    known = _SIGNALS.get(failure.signal)
    return known or ("signal", f"ended by SIG{failure.signal}")


def of_status(status: int) -> tuple[str, str]:
    """Reason and words for an exit status; the reason is empty where the status alone says nothing."""
    if name := _NUMBERS.get(status - _SHELL):
        return _SIGNALS[name][0], f"status {status} is a shell's word for SIG{name}"
    if name := _NUMBERS.get(256 - status):
        return "", f"status {status} could be SIG{name}, as some launchers pass it on (256 - {256 - status})"
    if status == 127:
        return "file", "status 127: the program, or one that it runs, was not found"
    if status == 126:
        return "permission", "status 126: the program can't be executed"
    return "", ""
