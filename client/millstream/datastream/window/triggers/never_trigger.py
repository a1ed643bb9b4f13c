"""`NeverTrigger`: never evaluates a window; the default trigger of global windows."""

from __future__ import annotations

from millstream.core.overriding import override
from millstream.core.records.type_variables import T
from millstream.datastream.window.triggers.trigger import Trigger, TriggerResult
from millstream.datastream.window.windows import GlobalWindow


class NeverTrigger(Trigger[T, GlobalWindow]):
    """Never fires."""

    @override
    def on_element(
        self, element: T, timestamp: int, window: GlobalWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        return TriggerResult.CONTINUE

    @override
    def on_processing_time(self, time: int, window: GlobalWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    @override
    def on_event_time(self, time: int, window: GlobalWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    @override
    def on_merge(self, window: GlobalWindow, ctx: Trigger.OnMergeContext) -> None:
        pass

    @override
    def clear(self, window: GlobalWindow, ctx: Trigger.TriggerContext) -> None:
        pass

    def __repr__(self) -> str:
        return "NeverTrigger()"
