"""Which values are never shown."""

from __future__ import annotations

MASK = "***"
"""What stands in a secret's place, everywhere."""

_SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL")
_HARMLESS_WORDS = ("TOKENIZER", "KEYBOARD", "MONKEY")


def is_secret(name: str) -> bool:
    """Whether a variable's name says that its value is a secret.

    Args:
        name: the variable's name, in any case.

    Returns:
        True where the name holds a word such as key, token, secret or password. Wrong towards True: a value
        that is hidden for no reason costs a look elsewhere, one that is shown costs a new key.
    """
    upper = name.upper()
    for word in _HARMLESS_WORDS:
        upper = upper.replace(word, "")
    return any(word in upper for word in _SECRET_WORDS)


def shown(name: str, value: str) -> str:
    """The value as people may see it: `***` if the name is a secret's."""
    return MASK if is_secret(name) else value
