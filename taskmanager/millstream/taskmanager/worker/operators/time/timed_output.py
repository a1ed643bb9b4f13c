"""How batches leave an operator that makes watermarks: each signal behind the record that it was made of.

A generator that is called for each record may emit anywhere in a batch. The batch is cut there, so that the records and
signals that follow are in the same order whatever the size of batches is: which records are late, and when timers fire,
does not depend on it. A batch in which nothing was emitted leaves as it is. The generator has seen all records before
the first of them leaves; no operator is called from within a user's generator.
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
    """Of one operator. The watermarks of the streams that it emits are sent through `signal`."""

    def __init__(self, operator_name: str, emit: Emit, send: Send, rows_of: Callable[[Batch], list[Any]]) -> None:
        self._name = operator_name
        self._emit = emit
        self._send = send
        self._rows_of = rows_of
        self._count = 0
        self._left: Any = None  # the iterator over the records that the generator has not seen yet, while it is called
        self._placed: list[tuple[int, StreamSignal]] = []

    def signal(self, signal: StreamSignal) -> None:
        """Sends a signal, behind the record that the generator is called for if it is called for one."""
        if self._left is None:
            self._send(signal)
        else:
            self._placed.append((self._count - length_hint(self._left), signal))

    def emit(self, batch: Batch, watermarks: GeneratedWatermarks | None) -> None:
        """Emits a batch of one stream, and what the stream's generator makes of it. Without timestamps, nothing."""
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
    """Those beside rows are integers; those beside columns become such."""
    return timestamps if isinstance(timestamps, array) else timestamps.to_pylist()
