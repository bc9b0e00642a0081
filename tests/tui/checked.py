"""Preflight reports to show: recorded nodes, judged as `rankdeck check --replay` does."""

from __future__ import annotations

from functools import cache

from preflight.recordings import recorded
from rankdeck_runs.checking import Checked, replayed

ODD = {"gpu007": "ndr-port-down", "gpu020": "ib-init-no-sm", "gpu033": "nvml-mismatch"}
"""What is wrong among 64 healthy nodes: a port is down, one lacks a subnet manager, a driver is in halves."""


@cache
def large() -> Checked:
    """64 nodes, three of them at fault."""
    names = [f"gpu{number:03}" for number in range(1, 65)]
    return replayed({name: recorded(ODD.get(name, "ndr-ok-a")) for name in names}, None, "torchrun")


@cache
def small(*cases: str) -> Checked:
    """A few recorded nodes, by their own names."""
    return replayed({case: recorded(case) for case in cases}, None, "torchrun")
