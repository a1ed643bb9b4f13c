"""The clocks and timers of one operator, as its function sees them. On the task's thread."""

from __future__ import annotations

from typing import NoReturn

from millstream.core.clock import Clock
from millstream.core.records.batches import MIN_TIMESTAMP
from millstream.datastream.timerservice import TimerService
from millstream.taskmanager.worker.state.timers import Timers


class OperatorTimers(TimerService):
    """`timers` are None where nothing can be called back: without keys, or without an `on_timer`."""

    def __init__(self, clock: Clock, timers: Timers | None, why_none: str) -> None:
        self._clock = clock
        self._timers = timers
        self._why_none = why_none
        self.watermark = MIN_TIMESTAMP

    def current_processing_time(self) -> int:
        """As the machine has it."""
        return self._clock.now_ms()

    def current_watermark(self) -> int:
        """The last one that came."""
        return self.watermark

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Of the key at hand."""
        self._checked(timestamp).processing.register(timestamp)

    def register_event_time_timer(self, timestamp: int) -> None:
        """Of the key at hand."""
        self._checked(timestamp).event.register(timestamp)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Of the key at hand."""
        self._checked(timestamp).processing.delete(timestamp)

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Of the key at hand."""
        self._checked(timestamp).event.delete(timestamp)

    def _checked(self, timestamp: int) -> Timers:
        if self._timers is None:
            self._refuse()
        if type(timestamp) is not int:
            raise TypeError(f"a timer's time is a whole number of milliseconds, not {timestamp!r}")
        return self._timers

    def _refuse(self) -> NoReturn:
        raise RuntimeError(self._why_none)
