"""How old what nodes have sent is, by our own clock."""

from __future__ import annotations

from collections.abc import Mapping

from rankdeck_runs.live import Sample


class Ages:
    """Remembers when each node's latest sample was first seen here."""

    def __init__(self) -> None:
        self._came: dict[str, tuple[Sample, float]] = {}

    def of(self, samples: Mapping[str, Sample], now: float) -> dict[str, float]:
        """Node -> seconds since its latest sample came.

        Args:
            samples: node -> its latest sample.
            now: by our own clock.
        """
        for node, sample in samples.items():
            if node not in self._came or self._came[node][0] is not sample:
                self._came[node] = (sample, now)
        return {node: now - came for node, (_, came) in self._came.items()}
