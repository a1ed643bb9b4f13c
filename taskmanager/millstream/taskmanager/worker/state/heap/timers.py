"""Timers on the heap: for each timestamp its key, or the set of its keys, and the timestamps in order.

Windows have many keys for one timestamp, and these are registered, deleted and taken at the cost of one dictionary
operation each. Timestamps are sorted at once when some are due: taking a million one by one out of a heap costs three
times as much. Later ones are added to a heap until there are many of them. A timestamp without timers is removed when
it comes up, or when there are more such timestamps than others. As in a table, what a capture shares is copied before
it is changed. Owned by the task's thread.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from operator import itemgetter
from typing import Any, NoReturn

from millstream.core.snapshot.tables.restore import Rows
from millstream.datastream.state import StateAccessError
from millstream.taskmanager.worker.state.address import NO_KEY, Address
from millstream.taskmanager.worker.state.capturing.captured import RestoredFile, StateDeclaration
from millstream.taskmanager.worker.state.capturing.dirty import DirtyKeyGroups
from millstream.taskmanager.worker.state.capturing.restored_rows import owned_rows, refuse_native
from millstream.taskmanager.worker.state.declarations import check_namespaces
from millstream.taskmanager.worker.state.heap.captured_timers import Buckets, CapturedQueue, HeapTimerCapture
from millstream.taskmanager.worker.state.key_group_index import KeyGroupIndex
from millstream.taskmanager.worker.state.timers import DueTimers, TimeDomain, Timer

_TURNED = 8  # entries of a timestamp from which reversing them pays off
_FEW = 64  # timestamps that may be stale even if there are few others

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
        queues = {domain: CapturedQueue(queue.buckets) for domain, queue in self._queues.items()}
        for domain, queue in self._queues.items():
            queue.watch(queues[domain])
        return HeapTimerCapture(self.declaration, self._index, queues, base, dirty_groups)

    def confirm(self, checkpoint_id: int) -> None:
        """The checkpoint has completed: incremental ones can build upon it."""
        if self._dirty is not None:
            self._dirty.confirm(checkpoint_id)

    def forget_released(self) -> None:
        """Stops copying for captures that were released on other threads."""
        for queue in self._queues.values():
            queue.forget_released()

    def load(self, parts: Iterable[Rows]) -> None:
        """Adds the rows of a snapshot in the key groups that this subtask owns."""
        for rows in parts:
            unknown = set(rows.detail) - {domain.value for domain in TimeDomain}
            if unknown:
                raise StateAccessError(
                    f"state '{self.declaration.name}' holds timers of the domain {unknown.pop()!r}, "
                    "and there are only 'event' and 'processing'"
                )
            chosen = owned_rows(rows, self._index)
            for domain, queue in self._queues.items():
                numbers = [row for row in chosen if rows.detail[row] == domain.value]
                namespaces = [rows.namespaces[row] for row in numbers] if self.declaration.namespaced else None
                times, keys = [rows.content[row] for row in numbers], [rows.keys[row] for row in numbers]
                queue.register_all(times, keys, namespaces)

    def load_native(self, file: RestoredFile) -> NoReturn:
        """Raises: the heap has no native format."""
        refuse_native(self.declaration, file)


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
        self._captured: tuple[CapturedQueue, ...] = ()

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
        if many:
            self._is_new(timestamp)
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

    def watch(self, captured: CapturedQueue) -> None:
        """Marks all buckets as shared with a capture, until that is released."""
        self.forget_released()
        if self.buckets:
            self._captured = (*self._captured, captured)

    def forget_released(self) -> None:
        """Stops copying for captures that were released."""
        if self._captured and any(captured.is_released for captured in self._captured):
            self._captured = tuple(captured for captured in self._captured if not captured.is_released)

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
            self._is_new(timestamp)
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
        """The bucket, to be changed: a copy if a capture may share it.

        What replaces a bucket is never shared: that of the capture does not come back once another one took its place.
        """
        if self._captured and any(timestamp not in captured.replaced for captured in self._captured):
            bucket = self.buckets[timestamp] = bucket.copy()
            self._is_new(timestamp)
        return bucket

    def _is_new(self, timestamp: int) -> None:
        """The bucket is another one than those of all captures."""
        for captured in self._captured:
            captured.replaced.add(timestamp)
