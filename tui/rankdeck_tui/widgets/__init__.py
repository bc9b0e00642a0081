"""Widgets that paint their own cells from plain values."""
