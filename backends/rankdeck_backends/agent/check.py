"""`check`: whether what a plan needs is on this node, seen as the program will see it."""

import os
import select
import time

from . import environment, limited, login, network
from .encoding import printable, raw
from .errors import AgentError
from .execute import at_home, why_too_large
from .requests import field
from .setup import SetupRun

MODULE_LIMIT = 120.0
"""Seconds for an interpreter to look for a module: cold caches on a parallel file system are slow."""

_FIND = b"import importlib.util as u,sys;sys.exit(u.find_spec(sys.argv[1]) is None and 3)"


def answer(request, send):
    """`check`: replies `problems`; empty is good."""
    lines = field(request, "setup", list, [])
    cwd = field(request, "cwd", str, "") or None
    base = environment.without(environment.inherited(), field(request, "remove", list, []))
    if lines:
        base, failure = run_setup(lines, base, cwd)
        if failure is not None:
            message = "setup line failed with status {status}: {line}\n{output}".format(**failure)
            problem = {"kind": "setup", "value": failure["line"], "why": "setup", "message": message.strip()}
            return {"problems": [problem]}, b""
    own = environment.with_text(base, field(request, "env", dict, {}))
    problems = []
    too_large = why_too_large(own)
    if too_large:
        problem = {"kind": "environment", "value": "", "why": "environment", "message": too_large}
        return {"problems": [problem]}, b""  # nothing could be started to look for the rest
    for need in field(request, "needs", list):
        if need.get("kind") == "login":  # mpirun's and its ssh's environment is not the program's
            message = login.why_not(field(need, "value", str).split(), field(need, "by", str, ""), base)
        else:
            message = missing(need, own, cwd)
        if message:
            problems.append(
                {
                    "kind": need.get("kind"),
                    "value": need.get("value"),
                    "why": need.get("why", ""),
                    "message": message,
                    "hint": login.HINT if need.get("kind") == "login" else "",
                }
            )
    return {"problems": problems}, b""


def run_setup(lines, base, cwd):
    """Run setup lines to their end: `(environment, None)` or `(None, failure)`."""
    setup = SetupRun(lines, base, cwd)
    limited.GROUPS.add(setup.pid)
    waiting = select.poll()
    for fd in setup.fds:
        waiting.register(fd, select.POLLIN)
    while True:
        done, status = os.waitpid(setup.pid, os.WNOHANG)
        if done:
            limited.GROUPS.discard(setup.pid)
            return setup.ended(
                128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            )
        if time.monotonic() > setup.deadline():
            limited.kill_group(setup.pid)
            return setup.ended(None)
        for fd, _ in waiting.poll(20):
            if not setup.read(fd):
                waiting.unregister(fd)


def missing(need, base, cwd):
    """Why a need is not met, or an empty text."""
    kind, value = need.get("kind"), field(need, "value", str)
    where = at_home(raw(cwd), base) if cwd else at_home(b"~", base)
    path = os.path.join(where, at_home(raw(value), base))
    if kind == "port":
        return _port(value)
    if kind == "file":
        return _file(path)
    if kind == "dir":
        return _dir(path)
    if kind == "program":
        return _program(raw(value), path, base)
    if kind == "module":
        return _module(raw(value), at_home(raw(field(need, "by", str, "") or "python3"), base), base, where)
    raise AgentError(
        "bad_request", "check: kind {!r}; allowed: file, dir, program, module, port, login".format(kind)
    )


def _port(value):
    address, colon, port = value.rpartition(":")
    if address.startswith("[") and address.endswith("]"):
        address = address[1:-1]
    if not colon or not port or set(port) - set("0123456789") or not 0 < int(port) < 65536:
        return "port {!r}; allowed: address:port, with a port from 1 to 65535".format(value)
    why = network.cannot_bind(address, int(port))
    return "port {} at {}: {}".format(port, address or "all addresses", why) if why else ""


def _file(path):
    shown = printable(path)
    try:
        if os.path.isdir(path):
            return "{} is a folder".format(shown)
        with open(path, "rb"):
            return ""
    except OSError as error:
        return "{}: {}".format(shown, _reason(error.strerror, path))


def _reason(text, path):
    """Where a path breaks off: the nearest parent that exists."""
    parent = path
    while not os.path.lexists(parent) and parent not in (b"/", b""):
        parent = os.path.dirname(parent)
    if parent != path:
        return "{} ({} is there)".format(text, printable(parent))
    return text


def _dir(path):
    shown = printable(path)
    if not os.path.isdir(path):
        if os.path.lexists(path):
            return "{} is no folder".format(shown)
        return "{}: {}".format(shown, _reason("No such file or directory", path))
    return "" if os.access(path, os.X_OK) else "{} may not be entered (permission denied)".format(shown)


def _program(name, path, base):
    shown = printable(name)
    if b"/" in name or name.startswith(b"~"):
        if not os.path.isfile(path):
            return "{}: {}".format(printable(path), _reason("no such program", path))
        return "" if os.access(path, os.X_OK) else "{} is not executable".format(printable(path))
    search = base.get(b"PATH", os.defpath.encode("ascii"))
    for folder in search.split(b":"):
        found = os.path.join(folder or b".", name)
        if os.path.isfile(found) and os.access(found, os.X_OK):
            return ""
    return "{} is not in PATH ({})".format(shown, printable(search))


def _module(name, interpreter, base, where):
    shown, by = printable(name), printable(interpreter)
    cwd = where if os.path.isdir(where) else None
    done = limited.capture([interpreter, b"-c", _FIND, name], MODULE_LIMIT, base, cwd)
    if done.timed_out:
        return "{} did not tell within {:g} s whether it has the module {}".format(by, MODULE_LIMIT, shown)
    if done.status == 0:
        return ""
    if done.status == 3:
        return "{} has no module {}".format(by, shown)
    said = printable(done.err).strip().split("\n")[-1]
    return "{} could not look for the module {}: {}".format(by, shown, said)
