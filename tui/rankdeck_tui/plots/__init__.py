"""Curves in character cells: pure functions; no widgets."""
