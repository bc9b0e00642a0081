"""Variables with their values and reasons, and how the profile's own take precedence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

IDENTITY = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")
"""Say who a rank is and where rank 0 listens. Computed from the placement; never taken from `[env]`."""

OWN = ("RANKDECK_RUN_ID", "RANKDECK_NODE", "RANKDECK_RANK_DIR")
"""The marks by which a node's supervisor knows its own processes."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One variable, its value and the reason for it."""

    name: str
    value: str
    why: str


def merge(computed: Sequence[Setting], user: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """One process's environment: computed values, overridden by the profile's `[env]`.

    Returns:
        The environment in the order it is shown, and the reason for each variable.
    """
    env = {setting.name: setting.value for setting in computed}
    reasons = {setting.name: setting.why for setting in computed}
    for name, value in user.items():
        reasons[name] = "the profile's [env]"
        if name in env and env[name] != value:
            reasons[name] += f", instead of {env[name]}"
        env[name] = value
    return env, reasons
