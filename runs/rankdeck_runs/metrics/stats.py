"""A metric over a run's ranks in few numbers. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rankdeck_runs.metrics.series import Series

_DOWN = re.compile(r"loss|ppl|perplexity|err|wer|cer|mae|mse")
_UP = re.compile(r"/s$|acc|top\d|f1|bleu|auc|reward|mfu|flops|throughput|score")


def better(name: str) -> int:
    """-1 where less is better, 1 where more is; 0 where the name does not tell (lr, epoch, grad_norm)."""
    return -1 if _DOWN.search(name) else 1 if _UP.search(name) else 0


@dataclass(frozen=True, slots=True)
class Summary:
    """One metric over some ranks."""

    name: str
    ranks: tuple[int, ...]
    mean: float
    """Of each rank's last value; NaN if one of them is."""
    low: float
    """The least of the last values, those that are NaN left out; NaN: all are."""
    low_rank: int
    high: float
    high_rank: int
    best: float | None
    """None: the name does not tell what is good, or no value was finite."""
    best_x: float
    best_rank: int
    x: float
    """The furthest place that a rank has told of: a step, where `stepped`."""
    stepped: bool
    count: int
    """Values of all these ranks."""
    odd: tuple[int, ...]
    """Ranks whose last value is NaN or infinite."""
    odd_x: float | None
    """Where the first such value of any of them stood, even if later ones are fine."""

    def to_json(self) -> dict[str, Any]:
        """An entry of `metrics --json`; NaN and infinities are texts, which JSON can't hold otherwise."""
        return {
            "name": self.name,
            "ranks": list(self.ranks),
            "last": {
                "mean": json_number(self.mean),
                "min": json_number(self.low),
                "min_rank": self.low_rank,
                "max": json_number(self.high),
                "max_rank": self.high_rank,
                "at": self.x,
            },
            "best": None
            if self.best is None
            else {"value": self.best, "at": self.best_x, "rank": self.best_rank},
            "at": "step" if self.stepped else "count",
            "values": self.count,
            "not_finite": {"ranks": list(self.odd), "first_at": self.odd_x},
        }


def summarise(name: str, series: Mapping[int, Series]) -> Summary | None:
    """One metric over ranks; None: they told none."""
    if not series:
        return None
    lasts = {rank: one.last for rank, one in series.items()}
    finite = {rank: last for rank, last in lasts.items() if math.isfinite(last)} or {min(lasts): math.nan}
    low_rank = min(finite, key=lambda rank: (finite[rank], rank))
    high_rank = max(finite, key=lambda rank: (finite[rank], -rank))
    best, best_x, best_rank = _best(name, series)
    odd_places = [one.odd_x for one in series.values() if one.odd_x is not None]
    return Summary(
        name=name,
        ranks=tuple(sorted(series)),
        mean=sum(lasts.values()) / len(lasts),
        low=finite[low_rank],
        low_rank=low_rank,
        high=finite[high_rank],
        high_rank=high_rank,
        best=best,
        best_x=best_x,
        best_rank=best_rank,
        x=max(one.last_x for one in series.values()),
        stepped=all(one.stepped for one in series.values()),
        count=sum(one.count for one in series.values()),
        odd=tuple(sorted(rank for rank, last in lasts.items() if not math.isfinite(last))),
        odd_x=min(odd_places, default=None),
    )


def _best(name: str, series: Mapping[int, Series]) -> tuple[float | None, float, int]:
    way = better(name)
    found: tuple[float | None, float, int] = None, 0.0, -1
    for rank, one in sorted(series.items()):
        value, x = (one.low, one.low_x) if way < 0 else (one.high, one.high_x)
        if way and math.isfinite(value) and (found[0] is None or value * way > found[0] * way):
            found = value, x, rank
    return found


def leading(names: Iterable[str]) -> str | None:
    """The metric to name where there is room for one: the training's loss, as it is usually called."""
    known = list(names)
    losses = [name for name in known if re.search(r"(^|[^a-z])loss$", name)]
    trained = [name for name in losses if not re.match(r"val|valid|validation|eval|test|first|last", name)]
    for wanted in ("loss", "train_loss", "train/loss", "lm_loss"):
        if wanted in trained:
            return wanted
    return next(iter(trained or losses), None)


def json_number(value: float) -> float | str:
    """A number for JSON, which has neither NaN nor infinities."""
    return value if math.isfinite(value) else str(value)


def written(value: float) -> str:
    """A value for people, with four significant digits: `0.4321`, `1.5e-05`, `41,210`, `nan`."""
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    if size >= 1e7 or 0 < size < 1e-3:
        return f"{value:.3g}"
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"
