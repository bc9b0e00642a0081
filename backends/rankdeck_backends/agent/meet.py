"""Whether nodes reach each other: `listen` on one, `reach` on another, over the addresses the ranks will use.

No connection leaves a trace: it is closed with a reset, since a port that a connection was closed on by its
listener first can't be bound for a minute by programs that don't ask for SO_REUSEADDR.
"""

import errno
import os
import select
import signal
import socket
import struct
import time

from .accepting import PAUSE, is_full
from .encoding import printable
from .errors import AgentError
from .requests import field

_AT_ONCE = 256
"""Connections that wait to be taken."""
_LISTENS = "0A"
"""The state of a listening socket in /proc/net/tcp (linux/net/tcp_states.h)."""


def listen(request, send):
    """`listen`: event `listening`, then greets whoever connects until `end`; replies how many that were."""
    # SIGTERM is `end`, and may come at any moment: it only makes a pipe readable, which the loop looks at.
    ended, end = os.pipe()
    signal.signal(signal.SIGTERM, lambda number, frame: os.write(end, b"."))
    greeting = field(request, "token", str).encode("ascii")
    listening, told = [], []
    for wanted in field(request, "on", list):
        address, port = field(wanted, "address", str), field(wanted, "port", int)
        listener, state = _listener(address, port)
        entry = {"kind": wanted.get("kind"), "address": address, "port": port, "state": state}
        if listener is not None:
            listening.append(listener)
            entry["port"] = listener.getsockname()[1]
        elif state == "EADDRINUSE":
            entry["owner"] = owner(port)
        told.append(entry)
    send({"ev": "listening", "listening": told})
    return {"accepted": _greet(listening, greeting, field(request, "seconds", float), ended)}, b""


def _listener(address, port):
    """`(socket, "ok")`, or `(None, error)`."""
    try:
        listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    except OSError as error:
        return None, _word(error)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(_AT_ONCE)
        listener.setblocking(False)
        return listener, "ok"
    except OSError as error:
        listener.close()
        return None, _word(error)


def _greet(listening, greeting, seconds, ended):
    """Greet whoever connects, until `ended` (a descriptor) is readable or the time is over."""
    waiting = select.poll()
    waiting.register(ended, select.POLLIN)
    for listener in listening:
        waiting.register(listener, select.POLLIN)
    by_fd = {listener.fileno(): listener for listener in listening}
    held = []
    deadline = time.monotonic() + seconds
    going_on = True
    while going_on and time.monotonic() < deadline:
        for fd, _ in waiting.poll(max(0, int((deadline - time.monotonic()) * 1000))):
            if fd == ended:
                going_on = False
                continue
            try:
                taken, _ = by_fd[fd].accept()
                held.append(taken)
                taken.send(greeting)
            except OSError as error:
                if is_full(error):  # else it is gone again already
                    going_on = not _readable(ended, PAUSE)
                    break
    for taken in held:
        _reset(taken)
    return len(held)


def _readable(fd, seconds):
    waiting = select.poll()
    waiting.register(fd, select.POLLIN)
    return bool(waiting.poll(int(seconds * 1000)))


def reach(request, send):
    """`reach`: connects to all of `to` side by side. Replies `connects`."""
    greeting = field(request, "token", str).encode("ascii")
    wanted = field(request, "to", list)
    for entry in wanted:
        if not isinstance(entry, dict):
            raise AgentError("bad_request", "reach: to has {!r:.80}; allowed: objects".format(entry))
    return {"connects": _connect_all(wanted, greeting, field(request, "seconds", float))}, b""


def _connect_all(wanted, greeting, seconds):
    began = time.monotonic()
    waiting = select.poll()
    under_way = {}
    found = []
    for entry in wanted:
        told = {name: entry.get(name) for name in ("to", "kind", "address", "port")}
        told.update(state="timeout", message="")
        found.append(told)
        address = field(entry, "address", str)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setblocking(False)
        error = made.connect_ex((address, field(entry, "port", int)))
        if error not in (0, errno.EINPROGRESS):
            told.update(state=errno.errorcode.get(error, str(error)), message=os.strerror(error))
            made.close()
            continue
        under_way[made.fileno()] = (made, told)
        waiting.register(made, select.POLLIN)
    while under_way and time.monotonic() - began < seconds:
        left = seconds - (time.monotonic() - began)
        for fd, _ in waiting.poll(max(1, int(left * 1000))):
            waiting.unregister(fd)
            made, told = under_way.pop(fd)
            told.update(_answered(made, greeting), seconds=round(time.monotonic() - began, 6))
            _reset(made)
    for made, told in under_way.values():
        told["message"] = "no answer within {:g} s".format(seconds)
        _reset(made)
    return found


def _answered(made, greeting):
    error = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if error:
        return {"state": errno.errorcode.get(error, str(error)), "message": os.strerror(error)}
    try:
        said = made.recv(len(greeting) + 1)
    except OSError as problem:
        return {"state": _word(problem), "message": problem.strerror or ""}
    if said != greeting:
        return {"state": "stranger", "message": "something else answered: {!r}".format(printable(said[:40]))}
    return {"state": "ok"}


def _reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def reverse(request, send):
    """`reverse`: the names of `addresses`, and how long the name service took. Replies `reverse_dns`."""
    found = []
    for address in field(request, "addresses", list):
        began = time.monotonic()
        try:
            name = socket.getnameinfo((str(address), 0), socket.NI_NAMEREQD)[0]
        except (OSError, UnicodeError):
            name = None
        found.append({"address": address, "seconds": round(time.monotonic() - began, 4), "name": name})
        send({"ev": "named", "reverse_dns": found})
    return {"reverse_dns": found}, b""


def owner(port):
    """Who listens on a port: {pid, uid, command}, as far as /proc lets this user see; else None."""
    sockets = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table) as file:
                rows = [line.split() for line in file][1:]
        except OSError:
            continue
        for row in rows:
            if row[3] == _LISTENS and int(row[1].rpartition(":")[2], 16) == port:
                sockets["socket:[{}]".format(row[9])] = int(row[7])
    for link, uid in sockets.items():
        pid = _holder(link)
        if pid is not None:
            return {"pid": pid, "uid": uid, "command": _command(pid)}
    return next(({"pid": None, "uid": uid, "command": None} for uid in sockets.values()), None)


def _holder(link):
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        folder = "/proc/{}/fd".format(name)
        try:
            if any(os.readlink(os.path.join(folder, fd)) == link for fd in os.listdir(folder)):
                return int(name)
        except OSError:  # another user's, or gone
            continue
    return None


def _command(pid):
    try:
        with open("/proc/{}/cmdline".format(pid), "rb") as file:
            return printable(file.read(400).replace(b"\0", b" ")).strip()
    except OSError:
        return None


def _word(error):
    return errno.errorcode.get(error.errno, str(error.errno))
