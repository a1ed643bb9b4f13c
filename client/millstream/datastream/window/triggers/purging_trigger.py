"""`PurgingTrigger`: drops a window's records whenever another trigger evaluates it."""

from __future__ import annotations

from millstream.core.errors import InvalidProgramError
from millstream.core.overriding import override
from millstream.core.records.type_variables import T, W
from millstream.datastream.window.triggers.trigger import Trigger, TriggerResult


class PurgingTrigger(Trigger[T, W]):
    """Does as the trigger inside it, but fires and purges where that one only fires."""

    def __init__(self, nested_trigger: Trigger[T, W]) -> None:
        if not isinstance(nested_trigger, Trigger):
            raise InvalidProgramError(
                f"PurgingTrigger: expected the trigger whose windows it purges, got {nested_trigger!r}"
            )
        self.nested_trigger = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger[T, W]) -> PurgingTrigger[T, W]:
        """Returns a trigger that purges a window whenever `nested_trigger` fires."""
        return PurgingTrigger(nested_trigger)

    @override
    def on_element(self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_element(element, timestamp, window, ctx))

    @override
    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_event_time(time, window, ctx))

    @override
    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        return _purging(self.nested_trigger.on_processing_time(time, window, ctx))

    @override
    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        self.nested_trigger.clear(window, ctx)

    @override
    def can_merge(self) -> bool:
        return self.nested_trigger.can_merge()

    @override
    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        self.nested_trigger.on_merge(window, ctx)

    def __repr__(self) -> str:
        return f"PurgingTrigger({self.nested_trigger!r})"


def _purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result.is_fire() else result
