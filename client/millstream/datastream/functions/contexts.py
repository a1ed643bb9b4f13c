"""The contexts of process functions: the record or timer that is processed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic

from millstream.core.records.type_variables import K_co
from millstream.datastream.time_domain import TimeDomain
from millstream.datastream.timerservice import TimerService


class Context(ABC):
    """The context of a record. Valid only during the call that it was passed to."""

    @abstractmethod
    def timestamp(self) -> int | None:
        """Returns the event time of the record in milliseconds since the Unix epoch, or None if it has none."""

    @abstractmethod
    def timer_service(self) -> TimerService:
        """Returns the service that reads the clocks and, on keyed streams, registers timers."""


class KeyedContext(Context, Generic[K_co]):
    """The context of a record of a keyed stream."""

    @abstractmethod
    def get_current_key(self) -> K_co:
        """Returns the key of the record or timer."""


class OnTimerContext(KeyedContext[K_co]):
    """The context of `on_timer`. Its key is the key of the timer, and its timestamp the time of the timer."""

    @abstractmethod
    def time_domain(self) -> TimeDomain:
        """Returns whether the timer is one of event time or of processing time."""
