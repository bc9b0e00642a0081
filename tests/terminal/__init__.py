"""A real terminal for tests: a program in tmux, its screen as text and as a picture."""

from terminal.tmux import ScreenError, Tmux, missing

__all__ = ["ScreenError", "Tmux", "missing"]
