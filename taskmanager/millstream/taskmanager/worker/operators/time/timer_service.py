"""The clocks and timers of one operator, as its function sees them. On the task's thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from millstream.core.clock import Clock
from millstream.core.records.batches import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.datastream.timerservice import TimerService
from millstream.taskmanager.worker.state.timers import TimerQueue, Timers


class _NoTimers:
    """In place of a queue: setting a timer is an error."""

    def __init__(self, why: str) -> None:
        self._why = why

    def register(self, timestamp: int) -> NoReturn:
        raise RuntimeError(self._why)

    def delete(self, timestamp: int) -> NoReturn:
        raise RuntimeError(self._why)


class OperatorTimers(TimerService):
    """There are no timers, and a reason for it, until `use` is called: without keys, nothing can be called back."""

    def __init__(self, clock: Clock, why_none: str = "") -> None:
        self._clock = clock
        self._event: TimerQueue | _NoTimers = _NoTimers(why_none)
        self._processing: TimerQueue | _NoTimers = self._event
        self.watermark = MIN_TIMESTAMP
        self.quiesced = False
        """Whether timers that are registered are ignored, as at the end of a key: one might follow another forever."""

    def use(self, timers: Timers) -> None:
        """From now on timers can be set."""
        self._event, self._processing = timers.event, timers.processing

    def refuse(self, why_none: str) -> None:
        """They cannot, for another reason."""
        self._event = self._processing = _NoTimers(why_none)

    @contextmanager
    def at_the_end(self) -> Iterator[None]:
        """What is called meanwhile is called at the end of a key, and of event time."""
        before, self.watermark, self.quiesced = self.watermark, MAX_TIMESTAMP, True
        try:
            yield
        finally:
            self.watermark, self.quiesced = before, False

    def current_processing_time(self) -> int:
        """As the machine has it."""
        return self._clock.now_ms()

    def current_watermark(self) -> int:
        """The last one that came."""
        return self.watermark

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Of the key at hand."""
        if not self.quiesced:
            self._processing.register(timestamp if type(timestamp) is int else _wrong(timestamp))

    def register_event_time_timer(self, timestamp: int) -> None:
        """Of the key at hand."""
        if not self.quiesced:
            self._event.register(timestamp if type(timestamp) is int else _wrong(timestamp))

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Of the key at hand."""
        self._processing.delete(timestamp if type(timestamp) is int else _wrong(timestamp))

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Of the key at hand."""
        self._event.delete(timestamp if type(timestamp) is int else _wrong(timestamp))


def _wrong(timestamp: object) -> NoReturn:
    raise TypeError(f"a timer's time is a whole number of milliseconds, not {timestamp!r}")
