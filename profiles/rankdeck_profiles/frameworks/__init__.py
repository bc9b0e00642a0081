"""The ways a program's ranks are started. One file a framework; `get` finds it by name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from rankdeck_profiles.errors import PlanError
from rankdeck_profiles.frameworks.accelerate import Accelerate
from rankdeck_profiles.frameworks.base import Framework
from rankdeck_profiles.frameworks.command import Command
from rankdeck_profiles.frameworks.deepspeed import DeepSpeed
from rankdeck_profiles.frameworks.horovod import Horovod
from rankdeck_profiles.frameworks.jax import Jax
from rankdeck_profiles.frameworks.launch import Launch
from rankdeck_profiles.frameworks.lightning import Lightning
from rankdeck_profiles.frameworks.mpi import Mpi
from rankdeck_profiles.frameworks.pytorch import PyTorch
from rankdeck_profiles.frameworks.tensorflow import TensorFlow
from rankdeck_profiles.frameworks.torchrun import Torchrun
from rankdeck_profiles.frameworks.transformers import Transformers
from rankdeck_profiles.model import Profile

__all__ = ["ADVICE", "Framework", "get", "names", "one_a_slot", "summaries"]

ADVICE = (
    "Data parallel, one rank a GPU, fits nine trainings of ten.",
    "Use all GPUs of one node before a second node: the network is slower than the links inside.",
    "For a search over hyper-parameters many small runs beat one distributed run.",
)
"""What to know before choosing, a line each."""

_ALL: dict[str, Framework] = {
    framework.name: framework
    for framework in (
        Torchrun(),
        PyTorch(),
        Mpi(),
        Horovod(),
        DeepSpeed(),
        Lightning(),
        Transformers(),
        Accelerate(),
        TensorFlow(),
        Jax(),
        Launch(),
        Command(),
    )
}


def names() -> tuple[str, ...]:
    """The names a profile's `framework` may have."""
    return tuple(_ALL)


def summaries() -> Mapping[str, str]:
    """For each framework, when to choose it, in a line."""
    return {name: framework.summary for name, framework in _ALL.items()}


def one_a_slot(profile: Profile) -> bool:
    """Whether a node gets one rank for each slot where the profile does not say; else it gets one rank."""
    many = 8  # any number of slots that tells the two apart
    return get(profile.framework).default_procs(profile, many) == many


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
