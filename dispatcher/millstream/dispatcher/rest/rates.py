"""How often a client may send requests: so many a second, and twice as many at once. Pure."""

from __future__ import annotations


class RateLimit:
    """A bucket for each client. `rate` is in a second, 0 is no limit; `capacity` is of how many clients it knows."""

    def __init__(self, rate: int, capacity: int) -> None:
        self._rate = rate
        self._capacity = capacity
        self._filled: dict[str, float] = {}  # when each will be full again; the latest clients come last

    def wait(self, client: str, now: float) -> float:
        """0 when the client is served, which counts; else in how many seconds it may send the next request."""
        if self._rate <= 0:
            return 0.0
        full_at = max(self._filled.pop(client, now), now)
        over = full_at - now + 1 / self._rate - 2.0  # the bucket holds two seconds' worth
        if over <= 0:
            full_at += 1 / self._rate
        self._filled[client] = full_at
        while len(self._filled) > self._capacity:
            del self._filled[next(iter(self._filled))]
        return max(over, 0.0)
