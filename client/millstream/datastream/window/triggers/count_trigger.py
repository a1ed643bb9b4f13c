"""`CountTrigger`: evaluates a window after every `window_size` records."""

from __future__ import annotations

import operator
from typing import Any

from millstream.common.typeinfo import Types
from millstream.core.overriding import override
from millstream.core.records.type_variables import T, W
from millstream.datastream.state import ReducingStateDescriptor
from millstream.datastream.window.lengths import positive_count
from millstream.datastream.window.triggers.trigger import Trigger, TriggerResult


class CountTrigger(Trigger[T, W]):
    """Fires with every n-th record of a window. The window keeps its records, unless it is purged."""

    def __init__(self, window_size: int) -> None:
        self.window_size = positive_count("CountTrigger", "window_size", window_size)
        self._count = ReducingStateDescriptor("count", operator.add, Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTrigger[Any, Any]:
        """Returns a trigger that fires after every `window_size` records."""
        return CountTrigger(window_size)

    @override
    def on_element(self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        count = ctx.get_partitioned_state(self._count)
        count.add(1)
        if count.get() < self.window_size:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    @override
    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    @override
    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    @override
    def can_merge(self) -> bool:
        return True

    @override
    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._count)

    @override
    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        ctx.get_partitioned_state(self._count).clear()

    def __repr__(self) -> str:
        return f"CountTrigger({self.window_size})"
