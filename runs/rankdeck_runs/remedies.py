"""What a person changes where a node lacks what a run needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_BY_KEY = {
    "workdir": 'name a folder that is on every node: workdir = "/path" in the profile',
    "python": 'name an interpreter of the node: python = "/path/to/python3" in the profile',
    "script": "the node looks for it in workdir: copy it there, or give its path on the node",
    "master_port": "end what holds the port, or choose another one: master_port in the profile",
}
"""By the profile's key that asks for it."""
_BY_KIND = {
    "module": "install it there, or name the Python that has it in the profile "
    '(python = "/path/to/venv/bin/python"), or activate its environment in a `setup` line',
    "program": "give its path, or bring it into PATH in a `setup` line of the profile (module load ...)",
    "file": "copy it there, or keep it in a folder that all nodes see",
    "environment": "put long values into files, and give the files' names",
    "setup": "try the line in a shell of the node: the profile's `setup` is run there before the ranks",
}
"""By what sort of thing is missing."""


def remedy(problem: Mapping[str, Any]) -> str:
    """What to do about a problem that the agent's `check` found, or an empty text.

    Args:
        problem: `kind`, `why` and perhaps a `hint` of its own, which is then the answer
            (docs/agent-protocol.md).
    """
    own = str(problem.get("hint") or "")
    return own or _BY_KEY.get(str(problem.get("why")), "") or _BY_KIND.get(str(problem.get("kind")), "")
