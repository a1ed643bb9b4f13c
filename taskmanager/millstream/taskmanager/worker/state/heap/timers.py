"""Timers on the heap: for each timestamp its key, or the set of its keys, and the timestamps in order.

Windows have many keys for one timestamp, and these are registered, deleted and taken at the cost of one dictionary
operation each. Timestamps are sorted at once when some are due: taking a million one by one out of a heap costs three
times as much. Later ones are added to a heap until there are many of them. A timestamp without timers is removed when
it comes up, or when there are more such timestamps than others. As in a table, shared values are copied before they are
changed. Owned by the task's thread.
"""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import islice, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NoReturn

from millstream.core.snapshot.tables.restore import Rows
from millstream.datastream.state import StateAccessError
from millstream.taskmanager.worker.state.address import NO_KEY, Address
from millstream.taskmanager.worker.state.capturing.arrow_tables import StateRows, stepwise_table
from millstream.taskmanager.worker.state.capturing.captured import RestoredFile, StateDeclaration, Work
from millstream.taskmanager.worker.state.capturing.dirty import DirtyKeyGroups
from millstream.taskmanager.worker.state.capturing.owned_groups import check_owned
from millstream.taskmanager.worker.state.capturing.restored_rows import owned_rows, refuse_native
from millstream.taskmanager.worker.state.declarations import check_namespaces
from millstream.taskmanager.worker.state.key_group_index import KeyGroupIndex
from millstream.taskmanager.worker.state.timers import DueTimers, TimeDomain, Timer

if TYPE_CHECKING:
    import pyarrow as pa

_TURNED = 8  # entries of a timestamp from which reversing them pays off
_FEW = 64  # timestamps that may be stale even if there are few others

Buckets = dict[int, Any]
"""By timestamp: a single entry itself, several as a dictionary.

An entry is never a dictionary, since it is hashable.
"""
_NONE: Any = object()
_COUNTED = 1000  # timestamps whose timers are counted: 40 µs


class HeapTimers:
    """Both queues of one name."""

    def __init__(
        self, declaration: StateDeclaration, index: KeyGroupIndex, address: Address, tracked: bool = False
    ) -> None:
        self.declaration = declaration
        self._index = index
        self._dirty = DirtyKeyGroups(index, itemgetter(0) if declaration.namespaced else None) if tracked else None
        self.event = HeapTimerQueue(declaration, index, address, self._dirty)
        self.processing = HeapTimerQueue(declaration, index, address, self._dirty)
        self._queues = {TimeDomain.EVENT: self.event, TimeDomain.PROCESSING: self.processing}

    def __len__(self) -> int:
        """An estimate from the first timestamps, if there are many."""
        return sum(len(queue) for queue in self._queues.values())

    def capture(self, checkpoint_id: int, incremental: bool) -> HeapTimerCapture:
        """Captures the timers."""
        base: int | None = None
        dirty_groups: frozenset[int] | None = None
        if incremental and self._dirty is not None:
            base, dirty_groups = self._dirty.close_interval(checkpoint_id)
        buckets = {domain: queue.buckets.copy() for domain, queue in self._queues.items()}
        captured = HeapTimerCapture(self.declaration, self._index, buckets, base, dirty_groups)
        for domain, queue in self._queues.items():
            queue.watch(buckets[domain])
        return captured

    def confirm(self, checkpoint_id: int) -> None:
        """The checkpoint has completed: incremental ones can build upon it."""
        if self._dirty is not None:
            self._dirty.confirm(checkpoint_id)

    def forget_released(self) -> None:
        """Stops copying for captures that were released on other threads."""
        for queue in self._queues.values():
            queue.forget_released()

    def load(self, rows: Rows) -> None:
        """Adds the rows of a snapshot in the key groups that this subtask owns."""
        chosen = owned_rows(rows, self._index)
        for domain, queue in self._queues.items():
            numbers = [row for row in chosen if rows.detail[row] == domain.value]
            namespaces = [rows.namespaces[row] for row in numbers] if self.declaration.namespaced else None
            queue.register_all([rows.content[row] for row in numbers], [rows.keys[row] for row in numbers], namespaces)
        unknown = set(rows.detail) - {domain.value for domain in TimeDomain}
        if unknown:
            raise StateAccessError(
                f"state '{self.declaration.name}' holds timers of the domain {unknown.pop()!r}, "
                "and there are only 'event' and 'processing'"
            )

    def load_native(self, files: Sequence[RestoredFile]) -> NoReturn:
        """Raises: the heap has no native format."""
        refuse_native(self.declaration, files)


