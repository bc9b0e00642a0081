"""Names within a run's record. The only place that knows them."""

from __future__ import annotations

import re
from functools import lru_cache

RUN_TOML = "run.toml"
POOL_TOML = "pool.toml"
PLAN = "plan.json"
FACTS = "facts.json"
FINDINGS = "findings.json"
EVENTS = "events.jsonl"
SUMMARY = "summary.json"
GPUS = "gpu.jsonl"
METRICS = "metrics.jsonl"
CODE = "code"
LOGS = "logs"

_RANK_FILE = re.compile(r"rank-(\d{5,9})(?:\.attempt-(\d{1,9}))?\.(out|err)")
_RANK_NAME = re.compile(r"(\d{1,9})(?:\.(\d{1,9}))?\.(out|err|times)")
_LAUNCHER_NAME = re.compile(r"launcher-(\d{1,9})\.(out|err|times)")


def rank_log(rank: int, stream: str, attempt: int = 1) -> str:
    """File name of a rank's log in `logs/`; stream is `out`, `err` or `times`.

    A launcher that starts its ranks again (torchrun) gives each attempt logs of its own: the second one's are
    rank-00003.attempt-2.out and so on.
    """
    return f"rank-{rank:05d}.{stream}" if attempt < 2 else f"rank-{rank:05d}.attempt-{attempt}.{stream}"


def log_name(rank: int, stream: str, attempt: int = 1) -> str:
    """The agent's name for the same log: `3.out`, `3.2.out`."""
    return f"{rank}.{stream}" if attempt < 2 else f"{rank}.{attempt}.{stream}"


def launcher_log(node_rank: int, process: int, stream: str) -> str:
    """File name of a launcher's output in `logs/`. Nodes number theirs alike, so the node is in it."""
    return f"node-{node_rank:05d}.launcher-{process}.{stream}"


@lru_cache(maxsize=65536)  # asked for every piece of a log that arrives
def from_protocol(name: str, node_rank: int) -> str | None:
    """The record's file name for a log as the agent names it (`3.out`, `launcher-0.err`).

    Returns:
        None for a name that is none of the agent's: it must not become a path.
    """
    if match := _RANK_NAME.fullmatch(name):
        return rank_log(int(match[1]), match[3], int(match[2] or 1))
    if match := _LAUNCHER_NAME.fullmatch(name):
        return launcher_log(node_rank, int(match[1]), match[2])
    return None


def to_protocol(file: str) -> str | None:
    """The agent's name for a rank's log (`3.out`), of its file name in `logs/`; None for any other file."""
    match = _RANK_FILE.fullmatch(file)
    return log_name(int(match[1]), match[3], int(match[2] or 1)) if match else None
