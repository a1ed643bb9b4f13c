"""Histograms over the last values, as Flink's `DescriptiveStatisticsHistogram`. Owned by the code that updates them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence

from millstream.core.metrics.model import HistogramReading

_QUANTILES = (0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.999)


def quantile(ordered: Sequence[float], q: float) -> float:
    """Interpolated between the neighbours of rank q * (n + 1), as Flink's histograms do. There are values."""
    position = q * (len(ordered) + 1)
    if position < 1:
        return float(ordered[0])
    if position >= len(ordered):
        return float(ordered[-1])
    below = int(position)
    return ordered[below - 1] + (position - below) * (ordered[below] - ordered[below - 1])


def spread(values: Iterable[float], count: int) -> HistogramReading:
    """Returns the distribution of the values, the latest of `count`."""
    ordered = sorted(values)
    if not ordered:
        return HistogramReading(count)
    mean = math.fsum(ordered) / len(ordered)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in ordered) / len(ordered))
    return HistogramReading(
        count, float(ordered[0]), float(ordered[-1]), mean, deviation, *[quantile(ordered, q) for q in _QUANTILES]
    )


class Histogram:
    """A histogram of the last `window` values."""

    __slots__ = ("_count", "_values")

    def __init__(self, window: int = 128) -> None:
        self._values: deque[float] = deque(maxlen=window)
        self._count = 0

    def update(self, value: float) -> None:
        """Adds a value."""
        self._values.append(value)
        self._count += 1

    def reading(self) -> HistogramReading:
        """Returns the current reading."""
        return spread(self._values, self._count)