class HeapTimerQueue:
    """The timers of one domain."""

    def __init__(
        self, declaration: StateDeclaration, index: KeyGroupIndex, address: Address, dirty: DirtyKeyGroups | None
    ) -> None:
        self.buckets: Buckets = {}
        # timestamps, the first one last; together with `_order`, those of all buckets and stale ones
        self._sorted: list[int] = []
        self._order: list[int] = []  # a heap of timestamps added since
        self._index = index
        self._address = address
        self._declaration = declaration
        self._namespaced = declaration.namespaced
        self._dirty = dirty
        self._captured: tuple[Buckets, ...] = ()

    def __len__(self) -> int:
        looked_at = list(islice(self.buckets.values(), _COUNTED))
        found = sum(len(held) if type(held) is dict else 1 for held in looked_at)
        return round(found * len(self.buckets) / len(looked_at)) if looked_at else 0

    def register(self, timestamp: int, namespace: Any = None) -> None:
        """Registers a timer for the current key."""
        key = self._address.key
        if key is NO_KEY:
            hash(key)  # raises the appropriate error
        entry = (key, namespace) if self._namespaced else key
        if timestamp in self.buckets:
            self._add(timestamp, entry)
            return
        self.buckets[timestamp] = entry
        heapq.heappush(self._order, timestamp)
        if self._dirty is not None:
            self._dirty.add(entry)

    def delete(self, timestamp: int, namespace: Any = None) -> None:
        """Deletes a timer of the current key."""
        key = self._address.key
        self._discard(timestamp, (key, namespace) if self._namespaced else key)

    def register_all(
        self, timestamps: Iterable[int], keys: Collection[Any], namespaces: Iterable[Any] | None = None
    ) -> None:
        """Registers timers for many keys."""
        entries = self._entries(keys, namespaces)
        for timestamp, entry in zip(timestamps, entries, strict=True):
            bucket = self.buckets.get(timestamp)
            if type(bucket) is not dict or self._captured:
                self._add(timestamp, entry)
            else:
                bucket[entry] = None
        if self._dirty is not None:
            self._dirty.add_all(entries)

    def delete_all(
        self, timestamps: Iterable[int], keys: Collection[Any], namespaces: Iterable[Any] | None = None
    ) -> None:
        """Deletes timers of many keys."""
        for timestamp, entry in zip(timestamps, self._entries(keys, namespaces), strict=True):
            self._discard(timestamp, entry)

    def next_timestamp(self) -> int | None:
        """The timestamp of the next timer."""
        ordered, order, buckets = self._sorted, self._order, self.buckets
        while ordered and ordered[-1] not in buckets:
            ordered.pop()
        while order and order[0] not in buckets:
            heapq.heappop(order)
        if ordered and (not order or ordered[-1] <= order[0]):
            return ordered[-1]
        return order[0] if order else None

    def owners(self, most: int) -> int:
        """How many keys, or keys with namespaces, have timers."""
        found: set[Any] = set()
        for bucket in islice(self.buckets.values(), most):
            found.update(islice(bucket, most) if type(bucket) is dict else (bucket,))
            if len(found) >= most:
                return most
        return len(found)

    def due(self, until: int) -> Iterator[Timer]:
        """Removes and returns timers one after another, as long as they are due."""
        self._sort(until)
        ordered, order, buckets, dirty = self._sorted, self._order, self.buckets, self._dirty
        made, namespaced = tuple.__new__, self._namespaced  # a third of the time of the class's own constructor
        while ordered or order:
            if ordered and not (order and order[0] < ordered[-1]):
                if ordered[-1] > until:
                    return
                timestamp = ordered.pop()
            elif order[0] > until:
                return
            else:
                timestamp = heapq.heappop(order)
            entry = buckets.pop(timestamp, _NONE)
            if entry is _NONE:
                continue
            if type(entry) is dict:
                yield from self._due_of(timestamp, entry)
                continue
            if dirty is not None:
                dirty.add(entry)
            yield made(Timer, (timestamp, *entry) if namespaced else (timestamp, entry, None))

    def _due_of(self, timestamp: int, entries: dict[Any, None]) -> Iterator[Timer]:
        """Removes and returns those of one timestamp, as long as no earlier one is registered meanwhile."""
        order, buckets, dirty = self._order, self.buckets, self._dirty
        made, namespaced = tuple.__new__, self._namespaced
        # In a large dictionary only the last entry can be removed quickly, so the first is made the last.
        many = len(entries) > _TURNED
        left = buckets[timestamp] = dict.fromkeys(reversed(entries)) if many else entries
        heapq.heappush(order, timestamp)
        while left and buckets.get(timestamp) is left and order[0] >= timestamp:
            if self._captured:
                left = self._own(timestamp, left)
            if many:
                entry, _ = left.popitem()
            else:
                entry = next(iter(left))
                del left[entry]
            if not left:
                del buckets[timestamp]
            if dirty is not None:
                dirty.add(entry)
            yield made(Timer, (timestamp, *entry) if namespaced else (timestamp, entry, None))

    def _sort(self, until: int) -> None:
        """Merges all timestamps into one sorted list, if some are due and enough were added since the last time."""
        order = self._order
        if order and order[0] <= until and len(order) > _FEW + len(self._sorted) // 4:
            self._sorted += order
            self._sorted.sort(reverse=True)
            order.clear()

    def take_due(self, until: int) -> DueTimers | None:
        """Removes and returns all timers of the first timestamp, if it is due."""
        self._sort(until)
        timestamp = self.next_timestamp()
        if timestamp is None or timestamp > until:
            return None
        held = self.buckets.pop(timestamp)
        entries = list(held) if type(held) is dict else [held]
        if self._dirty is not None:
            self._dirty.add_all(entries)
        if not self._namespaced:
            return DueTimers(timestamp, entries, None)
        return DueTimers(timestamp, list(map(itemgetter(0), entries)), list(map(itemgetter(1), entries)))

    def watch(self, captured: Buckets) -> None:
        """Marks these buckets as shared with a capture, until they are empty."""
        self.forget_released()
        if captured:
            self._captured = (*self._captured, captured)

    def forget_released(self) -> None:
        """Stops copying for captures that were released."""
        if self._captured and not all(self._captured):
            self._captured = tuple(filter(None, self._captured))

    def _entries(self, keys: Collection[Any], namespaces: Iterable[Any] | None) -> list[Any]:
        check_namespaces(self._declaration, namespaces is not None)
        canonical = self._index.canonical_keys(keys if isinstance(keys, list) else list(keys))
        return list(zip(canonical, namespaces, strict=True)) if namespaces is not None else canonical

    def _add(self, timestamp: int, entry: Any) -> None:
        held = self.buckets.get(timestamp, _NONE)
        if held is _NONE:
            self.buckets[timestamp] = entry
            heapq.heappush(self._order, timestamp)
        elif type(held) is dict:
            if entry in held:
                return
            self._own(timestamp, held)[entry] = None
        elif held is entry or held == entry:
            return
        else:
            self.buckets[timestamp] = {held: None, entry: None}
        if self._dirty is not None:
            self._dirty.add(entry)

    def _discard(self, timestamp: int, entry: Any) -> None:
        hash(entry)  # raises if there is no current key
        held = self.buckets.get(timestamp, _NONE)
        if type(held) is dict and len(held) > 1:
            if entry not in held:
                return
            del self._own(timestamp, held)[entry]
        elif held is entry or held == entry or (type(held) is dict and entry in held):
            del self.buckets[timestamp]
            if len(self._order) + len(self._sorted) > 2 * len(self.buckets) + _FEW:
                self._order[:] = self.buckets
                heapq.heapify(self._order)
                self._sorted.clear()
        else:
            return
        if self._dirty is not None:
            self._dirty.add(entry)

    def _own(self, timestamp: int, bucket: dict[Any, None]) -> dict[Any, None]:
        """The bucket, to be changed: a copy if a capture shares it."""
        if self._captured and any(captured.get(timestamp) is bucket for captured in self._captured):
            bucket = self.buckets[timestamp] = bucket.copy()
        return bucket


