"""Fakes for the tests of windows: clocks, timers and state without an operator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from millstream.core.records.batches import MIN_TIMESTAMP
from millstream.datastream.functions import MetricGroup, RuntimeContext
from millstream.datastream.state import StateDescriptor
from millstream.datastream.time_domain import TimeDomain
from millstream.datastream.window import (
    Evictor,
    MergingWindowAssigner,
    TimestampedValue,
    Trigger,
    TriggerResult,
    WindowAssigner,
)

EVENT, PROCESSING = TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME


class FakeReducingState:
    """The state of one window in a dictionary."""

    def __init__(self, values: dict[Any, Any], place: Any, descriptor: Any) -> None:
        self._values, self._place, self._reduce = values, place, descriptor.reduce

    def get(self) -> Any:
        return self._values.get(self._place)

    def add(self, value: Any) -> None:
        old = self.get()
        self._values[self._place] = value if old is None else self._reduce(old, value)

    def clear(self) -> None:
        self._values.pop(self._place, None)


class TriggerRig(Trigger.OnMergeContext):
    """Drives a trigger over the windows of one key, as an operator would, and is its context."""

    def __init__(self, trigger: Trigger[Any, Any], now: int = 0) -> None:
        self.trigger = trigger
        self.watermark = MIN_TIMESTAMP
        self.now = now
        self.timers: set[tuple[TimeDomain, int, Any]] = set()
        self.values: dict[Any, Any] = {}
        self.window: Any = None
        self.merged: list[Any] = []

    def element(self, window: Any, timestamp: int = 0, element: Any = None) -> TriggerResult:
        self.window = window
        return self.trigger.on_element(element, timestamp, window, self)

    def merge(self, into: Any, *merged: Any) -> None:
        self.window, self.merged = into, [w for w in merged if w != into]
        self.trigger.on_merge(into, self)
        for window in self.merged:
            self.clear(window)
        # A trigger cannot take back the timers whose time was in merged state: operators know that the window is gone.
        self.timers = {timer for timer in self.timers if timer[2] not in self.merged}

    def clear(self, window: Any) -> None:
        self.window = window
        self.trigger.clear(window, self)

    def advance_watermark(self, watermark: int) -> list[tuple[int, Any, TriggerResult]]:
        """What was decided at which timer, but for CONTINUE."""
        self.watermark = watermark
        return self._fire(EVENT, watermark)

    def advance_clock(self, now: int) -> list[tuple[int, Any, TriggerResult]]:
        self.now = now
        return self._fire(PROCESSING, now)

    def _fire(self, domain: TimeDomain, until: int) -> list[tuple[int, Any, TriggerResult]]:
        call = self.trigger.on_event_time if domain is EVENT else self.trigger.on_processing_time
        decided = []
        for _ in range(1000):
            due = sorted(timer[1:] for timer in self.timers if timer[0] is domain and timer[1] <= until)
            if not due:
                return [decision for decision in decided if decision[2] is not TriggerResult.CONTINUE]
            time, window = due[0]
            self.timers.remove((domain, time, window))
            self.window = window
            decided.append((time, window, call(time, window, self)))
        raise AssertionError("timers fire forever")

    def get_current_processing_time(self) -> int:
        return self.now

    def get_metric_group(self) -> MetricGroup:
        raise NotImplementedError

    def get_current_watermark(self) -> int:
        return self.watermark

    def register_processing_time_timer(self, time: int) -> None:
        self.timers.add((PROCESSING, time, self.window))

    def register_event_time_timer(self, time: int) -> None:
        self.timers.add((EVENT, time, self.window))

    def delete_processing_time_timer(self, time: int) -> None:
        self.timers.discard((PROCESSING, time, self.window))

    def delete_event_time_timer(self, time: int) -> None:
        self.timers.discard((EVENT, time, self.window))

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        return FakeReducingState(self.values, (state_descriptor.name, self.window), state_descriptor)

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        state = self.get_partitioned_state(state_descriptor)
        for window in self.merged:
            value = self.values.pop((state_descriptor.name, window), None)
            if value is not None:
                state.add(value)


class _CountState:
    def __init__(self) -> None:
        self._value: Any = None

    def value(self) -> Any:
        return self._value

    def update(self, value: Any) -> None:
        self._value = value


class AssignerContext(WindowAssigner.WindowAssignerContext):
    """A clock, and the value states of one key."""

    def __init__(self, now: int = 0) -> None:
        self.now = now
        self._states: dict[str, _CountState] = {}

    def get_current_processing_time(self) -> int:
        return self.now

    def get_runtime_context(self) -> RuntimeContext:
        return self  # type: ignore[return-value]  # only its value states are requested

    def get_state(self, descriptor: StateDescriptor) -> _CountState:
        return self._states.setdefault(descriptor.name, _CountState())


class Merges(MergingWindowAssigner.MergeCallback[Any]):
    """Records the merges."""

    def __init__(self) -> None:
        self.merged: list[tuple[list[Any], Any]] = []

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        self.merged.append((list(to_be_merged), merge_result))


class EvictorClock(Evictor.EvictorContext):
    def get_current_processing_time(self) -> int:
        return 0

    def get_metric_group(self) -> MetricGroup:
        raise NotImplementedError

    def get_current_watermark(self) -> int:
        return MIN_TIMESTAMP


def timestamped(*records: tuple[Any, int | None]) -> list[TimestampedValue[Any]]:
    return [TimestampedValue(value, timestamp) for value, timestamp in records]
