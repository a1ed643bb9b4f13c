"""Rates of counts per second, over the last few seconds. Pure; time is passed in."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

WINDOW = 10.0
"""In seconds. Flink's meters use a minute: a shorter window shows changes sooner, and rates are still steady."""


class Rates:
    """The rates of counts that are sampled together. At `start` they had the values of `before`, otherwise 0."""

    __slots__ = ("_seen", "_window")

    def __init__(self, start: float, before: Mapping[str, float] | None = None, window: float = WINDOW) -> None:
        self._window = window
        self._seen: deque[tuple[float, Mapping[str, float]]] = deque([(start, before or {})])

    def update(self, now: float, counts: Mapping[str, float]) -> dict[str, float]:
        """Returns the rate of each count from the window's start until now."""
        seen = self._seen
        while len(seen) > 1 and seen[1][0] <= now - self._window:
            seen.popleft()
        since, before = seen[0]
        if now > seen[-1][0]:
            seen.append((now, counts))
        if now <= since:
            return dict.fromkeys(counts, 0.0)
        return {name: (count - before.get(name, 0)) / (now - since) for name, count in counts.items()}
