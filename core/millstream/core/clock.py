"""Time, handed in. Runtime code asks a `Clock`; tests drive a `ManualClock`."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Two readings: the wall clock for what users see, the monotonic one for deadlines."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean anything."""


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds since an arbitrary start."""
        return time.monotonic()


class ManualClock:
    """A clock that stands still until `advance` is called."""

    def __init__(self, start_ms: int = 0) -> None:
        self._ms = float(start_ms)

    def now_ms(self) -> int:
        """Milliseconds since the start that the test chose."""
        return int(self._ms)

    def monotonic(self) -> float:
        """The same reading in seconds."""
        return self._ms / 1000

    def advance(self, seconds: float) -> None:
        """Moves both readings forward."""
        self._ms += seconds * 1000
