"""Forking shims and launchers from the supervisor."""

import os
import signal
import sys

from . import descriptors, execute, files, mpirun, seats, signals
from .encoding import printable, raw
from .run_folder import log_file
from .shim import exit_record, under_supervisor

__all__ = ["exit_record", "fork_launcher", "fork_shim", "last_words"]

_LAST_BYTES = 4096
_LAST_WORDS = 500
_RULE = 20
"""Dashes that make a rule (opal/util/show_help.c prints 74)."""


def fork_shim(folder, plan, index, env):
    """Fork the shim of a process that is one rank; returns its pid. Raises OSError: no more processes."""
    pid = os.fork()
    if pid == 0:
        leave_supervisor()
        under_supervisor(folder, plan, index, env)
    return pid


def fork_launcher(folder, plan, index, env):
    """Fork and exec a launcher with the shim between it and the program.

    Returns:
        Its pid, and a non-blocking pipe that ends when it has been exec'ed, or says why it could not be.

    Raises:
        OSError: no more processes.
    """
    process = plan["processes"][index]
    words = files.named(folder, execute.words(process["launcher"], env))
    argv = words + (
        mpirun.joining_words(folder, plan) if mpirun.is_mpirun(process) else _shim(folder, plan, index)
    )
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        leave_supervisor()
        _become(folder, plan, index, argv, env, write)
    os.close(write)
    os.set_blocking(read, False)
    return pid, read


def _shim(folder, plan, index):
    """The shim's words and the program's behind them."""
    program = [raw(word) for word in plan["processes"][index]["program"]]
    own = seats.counting_words(folder, plan["processes"][index])
    own += [os.fsencode(sys.executable), b"-I", b"-S", folder.archive, b"shim", folder.path]
    return own + [str(index).encode("ascii"), b"--"] + program


def _become(folder, plan, index, argv, env, trouble):
    """The child: becomes the launcher, or says why not."""
    try:
        os.setsid()
        descriptors.point(os.open(os.devnull, os.O_RDONLY), 0)
        for stream, target in (("out", 1), ("err", 2)):
            descriptors.point(_open_log(folder, plan, index, stream), target)
        descriptors.close_all_but((trouble,))
        signals.reset()
        execute.enter(plan["processes"][index]["cwd"], env)
        execute.replace(argv, env)
    except execute.CannotRun as error:
        os.write(trouble, raw(error.message))
        os._exit(error.status)
    except Exception as error:  # noqa: BLE001 - a process's boundary
        os.write(trouble, raw("{}: {}".format(type(error).__name__, error)))
    finally:
        os._exit(execute.NOT_RUN)


def _open_log(folder, plan, index, stream):
    try:
        return os.open(_log_path(folder, plan, index, stream), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)


def _log_path(folder, plan, index, stream):
    name = "launcher-{}.{}".format(index, stream)
    return os.path.join(folder.log_dir(plan), log_file(name, plan["node_rank"]))


def leave_supervisor():
    """In a forked child: drop what belongs to the supervisor's loop."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def last_words(folder, plan, index):
    """What a launcher's stderr says of its end, in a line.

    The last one; where there is a help text between rules, as Open MPI prints, what was said before that, or
    else its first paragraph: the help lists everything that could be wrong.
    """
    try:
        with open(_log_path(folder, plan, index, "err"), "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _LAST_BYTES))
            lines = [printable(line.strip()) for line in file.read().split(b"\n")]
    except OSError:
        return ""
    rules = [index for index, line in enumerate(lines) if len(line) >= _RULE and not line.strip("-")]
    before = [line for line in lines[: rules[0] if rules else None] if line]
    if before or not rules:
        return before[-1][:_LAST_WORDS] if before else ""
    paragraph = []
    for line in lines[rules[0] + 1 :]:
        if not line.strip("-") and paragraph:
            break
        paragraph += line.strip("-").split()
    return " ".join(paragraph)[:_LAST_WORDS]
