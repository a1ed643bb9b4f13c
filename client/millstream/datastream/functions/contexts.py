"""What a process function can ask about the record or timer at hand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from millstream.datastream.time_domain import TimeDomain
from millstream.datastream.timerservice import TimerService


class Context(ABC):
    """What a process function can ask about the record at hand. Valid only during the call that it was passed to."""

    @abstractmethod
    def timestamp(self) -> int | None:
        """The record's event timestamp, or None."""

    @abstractmethod
    def timer_service(self) -> TimerService:
        """The clocks; on keyed streams also timers."""


class KeyedContext(Context):
    """The same on a keyed stream."""

    @abstractmethod
    def get_current_key(self) -> Any:
        """The key of the record at hand."""


class OnTimerContext(KeyedContext):
    """What `on_timer` can ask. The key is the timer's, and the timestamp its time."""

    @abstractmethod
    def time_domain(self) -> TimeDomain:
        """Whose clock has come to the timer's time."""
