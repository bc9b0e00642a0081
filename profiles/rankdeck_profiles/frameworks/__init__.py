"""The ways a program's ranks are started. One file a framework; `get` finds it by name."""

from __future__ import annotations

import difflib

from rankdeck_profiles.errors import PlanError
from rankdeck_profiles.frameworks.base import Framework
from rankdeck_profiles.frameworks.command import Command
from rankdeck_profiles.frameworks.pytorch import PyTorch
from rankdeck_profiles.frameworks.torchrun import Torchrun

__all__ = ["Framework", "get", "names"]

_ALL: dict[str, Framework] = {framework.name: framework for framework in (Torchrun(), PyTorch(), Command())}


def names() -> tuple[str, ...]:
    """The names a profile's `framework` may have."""
    return tuple(_ALL)


def get(name: str) -> Framework:
    """The framework of that name.

    Raises:
        PlanError: there is none; the nearest name is suggested.
    """
    if name not in _ALL:
        near = difflib.get_close_matches(name.lower(), _ALL, n=1)
        raise PlanError(
            f'framework = "{name}" is not known' + (f'; did you mean "{near[0]}"?' if near else ""),
            f"allowed: {', '.join(_ALL)}",
        )
    return _ALL[name]
