"""`--set a.b=VALUE`: single keys of a profile, given on the command line."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rankdeck_profiles.errors import ProfileError
from rankdeck_profiles.source import KeyPath, Source

_TEXT_TABLES = ("env", "metrics")
"""Tables whose values are text: what is typed is the value, unless it is quoted as in TOML."""


@dataclass(frozen=True, slots=True)
class Override:
    """One key and its value."""

    keys: tuple[str, ...]
    value: Any
    text: str
    """As typed, for messages."""


def parse_override(text: str) -> Override:
    """Read `a.b=VALUE`.

    Args:
        text: a key as in TOML, an equals sign, and a TOML value; what is not one is taken as text.

    Raises:
        ProfileError: no equals sign, or what is before it is no key.
    """
    import tomli

    key, equals, raw = text.partition("=")
    usage = "write --set KEY=VALUE, such as --set nodes=2 or --set env.NCCL_DEBUG=INFO"
    if not equals:
        raise ProfileError(f"--set {text}: no `=` in it", usage)
    try:
        table: Any = tomli.loads(f"{key.strip()} = 0")
    except tomli.TOMLDecodeError:
        raise ProfileError(f"--set {text}: `{key}` is no key", usage) from None
    keys = []
    while isinstance(table, dict) and len(table) == 1:
        name, table = next(iter(table.items()))
        keys.append(name)
    if table != 0:
        raise ProfileError(f"--set {text}: `{key}` is no key", usage)
    value = _value(raw)
    if keys[0] in _TEXT_TABLES and len(keys) > 1 and not isinstance(value, str):
        value = raw
    return Override(tuple(keys), value, text)


def apply(source: Source, overrides: Sequence[Override]) -> Source:
    """The file's data with the overrides put on top, later ones over earlier ones.

    Raises:
        ProfileError: an override goes through a key that is no table.
    """
    data = copy.deepcopy(dict(source.data))
    origin: dict[KeyPath, str] = dict(source.overridden)
    for override in overrides:
        table: dict[str, Any] = data
        for depth, key in enumerate(override.keys[:-1]):
            below = table.setdefault(key, {})
            if not isinstance(below, dict):
                name = ".".join(override.keys[: depth + 1])
                raise source.error(f"--set {override.text}: `{name}` is no table", "give the whole value")
            table = below
        table[override.keys[-1]] = override.value
        origin[override.keys] = override.text
    return replace(source, data=data, overridden=origin)


def _value(raw: str) -> Any:
    import tomli

    try:
        parsed = tomli.loads(f"value = {raw}")
    except (ValueError, RecursionError):  # no TOML, or a number of thousands of digits
        return raw
    # More than one key: the text had a line end and went on as TOML of its own.
    return parsed["value"] if parsed.keys() == {"value"} else raw
