"""A framework's own settings in a profile's `[options]`: which there are, and what each takes."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rankdeck_profiles.errors import FieldError

Kind = Literal["text", "count", "switch"]


@dataclass(frozen=True, slots=True)
class Option:
    """One setting."""

    kind: Kind
    """`text`, `count` (a whole number) or `switch` (true or false)."""
    what: str
    """What it does, in a line."""
    default: str | int | bool | None
    """Its value where the profile does not say; None: it depends, `what` says on what."""
    choices: tuple[str, ...] = ()
    """For text: the only values."""
    least: int = 0
    """For a count."""
    most: int = 2**31 - 1
    """For a count: what a launcher holds in a C int."""

    @property
    def allowed(self) -> str:
        """What it takes, for messages."""
        if self.choices:
            return ", ".join(f'"{choice}"' for choice in self.choices)
        return {
            "text": "text",
            "count": f"a whole number, {self.least} or more",
            "switch": "true or false",
        }[self.kind]

    def takes(self, value: Any) -> bool:
        """Whether a value read from TOML is one of those allowed."""
        if self.kind == "switch":
            return isinstance(value, bool)
        if self.kind == "count":
            return isinstance(value, int) and not isinstance(value, bool) and self.least <= value <= self.most
        return isinstance(value, str) and (value in self.choices if self.choices else bool(value.strip()))


def check_options(framework: str, known: Mapping[str, Option], given: Mapping[str, Any]) -> None:
    """Refuse settings that a framework does not know, and values that they do not take.

    Raises:
        FieldError: names the setting, what was found and what is allowed.
    """
    for key, value in given.items():
        option = known.get(key)
        if option is None:
            near = difflib.get_close_matches(key, known, n=1)
            raise FieldError(
                ("options", key),
                f"unknown setting '{key}' in [options] for framework {framework}"
                + (f"; did you mean '{near[0]}'?" if near else ""),
                f"allowed: {', '.join(known)}"
                if known
                else f"{framework} has no settings of its own: remove [options]",
            )
        if not option.takes(value):
            raise FieldError(("options", key), f"options.{key} = {_shown(value)}", _allowed(option, value))


def value_of(known: Mapping[str, Option], given: Mapping[str, Any], key: str) -> Any:
    """A setting's value, or its default."""
    return given.get(key, known[key].default)


def _allowed(option: Option, value: Any) -> str:
    if option.kind == "count" and isinstance(value, int) and value > option.most:
        return f"allowed: a whole number, {option.least} to {option.most}"
    near = difflib.get_close_matches(str(value).lower(), option.choices, n=1)
    return f"allowed: {option.allowed}" + (f'; did you mean "{near[0]}"?' if near else "")


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 80 else text[:77] + "..."
