"""When processing-time timers fire, and when an operator has to check the clock again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from millstream.core.clock import Clock
from millstream.core.jobs.progress import COUNTED, TimedKind, TimedWork
from millstream.taskmanager.worker.state.timers import Timers

_LONGEST_WAIT = 1.0  # seconds: the system clock may be adjusted, so it is read again after this


class Upcoming(Protocol):
    """Timers, or something else that becomes due."""

    def next_timestamp(self) -> int | None:
        """The timestamp of what is due first."""


def fire_due(queue: Upcoming, clock: Clock, now: float, fire: Callable[[int], None]) -> float | None:
    """Calls `fire` with the processing time if something is due; returns when to call this again, if at all.

    `now`, and the result, are times of the monotonic clock, as in `Operator.on_time`.
    """
    upcoming = queue.next_timestamp()
    if upcoming is not None and upcoming <= clock.now_ms():
        fire(clock.now_ms())
        upcoming = queue.next_timestamp()
    if upcoming is None:
        return None
    return now + min(max(0, upcoming - clock.now_ms()) / 1000, _LONGEST_WAIT)


def waiting(timers: Timers, kind: TimedKind, records: int = 0) -> TimedWork:
    """The pending timers, for users."""
    event, processing = timers.event, timers.processing
    return TimedWork(
        kind,
        event.owners(COUNTED) + processing.owners(COUNTED),
        records,
        event.next_timestamp(),
        processing.next_timestamp(),
    )
