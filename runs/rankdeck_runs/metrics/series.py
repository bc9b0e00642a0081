"""One metric of one rank, in bounded memory: newest value, extremes, and a curve of so many points. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

CURVE = 512
"""Points of a curve: more than a screen has columns for."""
LEAST_CURVE = 16
MOST_KEPT = 1 << 17
"""Points of all ranks' curves of one metric together."""


def curve_length(world: int) -> int:
    """Points that each rank's curve may have in a run of `world` ranks."""
    return max(LEAST_CURVE, min(CURVE, MOST_KEPT // max(world, 1)))


@dataclass(slots=True)
class Series:
    """One metric of one rank.

    Attributes:
        limit: points kept; where more come, neighbours are joined to their mean.
        count: numbers that were written, of which `odd` were NaN or infinite.
        last, last_x: the newest number, and its place.
        low, low_x, high, high_x: the extremes among the finite ones.
        odd_x: where the first that was no finite number stood.
        xs, ys: the curve.
    """

    limit: int = CURVE
    count: int = 0
    odd: int = 0
    last: float = math.nan
    last_x: float = 0.0
    low: float = math.inf
    low_x: float = 0.0
    high: float = -math.inf
    high_x: float = 0.0
    odd_x: float | None = None
    stepped: bool = True
    """Whether places are steps; else they count the values."""
    xs: list[float] = field(default_factory=list)
    ys: list[float] = field(default_factory=list)
    _joined: int = 1
    _held: int = 0
    _sum: float = 0.0
    _step: int = -1
    _epoch: int = 0

    def add(self, value: float, step: int | None) -> None:
        """Take the next value in.

        Args:
            value: any float.
            step: where it belongs; None: next to the one before. Steps that begin again from 0 or 1 are
                those of another epoch and go on behind the last; others that go back are a start from a
                checkpoint, of which the later values count.
        """
        self.count += 1
        x = self._place(step)
        self.last, self.last_x = value, x
        if not math.isfinite(value):
            self.odd += 1
            self.odd_x = x if self.odd_x is None else self.odd_x
            return
        if value < self.low:
            self.low, self.low_x = value, x
        if value > self.high:
            self.high, self.high_x = value, x
        self._draw(x, value)

    def _place(self, step: int | None) -> float:
        if step is None:
            self.stepped = False
            return float(self.count)
        if step < self._step:
            if step <= 1:
                self._epoch += self._step + 1 - step
            else:
                self._back_to(float(self._epoch + step))
        self._step = step
        return float(self._epoch + step)

    def _back_to(self, x: float) -> None:
        while self.xs and self.xs[-1] >= x:
            self.xs.pop()
            self.ys.pop()
        self._held, self._sum = 0, 0.0

    def _draw(self, x: float, value: float) -> None:
        self._held += 1
        self._sum += value
        if self._held == 1:
            self.xs.append(x)
            self.ys.append(value)
        else:
            self.ys[-1] = self._sum / self._held
        if self._held >= self._joined:
            self._held, self._sum = 0, 0.0
        if len(self.xs) > self.limit:
            self._join()

    def _join(self) -> None:
        even = len(self.xs) // 2 * 2
        xs, ys = self.xs, self.ys
        self.xs = xs[0:even:2] + xs[even:]
        self.ys = [(ys[i] + ys[i + 1]) / 2 for i in range(0, even, 2)] + ys[even:]
        self._joined *= 2
        self._held, self._sum = 0, 0.0
