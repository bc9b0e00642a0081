"""Where rankdeck's data and settings live. Light on purpose: `rankdeck runs` needs this, and at once."""

from __future__ import annotations

import os
import sys

APP = "rankdeck"
"""The folder's name below the platform's user folders."""


def data_dir() -> str:
    """The folder that holds the records of runs.

    Returns:
        `$RANKDECK_HOME` made absolute, else the platform's user data folder for rankdeck. Not created here.
    """
    return _chosen("RANKDECK_HOME") or _user_dir("data", "XDG_DATA_HOME", ".local/share")


def config_dir() -> str:
    """The folder that holds the user's saved profiles and pools.

    Returns:
        `$RANKDECK_CONFIG` made absolute, else the platform's user config folder for rankdeck. Not created
        here.
    """
    return _chosen("RANKDECK_CONFIG") or _user_dir("config", "XDG_CONFIG_HOME", ".config")


def _chosen(variable: str) -> str | None:
    value = os.environ.get(variable, "")
    return os.path.abspath(os.path.expanduser(value)) if value.strip() else None


def _user_dir(kind: str, variable: str, default: str) -> str:
    if sys.platform == "linux":
        # What platformdirs answers on Linux (XDG base directories), without the 25 ms its import takes.
        base = os.environ.get(variable, "").strip() or os.path.join(os.path.expanduser("~"), default)
        return os.path.join(base, APP)
    import platformdirs

    folder = platformdirs.user_data_dir if kind == "data" else platformdirs.user_config_dir
    return folder(APP, appauthor=False)
