"""`$RANK`-like names in a program's words, filled in on the node: as data, never by a shell."""

import re

NAMES = (
    b"RANK",
    b"LOCAL_RANK",
    b"WORLD_SIZE",
    b"NODE_RANK",
    b"LOCAL_WORLD_SIZE",
    b"MASTER_ADDR",
    b"MASTER_PORT",
)

_PATTERN = re.compile(
    rb"\$(?:(?P<dollar>\$)|\{(?P<braced>"
    + b"|".join(NAMES)
    + rb")\}|(?P<plain>"
    + b"|".join(NAMES)
    + rb")(?![A-Za-z0-9_]))"
)


def fill(program, values):
    """The words with their placeholders replaced; `$$` is a dollar, other dollars stay.

    Args:
        program: words as bytes.
        values: {name: value} as bytes; a name without a value stays as it is written.
    """

    def value_of(match):
        if match.group("dollar"):
            return b"$"
        return values.get(match.group("braced") or match.group("plain"), match.group(0))

    return [_PATTERN.sub(value_of, word) for word in program]
