"""Whether a folder is one and the same on all nodes: one writes a file, the others find it and answer.

Files are named `.rankdeck-shared-<token>...`, hold the token alone, and are removed by who wrote them.
"""

import os
import time

from .encoding import raw
from .errors import AgentError
from .look_calls import word
from .requests import field

_PAUSE = 0.02


def token(request, send):
    """`token`: one step of the three, named by `step`.

    `write` (the first node): replies `state` of the write. `find` (another): waits up to `seconds`, replies
    `state` and `seconds`, and leaves an answer named `node`. `collect` (the first): replies `answered`, the
    state of each of `nodes`, and takes its own file away. `remove` (another): takes its answer away.
    """
    name = field(request, "token", str)
    if not name or set(name) - set("0123456789abcdef"):
        raise AgentError("bad_request", "token: {!r:.80}; allowed: hexadecimal digits".format(name))
    folder = os.path.expanduser(raw(field(request, "path", str)))
    first = os.path.join(folder, b".rankdeck-shared-" + name.encode("ascii"))
    step = field(request, "step", str)
    if step == "write":
        return {"state": _write(first, name)}, b""
    if step == "find":
        return _find(first, name, field(request, "node", int), field(request, "seconds", float)), b""
    if step == "collect":
        nodes = field(request, "nodes", list)
        answered = {str(node): _answer(first, name, node) for node in nodes}
        _remove(first)
        return {"answered": answered}, b""
    if step == "remove":
        _remove(_of(first, field(request, "node", int)))
        return {}, b""
    raise AgentError(
        "bad_request", "token: step {!r:.80}; allowed: write, find, collect, remove".format(step)
    )


def _of(first, node):
    return first + b"-%d" % node


def _write(path, name):
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except OSError as error:
        return word(error)
    try:
        os.write(fd, name.encode("ascii"))
        os.fsync(fd)
        return "ok"
    except OSError as error:
        return word(error)
    finally:
        os.close(fd)


def _find(first, name, node, seconds):
    began = time.monotonic()
    while True:
        state = _state(first, name)
        took = time.monotonic() - began
        if state == "ok":
            return {"state": "ok", "seconds": round(took, 4), "answer": _write(_of(first, node), name)}
        if took > seconds:
            return {"state": state, "seconds": round(took, 4)}
        time.sleep(_PAUSE)


def _answer(first, name, node):
    return _state(_of(first, node), name)


def _state(path, name):
    """`ok`, `missing`, `wrong`, or an error."""
    try:
        os.listdir(os.path.dirname(path))  # has a network file system look anew
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return word(error)
    try:
        return "ok" if os.read(fd, 256) == name.encode("ascii") else "wrong"
    except OSError as error:
        return word(error)
    finally:
        os.close(fd)


def _remove(path):
    try:
        os.unlink(path)
    except OSError:
        pass
