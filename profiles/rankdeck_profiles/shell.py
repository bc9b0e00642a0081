"""Text for a POSIX shell: words that arrive as they are, whatever is in them."""

from __future__ import annotations

import shlex

from rankdeck_profiles import placeholders


def word(text: str) -> str:
    """One word, quoted; `~` and a leading `~/` are the home of whoever runs it."""
    if text == "~":
        return '"$HOME"'
    if text.startswith("~/"):
        return '"$HOME"/' + (shlex.quote(text[2:]) if text[2:] else "")
    return shlex.quote(text)


def filled(text: str) -> str:
    """One word with `$RANK`-like names as the shell's own variables and all else quoted."""
    home = ""
    if text == "~":
        return '"$HOME"'
    if text.startswith("~/"):
        home, text = '"$HOME"/', text[2:]
    parts = [
        f'"${name}"' if name is not None else shlex.quote(literal) if literal else ""
        for literal, name in placeholders.split(text)
    ]
    return home + "".join(parts) or "''"


def wrapped(words: list[str], indent: str = "  ") -> str:
    """Quoted words as one command, long ones over several lines."""
    lines = [""]
    for quoted in words:
        if lines[-1] and len(lines[-1]) + len(quoted) > 96:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + quoted
    return f" \\\n{indent}".join(lines)
