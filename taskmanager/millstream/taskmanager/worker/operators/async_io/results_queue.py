"""In which order the results of asynchronous calls leave, as pure machines.

Ordered: as their records came. Unordered: as they come, but no result passes a signal, nor a signal a result: what
came before a watermark leaves before it, and what came behind it, behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Protocol

from msgspec import Struct

from millstream.core.records.batches import StreamSignal


class Call(Struct, eq=False):
    """A record, from when it came until its results have left."""

    value: Any
    timestamp: int | None
    number: int = -1
    """Which call it is, from when it is under way."""
    attempts: int = 0
    is_late: bool = False
    """Whether it has taken too long: the result of its function's `timeout` counts."""
    results: list[Any] | None = None
    """Once they are there."""


Departure = Call | StreamSignal


class ResultsQueue(Protocol):
    """What has come and not left."""

    def add(self, departure: Departure) -> None:
        """A record or a signal, in the order in which they come."""

    def completed(self, call: Call) -> None:
        """A record has its results."""

    def leaving(self) -> Iterator[Departure]:
        """Takes out what may leave now."""

    def calls(self) -> Iterator[Call]:
        """The records in it, oldest first."""

    @property
    def is_empty(self) -> bool:
        """Whether neither a record nor a signal is in it."""


class OrderedQueue:
    """Everything leaves in the order in which it came."""

    def __init__(self) -> None:
        self._queue: deque[Departure] = deque()

    def add(self, departure: Departure) -> None:
        """A record or a signal."""
        self._queue.append(departure)

    def completed(self, call: Call) -> None:
        """Its results suffice."""

    def leaving(self) -> Iterator[Departure]:
        """Up to the first record without results."""
        queue = self._queue
        while queue:
            first = queue[0]
            if isinstance(first, Call) and first.results is None:
                return
            yield queue.popleft()

    def calls(self) -> Iterator[Call]:
        """The records in it."""
        return (departure for departure in self._queue if isinstance(departure, Call))

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in it."""
        return not self._queue


class _Segment(Struct, eq=False):
    """The records between two signals, and the signal behind them."""

    pending: dict[Call, None] = {}
    done: list[Call] = []
    end: StreamSignal | None = None


class UnorderedQueue:
    """Results leave as they come, within their segment."""

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
        """Its turn within its segment has come."""
        segment = self._of.pop(call)
        del segment.pending[call]
        segment.done.append(call)

    def leaving(self) -> Iterator[Departure]:
        """What is done of the first segment; of the next, once nothing is left of that."""
        while True:
            first = self._segments[0]
            yield from first.done
            first.done = []
            if first.pending or first.end is None:
                return
            self._segments.popleft()
            yield first.end

    def calls(self) -> Iterator[Call]:
        """The records in it: of a segment first those that are done, which is the order in which they will leave."""
        return (call for segment in self._segments for call in (*segment.done, *segment.pending))

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in it."""
        first = self._segments[0]
        return not first.pending and not first.done and first.end is None
