"""The triggers that evaluate a window again and again, at every multiple of an interval, on either clock.

When the next evaluation is due is state, the lowest of several when windows merge: so there is one timer for it,
however many records come.
"""

from __future__ import annotations

from typing import Any

from millstream.common.time import Interval
from millstream.common.typeinfo import Types
from millstream.core.overriding import override
from millstream.core.records.type_variables import T
from millstream.datastream.state import ReducingState, ReducingStateDescriptor
from millstream.datastream.window.lengths import positive_milliseconds
from millstream.datastream.window.triggers.trigger import Trigger, TriggerResult
from millstream.datastream.window.windows import TimeWindow


class ContinuousEventTimeTrigger(Trigger[T, TimeWindow]):
    """Fires whenever the watermark has come one interval further, at the window's end, and for each late record."""

    def __init__(self, interval: Interval) -> None:
        self.interval = positive_milliseconds("ContinuousEventTimeTrigger", "interval", interval)
        self.state_desc = ReducingStateDescriptor("fire-time", min, Types.LONG())

    @staticmethod
    def of(interval: Interval) -> ContinuousEventTimeTrigger[Any]:
        """Fires at every multiple of the interval."""
        return ContinuousEventTimeTrigger(interval)

    @override
    def on_element(self, element: T, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        end = window.max_timestamp()
        if end <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(end)
        due = ctx.get_partitioned_state(self.state_desc)
        if due.get() is None:
            self.register_next_fire_timestamp(timestamp - timestamp % self.interval, window, ctx, due)
        return TriggerResult.CONTINUE

    @override
    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    @override
    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        if time == window.max_timestamp():
            return TriggerResult.FIRE
        due = ctx.get_partitioned_state(self.state_desc)
        if due.get() != time:
            return TriggerResult.CONTINUE
        due.clear()
        self.register_next_fire_timestamp(time, window, ctx, due)
        return TriggerResult.FIRE

    @override
    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self.state_desc)
        next_time = ctx.get_partitioned_state(self.state_desc).get()
        if next_time is not None:
            ctx.register_event_time_timer(next_time)

    @override
    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        due = ctx.get_partitioned_state(self.state_desc)
        next_time = due.get()
        if next_time is not None:
            ctx.delete_event_time_timer(next_time)
            due.clear()
        ctx.delete_event_time_timer(window.max_timestamp())

    @override
    def can_merge(self) -> bool:
        return True

    def register_next_fire_timestamp(
        self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext, fire_timestamp_state: ReducingState[int]
    ) -> None:
        """Registers the next timer with `ctx`: one interval after `time`, but not after the end of `window`.

        `fire_timestamp_state` keeps its timestamp.
        """
        next_time = min(time + self.interval, window.max_timestamp())
        fire_timestamp_state.add(next_time)
        ctx.register_event_time_timer(next_time)

    def __repr__(self) -> str:
        return f"ContinuousEventTimeTrigger({self.interval})"


class ContinuousProcessingTimeTrigger(Trigger[T, TimeWindow]):
    """Fires whenever the machine's time has come one interval further, and at the window's end on that clock."""

    def __init__(self, interval: Interval) -> None:
        self.interval = positive_milliseconds("ContinuousProcessingTimeTrigger", "interval", interval)
        self.state_desc = ReducingStateDescriptor("fire-time", min, Types.LONG())

    @staticmethod
    def of(interval: Interval) -> ContinuousProcessingTimeTrigger[Any]:
        """Fires at every multiple of the interval."""
        return ContinuousProcessingTimeTrigger(interval)

    @override
    def on_element(self, element: T, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        due = ctx.get_partitioned_state(self.state_desc)
        if due.get() is None:
            now = ctx.get_current_processing_time()
            self.register_next_fire_timestamp(now - now % self.interval, window, ctx, due)
        return TriggerResult.CONTINUE

    @override
    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        due = ctx.get_partitioned_state(self.state_desc)
        if due.get() != time:
            return TriggerResult.CONTINUE
        due.clear()
        self.register_next_fire_timestamp(time, window, ctx, due)
        return TriggerResult.FIRE

    @override
    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    @override
    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self.state_desc)
        next_time = ctx.get_partitioned_state(self.state_desc).get()
        if next_time is not None:
            ctx.register_processing_time_timer(next_time)

    @override
    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        due = ctx.get_partitioned_state(self.state_desc)
        next_time = due.get()
        if next_time is not None:
            ctx.delete_processing_time_timer(next_time)
            due.clear()

    @override
    def can_merge(self) -> bool:
        return True

    def register_next_fire_timestamp(
        self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext, fire_timestamp_state: ReducingState[int]
    ) -> None:
        """Registers the next timer with `ctx`: one interval after `time`, or at the end of `window` if that is earlier.

        `fire_timestamp_state` keeps its timestamp. The end of a window of event time may be long past on the machine's
        clock: a timer there would fire at once, and register itself again, without end.
        """
        next_time = time + self.interval
        if time < window.max_timestamp():
            next_time = min(next_time, window.max_timestamp())
        fire_timestamp_state.add(next_time)
        ctx.register_processing_time_timer(next_time)

    def __repr__(self) -> str:
        return f"ContinuousProcessingTimeTrigger({self.interval})"
