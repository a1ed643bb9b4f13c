"""Time, handed in. Runtime code asks a `Clock`; tests drive a `ManualClock`."""

from __future__ import annotations

import time
from typing import Protocol

from msgspec import Struct


class Clock(Protocol):
    """Two readings: the wall clock for what users see, the monotonic one for deadlines."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean anything."""


class Instant(Struct, frozen=True):
    """One moment on both clocks, for machines that keep dates and deadlines.

    The wall clock may be set at any time, so only `steady_ms` is compared with other readings of the same process.
    """

    date_ms: int
    steady_ms: int

    @staticmethod
    def of(clock: Clock) -> Instant:
        """The present moment."""
        return Instant(clock.now_ms(), int(clock.monotonic() * 1000))


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
        self._ahead_ms = 0

    def now_ms(self) -> int:
        """Milliseconds since the start that the test chose."""
        return int(self._ms) + self._ahead_ms

    def monotonic(self) -> float:
        """The same reading in seconds, however the wall clock was set."""
        return self._ms / 1000

    def advance(self, seconds: float) -> None:
        """Moves both readings forward."""
        self._ms += seconds * 1000

    def set_wall_clock(self, seconds: float) -> None:
        """Somebody sets the wall clock forward by this much, or back."""
        self._ahead_ms += round(seconds * 1000)
