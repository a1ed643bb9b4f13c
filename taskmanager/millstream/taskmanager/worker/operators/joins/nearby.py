"""The records of one stream that an interval join keeps, by key and ordered by time.

A record of the other stream finds those in its interval by bisection. Which keys have expired records is known from an
index of their oldest records, which is rebuilt after a restore: it is coarse, so a key is visited once for many
records. Records are kept longer than necessary by at most a fraction of the interval.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import repeat
from operator import length_hint
from typing import Any

from millstream.core.records.types import LONG, ListType, TupleType, TypeInformation
from millstream.core.snapshot.metadata.model import StateKind
from millstream.taskmanager.worker.state.backend import KeyedStateBackend
from millstream.taskmanager.worker.state.table import MISSING

_FRACTION = 8  # of the interval: for how long records may be kept past their expiry
_SHORTEST = 100  # ms

Stamped = tuple[int, Any]


class NearbyRecords:
    """The records of one side of one operator. They are needed for `reach` ms behind the watermark."""

    def __init__(
        self, name: str, record_type: TypeInformation, backend: KeyedStateBackend, span: int, reach: int
    ) -> None:
        kept = ListType(TupleType((LONG, record_type), ("timestamp", "record")))
        self._name = name
        self._table = backend.table(name, kept, StateKind.VALUE)
        self._backend = backend
        self._reach = max(0, reach)
        self._width = max(_SHORTEST, span // _FRACTION)
        self._keys: dict[int, list[Any]] = {}  # by the pane that contains their oldest record
        self._panes: list[int] = []  # a heap of the panes
        self.kept = 0
        """The number of records."""

    def add(self, keys: Sequence[Any], times: list[int], records: Iterable[Any]) -> None:
        """Keeps records, each with its key and its time."""
        source = iter(list(zip(times, records, strict=True)))
        oldest: list[int] = []

        def first(record: Stamped) -> list[Stamped]:
            oldest.append(len(times) - length_hint(source) - 1)
            return [record]

        def insert(kept: list[Stamped], record: Stamped) -> list[Stamped]:
            if record[0] >= kept[-1][0]:
                kept.append(record)
                return kept
            place = bisect_left(kept, (record[0] + 1,))  # after those with the same time; records are never compared
            kept.insert(place, record)
            if place == 0:
                oldest.append(len(times) - length_hint(source) - 1)
            return kept

        self.kept += len(times)
        self._table.fold(keys, source, insert, first=first)
        for position in oldest:
            self._index(keys[position], times[position])

    def of(self, keys: list[Any]) -> list[Any]:
        """The kept records of each key, ordered by time, or MISSING."""
        return self._table.get_all(keys)

    def advance(self, watermark: int) -> None:
        """Removes the records out of reach: records that are not late have at least the watermark's time."""
        horizon = watermark - self._reach
        while self._panes and self._panes[0] + self._width <= horizon:
            keys = self._keys.pop(heapq.heappop(self._panes))
            gone: list[Any] = []
            for key, kept in zip(keys, self._table.get_all(keys), strict=True):
                if kept is MISSING:
                    continue
                if kept[-1][0] < horizon:
                    gone.append(key)
                    self.kept -= len(kept)
                    continue
                passed = bisect_left(kept, (horizon,))
                del kept[:passed]
                self.kept -= passed
                self._table.put(key, kept)
                self._index(key, kept[0][0])
            self._table.put_all(gone, repeat(MISSING, len(gone)))

    def next_event_time(self) -> int | None:
        """The lowest watermark at which any of them may be removed."""
        return self._panes[0] + self._width + self._reach if self._panes else None

    def restored(self) -> None:
        """Builds the index for restored records."""
        keys = self._backend.entries(self._name)
        for key, kept in zip(keys, self._table.get_all(keys), strict=True):
            self._index(key, kept[0][0])
            self.kept += len(kept)

    def _index(self, key: Any, time: int) -> None:
        pane = time - time % self._width
        keys = self._keys.get(pane)
        if keys is None:
            self._keys[pane] = [key]
            heapq.heappush(self._panes, pane)
        else:
            keys.append(key)
