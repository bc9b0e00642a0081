"""How a node differs from a well-behaved one."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from cluster.errors import ClusterError


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """A node's peculiarities."""

    no_python: bool = False
    """No Python anywhere on PATH."""
    noise: bool = False
    """Start-up files of every shell print text and raw bytes on both streams; sshd shows a banner."""
    shell: str = "/bin/bash"
    """Login shell of root and alice."""
    refuse_key: bool = False
    """The SSH server accepts no key."""
    slow: float = 0.0
    """Seconds that each new session waits before its command starts."""
    disk_mib: int = 1536
    """Size of the node's own disk, held in memory as far as it is used. With less than 1 GiB free, preflight
    refuses a run."""

    clock: bool = False
    """Its sessions' wall clock, also that of processes that run, is what the fault ``jump`` says."""

    @classmethod
    def of_state(cls, state: dict[str, Any]) -> NodeOptions:
        """Those of a node that is up; options that only another checkout knows are passed over."""
        known = {each.name for each in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in state.items() if name in known})

    @classmethod
    def parse(cls, text: str) -> NodeOptions:
        """Reads ``noise,shell=/usr/bin/fish,slow=3``.

        Raises:
            ClusterError: An unknown name, or a value that is not of the option's type.
        """
        defaults = dataclasses.asdict(cls())
        values: dict[str, Any] = {}
        for item in filter(None, text.split(",")):
            name, given, value = item.partition("=")
            if name not in defaults:
                raise ClusterError(f"no such node option: {name!r}; there are {', '.join(defaults)}")
            kind = type(defaults[name])
            if bool(given) is (kind is bool):
                raise ClusterError(f"node option {name}: write {name if given else name + '=...'}")
            try:
                values[name] = True if kind is bool else kind(value)
            except ValueError as error:
                raise ClusterError(f"node option {name}: {value!r} is not a {kind.__name__}") from error
        return cls(**values)
