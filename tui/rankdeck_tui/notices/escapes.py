"""What makes a terminal ring, or show a notification on the desktop. Pure."""

from __future__ import annotations

from collections.abc import Mapping

BELL = "\a"
LONGEST = 200
"""Characters of a notification: desktops show about two lines."""

_OSC9_PROGRAMS = ("iTerm.app", "WezTerm", "ghostty")
_OSC9_TERMS = ("xterm-kitty", "xterm-ghostty", "wezterm")
_OSC777_TERMS = ("foot", "rxvt-unicode")
"""What terminals say of themselves in TERM_PROGRAM and TERM. OSC 9 is iTerm2's (iterm2.com, "Proprietary
Escape Codes"), taken up by kitty, WezTerm and Ghostty; OSC 777 is rxvt-unicode's, taken up by foot
(foot-ctlseqs(7))."""


def notification(text: str, desktop: str, environ: Mapping[str, str]) -> str:
    """The sequence that shows a notification; empty where there is none to be sent.

    Args:
        text: what to say; what could end the sequence or begin another is taken out.
        desktop: `auto`, `osc9`, `osc777` or `off`.
        environ: the terminal's variables.
    """
    kind = _known(environ) if desktop == "auto" else desktop
    said = cleaned(text)
    match kind:
        case "osc9":
            return _through(f"\x1b]9;{said}\a", environ)
        case "osc777":
            return _through(f"\x1b]777;notify;rankdeck;{said.replace(';', ',')}\a", environ)
    return ""


def cleaned(text: str) -> str:
    """Text of printable characters alone, in one line, no longer than a notification may be."""
    shown = "".join(c if c.isprintable() else " " for c in text)
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 3] + "..."


def _known(environ: Mapping[str, str]) -> str:
    """What the terminal has; within tmux or screen nobody knows which terminal is around them."""
    if "TMUX" in environ or "STY" in environ:
        return "off"
    term = environ.get("TERM", "")
    if environ.get("TERM_PROGRAM") in _OSC9_PROGRAMS or term.startswith(_OSC9_TERMS):
        return "osc9"
    return "osc777" if term.startswith(_OSC777_TERMS) else "off"


def _through(sequence: str, environ: Mapping[str, str]) -> str:
    """The sequence as tmux or screen hands it on to the terminal around it.

    tmux drops it unless its option `allow-passthrough` is on (tmux(1)); screen hands on every device control
    string (screen(1), "Control Sequences").
    """
    if "TMUX" in environ:
        doubled = sequence.replace("\x1b", "\x1b\x1b")
        return f"\x1bPtmux;{doubled}\x1b\\"
    return f"\x1bP{sequence}\x1b\\" if "STY" in environ else sequence
