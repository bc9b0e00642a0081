"""What a probe read on one node: file contents, command outputs, and what system calls answered.

Raw text, exactly as the node gave it, and its JSON form: the form that is recorded, replayed, and sent along
with a report of a fault. What the text means is for others to say.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

NOT_FOUND = 127
"""What a shell answers for a program that is not installed (POSIX, Shell Command Language 2.8.2)."""

TIMED_OUT = 124
"""What coreutils' `timeout` answers for a program that it had to end."""


@dataclass(frozen=True, slots=True)
class CommandReading:
    """One command that was run on the node."""

    argv: tuple[str, ...]
    rc: int | None
    """Its exit status; None: it gave no answer within its time and was ended."""
    stdout: str = ""
    stderr: str = ""

    @property
    def timed_out(self) -> bool:
        """True: it was ended because it took too long."""
        return self.rc is None or self.rc == TIMED_OUT

    @property
    def line(self) -> str:
        """The command as a person would type it: the name of this piece of evidence."""
        return " ".join(self.argv)


@dataclass(frozen=True)
class Readings:
    """All that a probe read on one node. Everything may be missing: then the lookups answer None."""

    files: Mapping[str, str] = field(default_factory=dict)
    """Absolute path -> content. A path that is missing is not there, or could not be read."""
    commands: tuple[CommandReading, ...] = ()
    """A command that is missing is not installed, or was not asked."""
    syscalls: Mapping[str, Any] = field(default_factory=dict)
    """Name -> what the node's own calls answered: limits, opened devices, resolved names."""

    def file(self, path: str) -> str | None:
        """A file's content without blanks around it; None: not there or not readable."""
        content = self.files.get(path)
        return None if content is None else content.strip()

    def under(self, prefix: str) -> Mapping[str, str]:
        """The files below a folder: path relative to it -> content without blanks around it."""
        start = prefix.rstrip("/") + "/"
        found = {}
        for path in self._sorted[bisect_left(self._sorted, start) :]:
            if not path.startswith(start):
                break
            found[path[len(start) :]] = self.files[path].strip()
        return found

    @cached_property
    def _sorted(self) -> list[str]:
        """All paths; those of a folder stand side by side."""
        return sorted(self.files)

    def names_in(self, folder: str) -> tuple[str, ...]:
        """The names directly in a folder of which some file was read, sorted."""
        return tuple(sorted({path.partition("/")[0] for path in self.under(folder)}))

    def command(self, *argv: str) -> CommandReading | None:
        """The answer to exactly these words; None: not installed or not asked.

        The program may be given without its folder: `fi_info` finds `/opt/amazon/efa/bin/fi_info`.
        """
        return next((found for found in self.ran(argv[0]) if found.argv[1:] == argv[1:]), None)

    def ran(self, program: str) -> Iterator[CommandReading]:
        """Every command of a program that was there, in the order they were run."""
        for found in self.commands:
            if found.argv and found.rc != NOT_FOUND and _is_program(found.argv[0], program):
                yield found

    def syscall(self, name: str) -> Any:
        """What a call answered, as JSON; None: not asked, or no answer."""
        return self.syscalls.get(name)

    def number(self, name: str) -> float | None:
        """A call's answer as a number; None: there is none, or it is no number (`unlimited`)."""
        return finite(self.syscalls.get(name))

    def text(self, name: str) -> str | None:
        """A call's answer as text; None: there is none, or it is no text."""
        value = self.syscalls.get(name)
        return value if isinstance(value, str) else None

    def flag(self, name: str) -> bool | None:
        """A call's answer as yes or no; None: there is none."""
        value = self.syscalls.get(name)
        return value if isinstance(value, bool) else None

    def texts(self, name: str) -> tuple[str, ...] | None:
        """A call's answer as a list of texts; None: there is none."""
        value = self.syscalls.get(name)
        return tuple(map(str, value)) if isinstance(value, list | tuple) else None

    def mapping(self, name: str) -> Mapping[str, Any] | None:
        """A call's answer as names and values; None: there is none."""
        value = self.syscalls.get(name)
        return value if isinstance(value, Mapping) else None

    def to_json(self) -> dict[str, Any]:
        """The recorded form."""
        return {
            "files": dict(self.files),
            "commands": [
                {"argv": list(each.argv), "rc": each.rc, "stdout": each.stdout, "stderr": each.stderr}
                for each in self.commands
            ],
            "syscalls": dict(self.syscalls),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Readings:
        """The readings that `to_json` wrote; other keys are passed over.

        Raises:
            ValueError: a part has not the right shape; the message names it and says what was found.
        """
        files = _part(data, "files", Mapping, {})
        syscalls = _part(data, "syscalls", Mapping, {})
        commands = _part(data, "commands", list, [])
        for path, content in files.items():
            if not isinstance(content, str):
                raise ValueError(f"files['{path}']: text expected, found {_shown(content)}")
        return cls(files, tuple(_command(place, entry) for place, entry in enumerate(commands)), syscalls)


def finite(value: object) -> float | None:
    """A value that a computer can count with, as a number; None: it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def digits(text: str | None) -> int | None:
    """A count of at most 18 digits, as in /proc and /sys, without blanks around it; None: it is none.

    Python itself takes digits of all scripts, and refuses numbers of some thousand digits with an error.
    """
    bare = (text or "").strip()
    return int(bare) if bare.isascii() and bare.isdecimal() and len(bare) <= 18 else None


def _is_program(word: str, program: str) -> bool:
    return word == program or ("/" not in program and word.rpartition("/")[2] == program)


def _part(data: Mapping[str, Any], name: str, kind: type, empty: Any) -> Any:
    found = data.get(name, empty)
    if not isinstance(found, kind):
        wanted = "a list" if kind is list else "an object"
        raise ValueError(f"{name}: {wanted} expected, found {_shown(found)}")
    return found


def _command(place: int, entry: Any) -> CommandReading:
    where = f"commands[{place}]"
    if not isinstance(entry, Mapping):
        raise ValueError(f"{where}: an object expected, found {_shown(entry)}")
    argv = entry.get("argv")
    if not isinstance(argv, list) or not argv or not all(isinstance(word, str) for word in argv):
        raise ValueError(f"{where}.argv: a list of words expected, found {_shown(argv)}")
    rc = entry.get("rc")
    if isinstance(rc, bool) or not isinstance(rc, int | None):
        raise ValueError(f"{where}.rc: a whole number or null expected, found {_shown(rc)}")
    return CommandReading(
        argv=tuple(argv),
        rc=rc,
        stdout=_output(where, entry, "stdout"),
        stderr=_output(where, entry, "stderr"),
    )


def _output(where: str, entry: Mapping[str, Any], name: str) -> str:
    found = entry.get(name, "")
    if not isinstance(found, str):
        raise ValueError(f"{where}.{name}: text expected, found {_shown(found)}")
    return found


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
