"""The contexts that a process function gets with a record or timer, with and without a key.

One object serves all records.
"""

from __future__ import annotations

from typing import Any

from millstream.core.keys.key_values import hashable
from millstream.core.overriding import override
from millstream.core.row import Row
from millstream.datastream.functions import Context, KeyedContext, OnTimerContext
from millstream.datastream.time_domain import TimeDomain
from millstream.datastream.timerservice import TimerService

_MAY_HOLD_LISTS = frozenset({list, tuple, Row})


class RecordContext(Context):
    """The context of a record without a key."""

    current: int | None = None

    def __init__(self, timers: TimerService) -> None:
        self._timers = timers

    def timestamp(self) -> int | None:
        """The record's event timestamp, or None."""
        return self.current

    @override
    def timer_service(self) -> TimerService:
        return self._timers


class KeyedRecordContext(RecordContext, KeyedContext):
    """The context of a record with a key."""

    key: Any = None

    def get_current_key(self) -> Any:
        """The record's key; the tuple of its values when it is a list."""
        return hashable(self.key) if type(self.key) in _MAY_HOLD_LISTS else self.key


class TimerContext(KeyedRecordContext, OnTimerContext):
    """The context of a timer, whose time is its timestamp."""

    domain = TimeDomain.EVENT_TIME

    def time_domain(self) -> TimeDomain:
        """The time domain of the timer."""
        return self.domain
