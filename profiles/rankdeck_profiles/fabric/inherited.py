"""Variables that a rank would find set already: in the node's environment, and in NCCL's own files.

NCCL (src/misc/param.cc, 2.30) reads $NCCL_CONF_FILE, else ~/.nccl.conf, and then /etc/nccl.conf, each with
setenv(overwrite=0): the environment wins, then the file that comes first. Lines are not trimmed, so a blank
beside `=` makes a variable of another name: such a line does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rankdeck_profiles.readings import Readings

ENVIRONMENT = "the environment"


@dataclass(frozen=True, slots=True)
class Inherited:
    """One variable as it was found."""

    name: str
    value: str
    source: str
    """`the environment`, or the file."""
    line: str
    """The whole line."""

    @property
    def from_file(self) -> bool:
        """Whether it stands in one of NCCL's files."""
        return self.source != ENVIRONMENT


@dataclass(frozen=True, slots=True)
class InheritedSet:
    """All that is set before rankdeck sets anything."""

    effective: Mapping[str, Inherited]
    """By name, the one that wins."""
    without_effect: tuple[Inherited, ...]
    """Lines of files with blanks beside `=`."""

    def value(self, name: str) -> str | None:
        """The value that a rank would see; None: not set."""
        found = self.effective.get(name)
        return None if found is None else found.value


def environment(readings: Readings) -> dict[str, str] | None:
    """The node's environment as `env` printed it; None: not asked."""
    asked = readings.command("env")
    if asked is None:
        return None
    pairs = (line.partition("=") for line in asked.stdout.splitlines())
    return {name: value for name, equals, value in pairs if equals}


def inherited(readings: Readings, profile_env: Mapping[str, str] | None = None) -> InheritedSet:
    """What is set on a node, before what rankdeck computes.

    Args:
        readings: of the node.
        profile_env: the profile's own variables, which win over all.
    """
    own = environment(readings) or {}
    effective: dict[str, Inherited] = {}
    broken = []
    for name, value in (profile_env or {}).items():
        effective[name] = Inherited(name, value, "the profile's [env]", f"{name}={value}")
    for name, value in own.items():
        effective.setdefault(name, Inherited(name, value, ENVIRONMENT, f"{name}={value}"))
    for path in _files(readings, own):
        for line in _lines(readings, path):
            name, equals, value = line.partition("=")
            if not equals:
                continue
            found = Inherited(name.strip(), value.strip(), path, line)
            if name != name.strip() or (value[:1].isspace() and value.strip()):
                broken.append(found)
            else:
                effective.setdefault(name, Inherited(name, value, path, line))
    return InheritedSet(effective, tuple(broken))


def _files(readings: Readings, own: Mapping[str, str]) -> Iterator[str]:
    home = readings.text("home") or own.get("HOME")
    if named := own.get("NCCL_CONF_FILE"):
        yield named
    elif home:
        yield f"{home.rstrip('/')}/.nccl.conf"
    else:
        yield from (path for path in sorted(readings.files) if path.endswith("/.nccl.conf"))
    yield "/etc/nccl.conf"


def _lines(readings: Readings, path: str) -> Iterator[str]:
    for line in readings.files.get(path, "").splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            yield line
