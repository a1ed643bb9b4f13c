"""`CountTrigger`: evaluates a window after every so many records."""

from __future__ import annotations

import operator
from typing import Any

from millstream.common.typeinfo import Types
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
        """Fires with every so many records."""
        return CountTrigger(window_size)

    def on_element(self, element: T, timestamp: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Counts, and begins anew when it fires."""
        count = ctx.get_partitioned_state(self._count)
        count.add(1)
        if count.get() < self.window_size:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def on_processing_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Nothing."""
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: W, ctx: Trigger.TriggerContext) -> TriggerResult:
        """Nothing."""
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        """It can."""
        return True

    def on_merge(self, window: W, ctx: Trigger.OnMergeContext) -> None:
        """Adds up what was counted in the former windows; the next record tells whether that is enough."""
        ctx.merge_partitioned_state(self._count)

    def clear(self, window: W, ctx: Trigger.TriggerContext) -> None:
        """Forgets the count."""
        ctx.get_partitioned_state(self._count).clear()

    def __repr__(self) -> str:
        return f"CountTrigger({self.window_size})"
