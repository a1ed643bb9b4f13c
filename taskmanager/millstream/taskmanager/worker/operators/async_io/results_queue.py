"""The order in which results of asynchronous calls are emitted, as pure machines.

Ordered: in the order of the records. Unordered: as they complete, but no result overtakes a signal, nor a signal a
result: records before a watermark are emitted before it, and those after it, after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Protocol

from msgspec import Struct

from millstream.core.records.batches import StreamSignal


class Call(Struct, eq=False):
    """A record, from its arrival until its results are emitted."""

    value: Any
    timestamp: int | None
    number: int = -1
    """The number of the call, once it has started."""
    attempts: int = 0
    is_late: bool = False
    """Whether it has timed out: the result of the function's `timeout` is used."""
    results: list[Any] | None = None
    """None until it has completed."""


Departure = Call | StreamSignal


class ResultsQueue(Protocol):
    """The records and signals that have not been emitted."""

    def add(self, departure: Departure) -> None:
        """Appends a record or a signal, in order of arrival."""

    def completed(self, call: Call) -> None:
        """The call of a record has completed."""

    def leaving(self) -> Iterator[Departure]:
        """Removes what may be emitted now."""

    def calls(self) -> Iterator[Call]:
        """The queued records, the oldest first."""

    @property
    def is_empty(self) -> bool:
        """Whether the queue holds neither records nor signals."""


class OrderedQueue:
    """Emits everything in order of arrival."""

    def __init__(self) -> None:
        self._queue: deque[Departure] = deque()

    def add(self, departure: Departure) -> None:
        """Appends a record or a signal."""
        self._queue.append(departure)

    def completed(self, call: Call) -> None:
        """Does nothing: the results are set."""

    def leaving(self) -> Iterator[Departure]:
        """Everything up to the first record without results."""
        queue = self._queue
        while queue:
            first = queue[0]
            if isinstance(first, Call) and first.results is None:
                return
            yield queue.popleft()

    def calls(self) -> Iterator[Call]:
        """The queued records."""
        return (departure for departure in self._queue if isinstance(departure, Call))

    @property
    def is_empty(self) -> bool:
        """Whether the queue is empty."""
        return not self._queue


class _Segment(Struct, eq=False):
    """The records between two signals, and the signal behind them."""

    pending: dict[Call, None] = {}
    done: list[Call] = []
    end: StreamSignal | None = None


class UnorderedQueue:
    """Emits results as they complete, within their segment."""

    def __init__(self) -> None:
        self._segments: deque[_Segment] = deque([_Segment()])
        self._of: dict[Call, _Segment] = {}

    def add(self, departure: Departure) -> None:
        """A record, or a signal that ends a segment."""
        last = self._segments[-1]
        if isinstance(departure, Call):
            last.pending[departure] = None
            self._of[departure] = last
        else:
            last.end = departure
            self._segments.append(_Segment())

    def completed(self, call: Call) -> None:
        """Queues the results for emission within their segment."""
        segment = self._of.pop(call)
        del segment.pending[call]
        segment.done.append(call)

    def leaving(self) -> Iterator[Departure]:
        """The completed records of the first segment; then those of the next, once the first is empty."""
        while True:
            first = self._segments[0]
            yield from first.done
            first.done = []
            if first.pending or first.end is None:
                return
            self._segments.popleft()
            yield first.end

    def calls(self) -> Iterator[Call]:
        """The queued records; within a segment, completed ones come first, in the order of their emission."""
        return (call for segment in self._segments for call in (*segment.done, *segment.pending))

    @property
    def is_empty(self) -> bool:
        """Whether the queue is empty."""
        first = self._segments[0]
        return not first.pending and not first.done and first.end is None
