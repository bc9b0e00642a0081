"""The node-side folder of one run: what lies where, and files that are never seen half written."""

import errno
import json
import os

from .encoding import raw, text


class RunFolder:
    """Paths of one run and node rank. `path` is bytes."""

    def __init__(self, path):
        self.path = path if isinstance(path, bytes) else raw(path)
        self.plan = self._at(b"plan.json")
        self.state = self._at(b"supervisor.json")
        self.lock = self._at(b"supervisor.lock")
        self.trouble = self._at(b"supervisor.log")
        self.events = self._at(b"events.jsonl")
        self.socket = self._at(b"control.sock")
        self.ranks = self._at(b"ranks")
        self.archive = self._at(b"agent.zip")
        self.files = self._at(b"files")
        self.join = self._at(b"join")
        self.link = self._at(b"link.json")
        self.kin = self._at(b"kin.json")

    def _at(self, name):
        return os.path.join(self.path, name)

    def rank_file(self, log, what):
        """`ranks/<log>.start.json` or `.exit.json`; `log` as `log_stem` gives it."""
        return os.path.join(self.ranks, "{}.{}.json".format(log, what).encode("ascii"))

    def log_dir(self, plan):
        """Where the ranks' output goes."""
        return raw(plan["log_dir"]) if plan.get("log_dir") else self._at(b"logs")


def log_stem(rank, attempt=0):
    """A rank's logs without their ending: `3`, and `3.2` for what it wrote in the second attempt."""
    return str(rank) if attempt < 2 else "{}.{}".format(rank, attempt)


def log_file(name, node_rank=0):
    """The file of a log as the protocol names it: `3.out` is rank-00003.out.

    Nodes may share one folder for logs, so a launcher's has its node's rank in the name: `launcher-0.out` is
    node-00001.launcher-0.out. Each attempt of a launcher that starts its ranks again has logs of its own:
    `3.2.out` is rank-00003.attempt-2.out.

    Raises:
        ValueError: it is no such name.
    """
    stem, dot, stream = name.rpartition(".")
    rank, _, attempt = stem.partition(".")
    if dot and rank.isdigit() and stream in ("out", "err", "times"):
        if not attempt and "." not in stem:
            return "rank-{:05d}.{}".format(int(rank), stream).encode("ascii")
        if attempt.isdigit() and int(attempt) > 1:
            return "rank-{:05d}.attempt-{}.{}".format(int(rank), int(attempt), stream).encode("ascii")
    if dot and stream in ("out", "err") and stem.startswith("launcher-") and stem[9:].isdigit():
        return "node-{:05d}.{}".format(node_rank, name).encode("ascii")
    raise ValueError(
        "log {!r}: allowed are names such as 3.out, 3.err, 3.2.out and launcher-0.out".format(name)
    )


def log_names(plan):
    """Every log of the node's plan that has a name before the start, launchers first."""
    names = []
    for index, process in enumerate(plan["processes"]):
        if process["launcher"]:
            names += ["launcher-{}.out".format(index), "launcher-{}.err".format(index)]
    for process in plan["processes"]:
        if process.get("fixed_ranks", True):
            for rank in process["ranks"]:
                names += ["{}.out".format(rank), "{}.err".format(rank)]
    return names


def locate(path):
    """The RunFolder of a path (text), by the one name that every session and every rank knows it by."""
    return RunFolder(os.path.realpath(raw(path)))


def write_json(path, value):
    """Replace a file in one step; 0600. Raises OSError (disk full, read-only), leaving the old one."""
    temporary = path + ".{}.new".format(os.getpid()).encode("ascii")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        try:
            write_all(fd, json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n")
        finally:
            os.close(fd)
        os.rename(temporary, path)
    except OSError:
        _unlink(temporary)
        raise


def write_private(path, data):
    """Write a file (bytes), 0600, in place of any that is there. Raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        write_all(fd, data)
    finally:
        os.close(fd)


def read_json(path):
    """The file's value, or None if it is not there or holds no JSON object."""
    try:
        with open(path, "rb") as file:
            value = json.loads(file.read().decode("utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def write_all(fd, data):
    """Write all of it. Raises OSError; ENOSPC also where the disk took only a part."""
    while data:
        written = os.write(fd, data)
        if written == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), text(b""))
        data = data[written:]


def _unlink(path):
    try:
        os.unlink(path)
    except OSError:
        pass
