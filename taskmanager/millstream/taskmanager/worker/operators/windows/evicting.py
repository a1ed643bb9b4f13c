"""Evictors, which remove elements from a window before its function is called, and after."""

from __future__ import annotations

from typing import Any

from millstream.core.records.batches import MIN_TIMESTAMP
from millstream.datastream.functions import MetricGroup, RuntimeContext
from millstream.datastream.window import Evictor, TimestampedValue
from millstream.taskmanager.worker.operators.time.timer_service import OperatorTimers
from millstream.taskmanager.worker.operators.windows.contents import BufferedContents


class _EvictorContext(Evictor.EvictorContext):
    def __init__(self, clocks: OperatorTimers, context: RuntimeContext) -> None:
        self._clocks = clocks
        self._context = context

    def get_current_processing_time(self) -> int:
        return self._clocks.current_processing_time()

    def get_current_watermark(self) -> int:
        return self._clocks.watermark

    def get_metric_group(self) -> MetricGroup:
        return self._context.get_metrics_group()


class Evicting:
    """The evictor of one operator. Its contents keep each record with its timestamp."""

    def __init__(
        self, evictor: Evictor[Any, Any], contents: BufferedContents, clocks: OperatorTimers, context: RuntimeContext
    ) -> None:
        self._evictor = evictor
        self._contents = contents
        self._context = _EvictorContext(clocks, context)
        self._left: list[TimestampedValue[Any]] = []
        self._held = 0

    def before(self, window: Any, elements: list[Any]) -> list[Any]:
        """The records passed to the window's function."""
        self._held = len(elements)
        self._left = [TimestampedValue(record, None if time == MIN_TIMESTAMP else time) for record, time in elements]
        self._evictor.evict_before(self._left, self._held, window, self._context)
        return [element.value for element in self._left]

    def after(self, window: Any, state: Any) -> None:
        """Stores what is left."""
        left = self._left
        self._evictor.evict_after(left, len(left), window, self._context)
        if len(left) != self._held:
            times = [MIN_TIMESTAMP if element.timestamp is None else element.timestamp for element in left]
            self._contents.replace(state, [(element.value, time) for element, time in zip(left, times, strict=True)])
