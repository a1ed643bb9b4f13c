"""Delays between attempts that fail in a row, or between looks at what takes long. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct


class Backoff(Struct, frozen=True):
    """Delays from `first` to `longest`, each `factor` times the one before; in the unit of the caller."""

    first: float
    longest: float
    factor: float = 2.0

    def after(self, failures: int) -> float:
        """Returns the delay after so many failures in a row, from 1."""
        delay = self.first
        for _ in range(1, failures):
            following = self._following(delay)
            if following == delay:
                break
            delay = following
        return delay

    def delays(self) -> Iterator[float]:
        """Returns all delays in their order, without an end."""
        delay = self.first
        while True:
            yield delay
            delay = self._following(delay)

    def _following(self, delay: float) -> float:
        return min(delay * self.factor, self.longest)
