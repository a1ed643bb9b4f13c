"""A single operator in this process, as in a slot worker: for figures of one core."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable
from typing import Any

from millstream.core.records.batches import Batch, ColumnBatch, RowBatch, StreamSignal
from millstream.taskmanager.testing import OperatorHarness
from millstream.taskmanager.worker.main import GC_THRESHOLDS


class Counting:
    """An output that only counts."""

    def __init__(self) -> None:
        self.rows = 0

    def emit(self, batch: Any) -> None:
        """Counts a batch."""
        self.rows += len(batch)

    def signal(self, signal: StreamSignal) -> None:
        """Ignores signals."""


def seconds_of(harness: OperatorHarness, elements: Iterable[tuple[int, Batch | StreamSignal]]) -> tuple[float, int]:
    """Returns the CPU seconds of the operator for the elements of its inputs, and the number of rows that it emits."""
    counting = Counting()
    operator = harness.operator
    operator.output = counting  # type: ignore[assignment]  # the batches of a harness would be kept
    receivers = operator.receivers()
    ready = list(elements)
    gc.set_threshold(*GC_THRESHOLDS)
    gc.collect()
    gc.freeze()  # the input is not part of the measured work
    begin = time.process_time()
    for number, element in ready:
        if isinstance(element, RowBatch | ColumnBatch):
            receivers[number](element)
        else:
            operator.on_signal(element, number)
    return time.process_time() - begin, counting.rows
