"""Buffers what a source function has collected on its thread until its task takes it: records and signals.

Shared by two threads under one lock, which is also the checkpoint lock that the function may hold. A thread that holds
it never waits for room: it waits before it takes the lock, so that backpressure does not delay a snapshot, which needs
the lock. The buffer may therefore exceed its capacity by the records collected under the lock.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any

from millstream.core.overriding import override
from millstream.core.records.batches import MIN_TIMESTAMP, RowBatch, StreamSignal, Watermark, WatermarkStatus
from millstream.datastream.functions.source_functions import SourceContext

ROOM = 2048  # records


class SourceCancelled(BaseException):
    """Raised in the function by any method of the context once no more records are taken."""


class CollectedRecords(SourceContext[Any]):
    """The function's context on one side, a queue on the other. `on_change` is called when elements are added."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._lock = threading.RLock()
        self._room = threading.Condition(self._lock)
        self._held = 0  # how many times the function holds the lock
        self._waiting: deque[RowBatch | StreamSignal] = deque()
        self._count = 0
        self._is_idle = False
        self._last = MIN_TIMESTAMP
        self._cancelled = False
        self._ended = False

    # The function's side

    def __enter__(self) -> None:
        self._lock.acquire()
        try:
            if not self._held:
                self._room.wait_for(lambda: self._cancelled or self._count < ROOM)
            if self._cancelled:
                raise SourceCancelled
        except BaseException:
            self._lock.release()
            raise
        self._held += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._held -= 1
        self._lock.release()

    def get_checkpoint_lock(self) -> CollectedRecords:
        """The context itself, which is the lock."""
        return self

    @override
    def collect(self, element: Any) -> None:
        with self:
            self._mark_active()
            last = self._waiting[-1] if self._waiting else None
            if isinstance(last, RowBatch) and last.timestamps is None:
                last.rows.append(element)
            else:
                self._add(RowBatch([element]))
            self._count += 1

    def collect_with_timestamp(self, element: Any, timestamp: int) -> None:
        """Appends a record with a timestamp; records with and without timestamps are not in one batch."""
        if timestamp.__class__ is not int:
            raise TypeError(f"a timestamp must be a number of milliseconds, not {timestamp!r:.100}")
        with self:
            self._mark_active()
            last = self._waiting[-1] if self._waiting else None
            if isinstance(last, RowBatch) and last.timestamps is not None:
                last.rows.append(element)
                last.timestamps.append(timestamp)
            else:
                self._add(RowBatch([element], [timestamp]))
            self._count += 1

    def emit_watermark(self, timestamp: Any) -> None:
        """Appends a watermark; one that is not higher than the last is ignored."""
        mark = timestamp if isinstance(timestamp, Watermark) else Watermark(timestamp)
        if mark.timestamp.__class__ is not int:
            raise TypeError(f"a watermark must be a number of milliseconds, not {timestamp!r:.100}")
        with self:
            if mark.timestamp > self._last:
                self._mark_active()
                self._last = mark.timestamp
                self._add(mark)

    def mark_as_temporarily_idle(self) -> None:
        """Marks the source idle; it is logged once."""
        with self:
            if not self._is_idle:
                self._is_idle = True
                self._add(WatermarkStatus(True))

    def is_cancelled(self) -> bool:
        """Whether no more records are taken."""
        return self._cancelled

    def _mark_active(self) -> None:
        if self._is_idle:
            self._is_idle = False
            self._add(WatermarkStatus(False))

    def _add(self, item: RowBatch | StreamSignal) -> None:
        """Appends an item. Only the first one wakes the task: while there are more, it polls by itself."""
        is_news = not self._waiting
        self._waiting.append(item)
        if is_news:
            self._on_change()

    def end(self) -> None:
        """The function has returned, or raised."""
        with self._lock:
            self._ended = True
        self._on_change()

    # The task's side

    def take(self, most: int) -> RowBatch | StreamSignal | None:
        """The next signal, or at most so many records of one batch; None if there is nothing now."""
        with self._lock:
            if not self._waiting:
                return None
            first = self._waiting[0]
            if not isinstance(first, RowBatch):
                self._waiting.popleft()
                return first
            if len(first) <= most:
                self._waiting.popleft()
                taken = first
            else:
                taken = first.slice(0, most)
                self._waiting[0] = first.slice(most, len(first))
            self._count -= len(taken)
            self._room.notify()
            return taken

    @property
    def is_over(self) -> bool:
        """Whether the function has ended and everything was taken."""
        with self._lock:
            return self._ended and not self._waiting

    def frozen(self) -> threading.RLock:
        """The lock, held by the task for a snapshot: the function neither emits nor holds the lock meanwhile."""
        return self._lock

    def cancel(self) -> None:
        """Stops taking records."""
        with self._lock:
            self._cancelled = True
            self._waiting.clear()
            self._room.notify_all()