class HeapTimerCapture:
    """The timers of one name at the moment of the capture."""

    def __init__(
        self, declaration: StateDeclaration, index: KeyGroupIndex, buckets: dict[TimeDomain, Buckets],
        base: int | None, dirty_groups: frozenset[int] | None,
    ) -> None:  # fmt: skip
        self.declaration = declaration
        self.base = base
        self.dirty_groups = dirty_groups
        self._index = index
        self._buckets = buckets

    def table(self, key_groups: Collection[int] | None = None, work: Work = nullcontext) -> pa.Table:
        """The timers of some key groups; without an argument, of those to write."""
        with work():
            rows = self._rows()
            wanted = self.dirty_groups if key_groups is None else key_groups
            rows = rows if wanted is None else rows.of_groups(wanted)
            check_owned(self._index.owned, rows.key_groups, rows.keys)
        return stepwise_table(self.declaration, rows, self._index.max_parallelism, work)

    def _rows(self) -> StateRows:
        times: list[Any] = []
        entries: list[Any] = []
        for domain, buckets in self._buckets.items():
            for timestamp, held in buckets.items():
                if type(held) is dict:
                    times += repeat((timestamp, domain.value), len(held))
                    entries += held
                else:
                    times.append((timestamp, domain.value))
                    entries.append(held)
        namespaced = self.declaration.namespaced
        keys = list(map(itemgetter(0), entries)) if namespaced else entries
        namespaces = list(map(itemgetter(1), entries)) if namespaced else None
        return StateRows(times, keys, namespaces, self._index.column(keys))

    def native_files(self) -> None:
        """None: values are Python objects."""

    def release(self) -> None:
        """Releases the timers, one timestamp after the other."""
        for buckets in self._buckets.values():
            with contextlib.suppress(KeyError):
                while True:
                    buckets.popitem()
