"""The clocks and timers of one operator, as its function sees them. Used on the task's thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from millstream.core.clock import Clock
from millstream.core.overriding import override
from millstream.core.records.batches import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.datastream.timerservice import TimerService
from millstream.taskmanager.worker.state.timers import TimerQueue, Timers


class _NoTimers:
    """Replaces the queue where timers are not supported: registering one raises."""

    def __init__(self, why: str) -> None:
        self._why = why

    def register(self, timestamp: int) -> NoReturn:
        raise RuntimeError(self._why)

    def delete(self, timestamp: int) -> NoReturn:
        raise RuntimeError(self._why)


class OperatorTimers(TimerService):
    """Timers are refused, with a reason, until `use` is called: without keys there are no timers."""

    def __init__(self, clock: Clock, why_none: str = "") -> None:
        self._clock = clock
        self._event: TimerQueue | _NoTimers = _NoTimers(why_none)
        self._processing: TimerQueue | _NoTimers = self._event
        self.watermark = MIN_TIMESTAMP
        self.quiesced = False
        """Whether new timers are ignored, as at the end of a key, where timers could register others endlessly."""

    def use(self, timers: Timers) -> None:
        """Enables timers."""
        self._event, self._processing = timers.event, timers.processing

    def refuse(self, why_none: str) -> None:
        """Refuses timers for another reason."""
        self._event = self._processing = _NoTimers(why_none)

    @contextmanager
    def at_the_end(self) -> Iterator[None]:
        """Marks the calls within as made at the end of a key, and of event time."""
        before, self.watermark, self.quiesced = self.watermark, MAX_TIMESTAMP, True
        try:
            yield
        finally:
            self.watermark, self.quiesced = before, False

    @override
    def current_processing_time(self) -> int:
        return self._clock.now_ms()

    @override
    def current_watermark(self) -> int:
        return self.watermark

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Registers a timer for the current key."""
        if not self.quiesced:
            self._processing.register(timestamp if type(timestamp) is int else _wrong(timestamp))

    def register_event_time_timer(self, timestamp: int) -> None:
        """Registers a timer for the current key."""
        if not self.quiesced:
            self._event.register(timestamp if type(timestamp) is int else _wrong(timestamp))

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Deletes a timer of the current key."""
        self._processing.delete(timestamp if type(timestamp) is int else _wrong(timestamp))

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Deletes a timer of the current key."""
        self._event.delete(timestamp if type(timestamp) is int else _wrong(timestamp))


def _wrong(timestamp: object) -> NoReturn:
    raise TypeError(f"the time of a timer must be a whole number of milliseconds, not {timestamp!r}")
