"""Which MPI and which Python distributions a program would find here: after the setup lines, by asking."""

import os
import re

from . import check, environment, limited
from .encoding import printable, raw, text
from .execute import NOT_FOUND, at_home
from .requests import field

VERSION_LIMIT = 30.0
"""Seconds for `mpirun --version`: a cold parallel file system is slow."""
FOLDER_LIMIT = 5.0
"""Seconds for a file system to say whether a folder is there."""
PYTHON_LIMIT = 120.0
"""Seconds for an interpreter to load an MPI library, or to look for distributions."""

_FAMILIES = (
    (b"Open MPI", "openmpi"),
    (b"OpenRTE", "openmpi"),
    (b"Intel(R) MPI", "intel"),  # before the next: it has HYDRA in it, too
    (b"HYDRA", "mpich"),
    (b"MPICH", "mpich"),
)
_VERSION = re.compile(rb"\d+\.\d+[\w.]*")
_LIBRARY = (
    b"import mpi4py; mpi4py.rc.initialize = False\nfrom mpi4py import MPI; print(MPI.Get_library_version())"
)
_SOFTWARE = b"""
import sys
from importlib import metadata
for name in sys.argv[1:]:
    try:
        print(name, metadata.version(name))
    except metadata.PackageNotFoundError:
        pass
"""


_made = {}
"""What setup lines have left, in this request's own process."""


class Surroundings:
    """Where and how things are looked for: each distinct setup is run once.

    Attributes:
        base: the environment after removal and setup (bytes), None where setup failed.
        trouble: which line failed, or an empty text.
        cwd: the working directory (bytes), None where there is no such folder.
        python: the profile's interpreter (bytes).
    """

    def __init__(self, asked):
        """Run the setup lines.

        Args:
            asked: the request's `mpi` or `software`.
        """
        asked = dict(asked, op="probe")
        lines = field(asked, "setup", list, [])
        cwd = field(asked, "cwd", str, "") or None
        removed = field(asked, "remove", list, [])
        key = repr((lines, cwd, removed))
        if key not in _made:
            _made[key] = _set_up(lines, cwd, removed)
        self.base, self.trouble = _made[key]
        own = self.base or environment.inherited()
        where = at_home(raw(cwd or "~"), own)
        # In a child: a network file system that hangs would hang whoever looks.
        self.cwd = where if limited.call(lambda: b"1" * os.path.isdir(where), FOLDER_LIMIT) else None
        self.python = at_home(raw(field(asked, "python", str, "") or "python3"), own)

    def ask(self, argv, seconds):
        """Run a command there (bytes words), with a time limit."""
        return limited.capture(argv, seconds, self.base, self.cwd)


def _set_up(lines, cwd, removed):
    base = environment.without(environment.inherited(), removed)
    if not lines:
        return base, ""
    base, failure = check.run_setup(lines, base, cwd)
    if failure is None:
        return base, ""
    return None, "setup line failed with status {status}: {line}".format(**failure)


def facts(asked):
    """What `mpi` of a probe tells: {family, version, path, library, library_version, note}."""
    around = Surroundings(asked)
    found = {
        "family": "none",
        "version": "",
        "path": "",
        "library": None,
        "library_version": "",
        "note": around.trouble,
    }
    if around.base is None:
        return found
    found.update(launcher(around, raw(field(dict(asked, op="probe"), "mpirun", str, "") or "mpirun")))
    found.update(_library(around))
    return found


def launcher(around, name):
    """What is known of an mpirun (bytes) there: its family, version and path, or why there is none."""
    path = _on_path(at_home(name, around.base), around)
    if path is None:
        search = around.base.get(b"PATH", os.defpath.encode("ascii"))
        where = "no such program" if b"/" in name else "not in PATH ({})".format(printable(search))
        return {"note": "{}: {}".format(printable(name), where)}
    done = around.ask([path, b"--version"], VERSION_LIMIT)
    if done.timed_out:
        note = "{} --version did not answer within {:g} s".format(printable(path), VERSION_LIMIT)
        return {"path": text(path), "note": note}
    said = done.out + b"\n" + done.err  # some builds of Open MPI 5 print to stderr
    family = family_of(said)
    if family is None:
        lines = [line.strip() for line in said.split(b"\n") if line.strip()]
        note = printable(lines[0])[:200] if lines else "{} --version says nothing".format(printable(path))
        return {"family": "none" if done.status == NOT_FOUND else "other", "path": text(path), "note": note}
    return {"family": family, "path": text(path), "version": version_of(said)}


def daemon(around):
    """The path of what mpirun starts on other nodes: Open MPI's (5, then 4) or Hydra's program; or None."""
    found = (_on_path(name, around) for name in (b"prted", b"orted", b"hydra_pmi_proxy"))
    return next((text(path) for path in found if path), None)


def _on_path(name, around):
    """The program's path as PATH leads to it, links not followed; None: there is none."""
    if b"/" in name:
        found = [os.path.join(around.cwd or b"/", name)]
    else:
        search = around.base.get(b"PATH", os.defpath.encode("ascii"))
        found = [os.path.join(folder or b".", name) for folder in search.split(b":")]
    for path in found:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def _library(around):
    done = around.ask([around.python, b"-c", _LIBRARY], PYTHON_LIMIT)
    if done.status != 0:
        return {}
    return {"library": family_of(done.out) or "other", "library_version": version_of(done.out)}


def family_of(said):
    """The family that a version text (bytes) names, or None."""
    for word, family in _FAMILIES:
        if word in said:
            return family
    return None


def version_of(said):
    """The first version number in a text (bytes); empty if there is none."""
    found = _VERSION.search(said)
    return found.group(0).decode("ascii") if found else ""


def software(asked):
    """The versions of those of `names` that the interpreter finds; nothing is imported."""
    names = field(dict(asked, op="probe"), "names", list)
    around = Surroundings(asked)
    if around.base is None or not names:
        return {}
    done = around.ask([around.python, b"-c", _SOFTWARE] + [raw(name) for name in names], PYTHON_LIMIT)
    pairs = [line.split(" ", 1) for line in printable(done.out).splitlines() if " " in line]
    return {name: version.strip() for name, version in pairs}
