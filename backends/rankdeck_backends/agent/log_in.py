"""`log_in`: whether ssh leads from this node to others without a question, as an mpirun uses it."""

from . import limited
from .encoding import printable, raw
from .errors import AgentError
from .requests import field

_OPTIONS = [b"-o", b"BatchMode=yes", b"-o", b"ConnectTimeout=5", b"-o", b"NumberOfPasswordPrompts=0"]
_AT_ONCE = 8
"""Log-ins at the same time: an SSH server refuses some beyond 10 (MaxStartups), each node has its own."""
_NOT_FOUND = 127
_FAILED = 255
"""ssh's own exit status; any other is that of the far command."""


def answer(request, send):
    """Replies `connects`: for each of `to` its state, and what ssh said."""
    wanted = field(request, "to", list)
    seconds = field(request, "seconds", float)
    found = []
    for start in range(0, len(wanted), _AT_ONCE):
        begun = [(entry, _begin(entry, seconds)) for entry in wanted[start : start + _AT_ONCE]]
        limited.finish([child for _, child in begun])
        found += [_told(entry, child) for entry, child in begun]
    return {"connects": found}, b""


def _begin(entry, seconds):
    if not isinstance(entry, dict):
        raise AgentError("bad_request", "log_in: to has {!r:.80}; allowed: objects".format(entry))
    words = [raw(word) for word in field(entry, "words", list)]
    return limited.begin([b"ssh"] + _OPTIONS + words + [b"true"], seconds)


def _told(entry, child):
    said = printable(child.err).strip()
    told = {"to": entry.get("to"), "kind": "ssh", "address": entry["words"][-1], "port": 22}
    told.update(seconds=round(child.took, 3), message=said[-300:], state=_state(child, said))
    return told


def _state(child, said):
    if child.timed_out:
        return "timeout"
    if child.status == _NOT_FOUND and "no such program" in said:
        return "missing"
    if child.status != _FAILED:
        return "ok"
    for words, state in (
        ("Host key verification failed", "host key"),
        ("REMOTE HOST IDENTIFICATION HAS CHANGED", "host key"),
        ("Permission denied", "auth"),
        ("Connection refused", "ECONNREFUSED"),
        ("timed out", "timeout"),
        ("No route to host", "EHOSTUNREACH"),
        ("Could not resolve", "resolve"),
    ):
        if words in said:
            return state
    return "failed"
