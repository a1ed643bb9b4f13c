"""Emits batches together with generated watermarks: each signal directly after the record that caused it.

A generator that is called for each record may emit anywhere in a batch. The batch is split there, so that the order of
records and signals downstream does not depend on the batch size: which records are late, and when timers fire, is
deterministic. A batch in which nothing was emitted is sent as a whole. The generator has seen all records before the
first of them is sent; no operator is called from within a user's generator.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from operator import length_hint
from typing import Any

from millstream.core.records.batches import Batch, StreamSignal
from millstream.taskmanager.worker.interruption import TaskInterrupted
from millstream.taskmanager.worker.operators.base import NO_RECORD, OperatorError
from millstream.taskmanager.worker.operators.output import Emit, Send
from millstream.taskmanager.worker.operators.time.event_time import GeneratedWatermarks


class TimedOutput:
    """The output of one operator. The watermarks of its streams are sent through `signal`."""

    def __init__(self, operator_name: str, emit: Emit, send: Send, rows_of: Callable[[Batch], list[Any]]) -> None:
        self._name = operator_name
        self._emit = emit
        self._send = send
        self._rows_of = rows_of
        self._count = 0
        self._left: Any = None  # the iterator over the records that the generator has not seen yet, while it is called
        self._placed: list[tuple[int, StreamSignal]] = []

    def signal(self, signal: StreamSignal) -> None:
        """Sends a signal, after the current record if the generator is being called for one."""
        if self._left is None:
            self._send(signal)
        else:
            self._placed.append((self._count - length_hint(self._left), signal))

    def emit(self, batch: Batch, watermarks: GeneratedWatermarks | None) -> None:
        """Emits a batch of one stream, and the watermarks that its generator emits for it; none without timestamps."""
        if watermarks is None or not batch.is_timed:
            self._emit(batch)
            return
        watermarks.wake_up()
        by_record = watermarks.is_called_for_each
        rows = self._rows_of(batch) if watermarks.reads_events else []
        self._count, self._left = len(batch), iter(rows if by_record else ())
        error: OperatorError | None = None
        try:
            if by_record:
                watermarks.follow_each(self._left, _plain(batch.timestamps))
            else:
                watermarks.follow(rows, batch.timestamps)
        except TaskInterrupted:
            raise
        except BaseException as cause:
            record = rows[len(rows) - length_hint(self._left) - 1] if by_record else NO_RECORD
            error = OperatorError(self._name, record, cause)
        finally:
            seen = self._count - length_hint(self._left)
            placed, self._placed, self._left = self._placed, [], None
        start = 0
        for position, signal in placed:
            if position > start:
                self._emit(batch.slice(start, position))
                start = position
            self._send(signal)
        if start < seen:
            self._emit(batch.slice(start, seen) if seen - start < len(batch) else batch)
        if error is not None:
            raise error


def _plain(timestamps: Any) -> Sequence[int]:
    """Timestamps as Python integers."""
    return timestamps if isinstance(timestamps, array) else timestamps.to_pylist()
