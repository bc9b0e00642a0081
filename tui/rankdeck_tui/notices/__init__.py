"""Telling a person what happened to a run: at the terminal, by a command, by a webhook."""
