"""Clocks, which are passed in. Runtime code reads a `Clock`; tests advance a `ManualClock`."""

from __future__ import annotations

import time
from typing import Protocol

from msgspec import Struct


class Clock(Protocol):
    """Two readings: the wall clock for what users see, the monotonic one for deadlines."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""

    def monotonic(self) -> float:
        """Returns seconds that never decrease; only differences are meaningful."""


class Instant(Struct, frozen=True):
    """A reading of both clocks, for state machines that keep dates and deadlines.

    The wall clock may be set at any time, so only `steady_ms` is compared with other readings of the same process.
    """

    date_ms: int
    steady_ms: int

    @staticmethod
    def of(clock: Clock) -> Instant:
        """Reads both clocks."""
        return Instant(clock.now_ms(), int(clock.monotonic() * 1000))


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Returns seconds since an arbitrary start."""
        return time.monotonic()


class ManualClock:
    """A clock that changes only when `advance` is called."""

    def __init__(self, start_ms: int = 0) -> None:
        self._ms = float(start_ms)
        self._ahead_ms = 0

    def now_ms(self) -> int:
        """Returns milliseconds since the start that the test chose."""
        return int(self._ms) + self._ahead_ms

    def monotonic(self) -> float:
        """Returns the reading in seconds, independent of changes of the wall clock."""
        return self._ms / 1000

    def advance(self, seconds: float) -> None:
        """Advances both readings."""
        self._ms += seconds * 1000

    def set_wall_clock(self, seconds: float) -> None:
        """Moves the wall clock forward, or back, by this much."""
        self._ahead_ms += round(seconds * 1000)
