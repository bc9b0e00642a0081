"""Becoming another program, and saying plainly why that failed."""

import errno
import os
import struct

from .encoding import printable, raw

NOT_FOUND = 127
"""The shell's exit status for a program that is not there (POSIX sh, 2.8.2)."""
NOT_RUN = 126
"""The shell's exit status for one that is there and cannot be run."""

_NAMED = 5
"""Variables that a message names."""
_POINTER = struct.calcsize("P")


class CannotRun(Exception):
    """The program could not be started.

    Attributes:
        message: what and why.
        status: 127 where there is no such program, else 126.
    """

    def __init__(self, message, status):
        Exception.__init__(self, message)
        self.message = message
        self.status = status


def at_home(word, environment):
    """`~` and `~/x` as the node's home; anything else unchanged (bytes)."""
    if word == b"~" or word.startswith(b"~/"):
        home = environment.get(b"HOME") or raw(os.path.expanduser("~"))
        return home.rstrip(b"/") + word[1:]
    return word


def words(plan_words, environment):
    """The plan's words as bytes, the home filled in."""
    return [at_home(raw(word), environment) for word in plan_words]


def enter(directory, environment):
    """Change to the working directory (text from the plan), and let PWD agree.

    Raises:
        CannotRun: it is not there or may not be entered.
    """
    path = at_home(raw(directory or "~"), environment)
    try:
        os.chdir(path)
    except OSError as error:
        raise CannotRun("working directory {}: {}".format(printable(path), error.strerror), NOT_RUN)
    environment[b"PWD"] = path


def replace(argv, environment):
    """Become `argv` (bytes); returns only by raising.

    Raises:
        CannotRun: with the reason.
    """
    try:
        os.execvpe(argv[0], argv, environment)
    except OSError as error:
        raise CannotRun(_why(argv[0], environment, error), _status(error))
    except ValueError as error:  # a NUL inside a word
        raise CannotRun("{}: {}".format(printable(argv[0]), error), NOT_RUN)


def _status(error):
    return NOT_FOUND if error.errno in (errno.ENOENT, errno.ENOTDIR) else NOT_RUN


def why_too_large(environment):
    """Why no program can be started with an environment (bytes); empty if one can, with no arguments yet."""
    # The kernel counts each string with its NUL, and a pointer to it (fs/exec.c).
    size = sum(len(name) + len(value) + 2 + _POINTER for name, value in environment.items())
    return _too_long(environment) if size > os.sysconf("SC_ARG_MAX") else ""


def _too_long(environment):
    told = "arguments and environment are too long for this system ({} bytes at most); {}"
    return told.format(os.sysconf("SC_ARG_MAX"), _largest(environment))


def _largest(environment):
    """The variables that are worth looking at first."""
    sizes = sorted(((len(value), name) for name, value in environment.items()), reverse=True)
    largest = ", ".join("{} {}".format(printable(name), size) for size, name in sizes[:_NAMED])
    return "the largest of {} variables: {}".format(len(sizes), largest)


def _why(program, environment, error):
    shown = printable(program)
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        if b"/" not in program:
            return "{}: no such program in PATH={}".format(shown, printable(environment.get(b"PATH", b"")))
        if os.path.exists(program):
            return "{}: it is there, but the interpreter that its first line names is not".format(shown)
        return "{}: no such file".format(shown)
    if error.errno == errno.EACCES:
        if os.path.isdir(program):
            return "{}: is a folder".format(shown)
        return "{}: not executable, or on a file system mounted noexec (permission denied)".format(shown)
    if error.errno == errno.ENOEXEC:
        return "{}: neither a binary for this machine nor a script with a #! line".format(shown)
    if error.errno == errno.E2BIG:
        return "{}: {}".format(shown, _too_long(environment))
    return "{}: {}".format(shown, error.strerror)


def is_found(argv, directory, environment):
    """Whether `replace` would find its program. A word with a `$` is filled in only later: taken as found.

    Args:
        argv: the words (bytes).
        directory: the working directory (text from the plan).
        environment: the program's.
    """
    program = argv[0]
    if b"$" in program:
        return True
    cwd = at_home(raw(directory or "~"), environment)
    folders = [b""] if b"/" in program else environment.get(b"PATH", raw(os.defpath)).split(b":")
    paths = [os.path.join(cwd, folder, program) for folder in folders]
    return any(os.path.isfile(path) and os.access(path, os.X_OK) for path in paths)
