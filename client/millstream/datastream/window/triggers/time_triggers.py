"""The triggers that evaluate a window when its time is over, on either clock."""

from __future__ import annotations

from typing import Any

from millstream.core.records.type_variables import T
from millstream.datastream.window.triggers.trigger import Trigger, TriggerResult
from millstream.datastream.window.windows import TimeWindow


class EventTimeTrigger(Trigger[T, TimeWindow]):
    """Fires when the watermark has come to the window's end, and again for each late record that is allowed."""

    def on_element(self, element: T, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fires for a late record; otherwise sets the timer."""
        end = window.max_timestamp()
        if end <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(end)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Nothing."""
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fires at the window's end."""
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        """It can."""
        return True

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        """Sets the timer of the new window, if its end is still to come: a late record fires by itself."""
        end = window.max_timestamp()
        if end > ctx.get_current_watermark():
            ctx.register_event_time_timer(end)

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        """Takes the timer back."""
        ctx.delete_event_time_timer(window.max_timestamp())

    @staticmethod
    def create() -> EventTimeTrigger[Any]:
        """The trigger."""
        return EventTimeTrigger()

    def __repr__(self) -> str:
        return "EventTimeTrigger()"


class ProcessingTimeTrigger(Trigger[T, TimeWindow]):
    """Fires when the machine's time has come to the window's end."""

    def on_element(self, element: T, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Sets the timer."""
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Fires."""
        return TriggerResult.FIRE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Nothing."""
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        """It can."""
        return True

    def on_merge(self, window: TimeWindow, ctx: Trigger.OnMergeContext) -> None:
        """Sets the timer of the new window, if its end is still to come."""
        end = window.max_timestamp()
        if end > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(end)

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        """Takes the timer back."""
        ctx.delete_processing_time_timer(window.max_timestamp())

    @staticmethod
    def create() -> ProcessingTimeTrigger[Any]:
        """The trigger."""
        return ProcessingTimeTrigger()

    def __repr__(self) -> str:
        return "ProcessingTimeTrigger()"
