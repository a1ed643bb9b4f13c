"""`Trigger`: decides when a window is evaluated, and `TriggerResult`, its decisions.

A trigger keeps nothing in itself, as one is used for all keys and windows: what it has to remember is state from its
context, and belongs to the current key and window. It is called by the window's operator:

- `on_element` when a record came into a window, `on_event_time` and `on_processing_time` when a timer that the trigger
  registered fires; the result decides what happens to the window;
- `on_merge` for the new window after several became one, then `clear` for each of the former;
- `clear` when the window has expired and its state is dropped. A purge does not call it: it drops only the records.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from typing import Any, Generic

from millstream.core.errors import MillstreamError
from millstream.core.records.type_variables import T_contra, W
from millstream.datastream.functions import MetricGroup
from millstream.datastream.state import StateDescriptor


class TriggerResult(Enum):
    """What happens to the window: it is evaluated, its records are dropped, both in this order, or neither."""

    CONTINUE = (False, False)
    FIRE_AND_PURGE = (True, True)
    FIRE = (True, False)
    PURGE = (False, True)

    def __init__(self, fires: bool, purges: bool) -> None:
        self._fires = fires  # read for every record: an enum's `value` is several times slower
        self._purges = purges

    def is_fire(self) -> bool:
        """Whether the window function is called, if the window has any records."""
        return self._fires

    def is_purge(self) -> bool:
        """Whether the window's records are dropped."""
        return self._purges


class Trigger(ABC, Generic[T_contra, W]):
    """Base of all triggers."""

    class TriggerContext(ABC):
        """The clocks, timers and state of the current key and window. Valid only during the call."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """The machine's time, in milliseconds since 1970 began in UTC."""

        @abstractmethod
        def get_metric_group(self) -> MetricGroup:
            """Where the trigger may register metrics: the operator's group."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """How far event time has come; the lowest number there is before the first watermark."""

        @abstractmethod
        def register_processing_time_timer(self, time: int) -> None:
            """Has `on_processing_time` called for this window once the machine's time has come there."""

        @abstractmethod
        def register_event_time_timer(self, time: int) -> None:
            """Has `on_event_time` called for this window once the watermark has come there."""

        @abstractmethod
        def delete_processing_time_timer(self, time: int) -> None:
            """Takes such a timer of this window back; nothing happens if there is none."""

        @abstractmethod
        def delete_event_time_timer(self, time: int) -> None:
            """Takes such a timer of this window back; nothing happens if there is none."""

        @abstractmethod
        def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
            """The trigger's state of this name, of the current key and window."""

    class OnMergeContext(TriggerContext):
        """What `on_merge` can do besides."""

        @abstractmethod
        def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
            """Makes the state of the former windows the new one's; it must be of a kind that can be merged."""

    @abstractmethod
    def on_element(self, element: T_contra, timestamp: int, window: W, ctx: Trigger.TriggerContext, /) -> TriggerResult:
        """Called for each record, `element`, after it was added to `window`; returns what happens to the window.

        `timestamp` is the event time of the record; `ctx` has state, the clocks and timers.
        """

    @abstractmethod
    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext, /) -> TriggerResult:
        """Called when a processing-time timer of `window` fires at `time`; `ctx` has state, the clocks and timers."""

    @abstractmethod
    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext, /) -> TriggerResult:
        """Called when an event-time timer of `window` fires at `time`; `ctx` has state, the clocks and timers."""

    def can_merge(self) -> bool:
        """Whether it can be used with windows that merge; it needs `on_merge` then."""
        return False

    def on_merge(self, window: W, ctx: Trigger.OnMergeContext, /) -> None:
        """Called after windows became `window`: merges their state and registers its timers, with `ctx`.

        Raises `MillstreamError` unless the trigger has an `on_merge` of its own.
        """
        raise MillstreamError(
            f"{type(self).__qualname__} cannot be used with windows that merge: it has no on_merge(window, ctx)"
        )

    @abstractmethod
    def clear(self, window: W, ctx: Trigger.TriggerContext, /) -> None:
        """Called when `window` has expired: deletes its timers and clears the trigger's state, with `ctx`."""
