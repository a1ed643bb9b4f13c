"""Keeps a rate smoothly: how many records are due by now. Pure; the caller hands in the time."""

from __future__ import annotations

import math


class RateLimiter:
    """The first record is due at the first call, the others follow evenly.

    Who falls behind catches up on at most `burst_seconds` of records, so a long stall is not followed by a flood.
    """

    def __init__(self, per_second: float, burst_seconds: float = 1.0) -> None:
        self._per_second = per_second
        self._burst = math.ceil(per_second * burst_seconds)
        self._origin: float | None = None
        self._taken = 0

    def due(self, now: float) -> int:
        """How many records may be emitted now."""
        if self._origin is None:
            self._origin = now
        reached = int((now - self._origin) * self._per_second) + 1
        self._taken = max(self._taken, reached - self._burst)
        return max(0, reached - self._taken)

    def take(self, count: int) -> None:
        """Notes that this many of those due were emitted."""
        self._taken += count

    def wait(self, now: float) -> float:
        """Seconds until the next record is due, 0 when one is."""
        if self._origin is None:
            return 0.0
        return max(0.0, self._origin + self._taken / self._per_second - now)
