"""Captures of heap timers: the buckets of both domains as lists, and how the writer reads them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import nullcontext
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from millstream.taskmanager.worker.state.capturing.arrow_tables import StateRows, keyed_table, parts_by_key_group
from millstream.taskmanager.worker.state.capturing.captured import StateDeclaration, Work
from millstream.taskmanager.worker.state.capturing.key_group_order import KeyGroupOrder
from millstream.taskmanager.worker.state.capturing.owned_groups import check_owned
from millstream.taskmanager.worker.state.heap.captured import key_groups_of, picked, released_in_steps
from millstream.taskmanager.worker.state.key_group_index import KeyGroupIndex
from millstream.taskmanager.worker.state.timers import TimeDomain

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

Buckets = dict[int, Any]
"""By timestamp: a single entry itself, several as a dictionary.

An entry is never a dictionary, since it is hashable.
"""


class CapturedQueue:
    """The timers of one domain. `replaced` are the timestamps whose buckets are not shared any more: see the owner."""

    __slots__ = ("held", "is_released", "replaced", "timestamps")

    def __init__(self, buckets: Buckets) -> None:
        self.timestamps, self.held = list(buckets), list(buckets.values())
        self.replaced: set[int] = set()
        self.is_released = False

    def release(self) -> None:
        """Releases the timers."""
        self.is_released = True
        released_in_steps(self.timestamps)
        released_in_steps(self.held)


class HeapTimerCapture:
    """The timers of one name at the moment of the capture."""

    def __init__(
        self, declaration: StateDeclaration, index: KeyGroupIndex, queues: Mapping[TimeDomain, CapturedQueue],
        base: int | None, dirty_groups: frozenset[int] | None,
    ) -> None:  # fmt: skip
        self.declaration = declaration
        self.base = base
        self.dirty_groups = dirty_groups
        self._index = index
        self._queues = queues
        self._flat: _FlatTimers | None = None

    def parts(self, key_groups: Collection[int] | None = None, work: Work = nullcontext) -> Iterator[pa.Table]:
        """The timers of some key groups; without an argument, of those to write."""
        timers = self._flattened(work)
        wanted = self.dirty_groups if key_groups is None else key_groups

        def convert(numbers: npt.NDArray[np.uint32]) -> pa.Table:
            return keyed_table(self.declaration, timers.rows(numbers), self._index.max_parallelism)

        return parts_by_key_group(timers.order, wanted, convert, work)

    def entries(self, key_groups: Collection[int], work: Work = nullcontext) -> int:
        """How many timers some key groups have."""
        return self._flattened(work).order.count(key_groups)

    def _flattened(self, work: Work) -> _FlatTimers:
        if self._flat is None:
            with work():
                self._flat = _FlatTimers(self._queues, self.declaration.namespaced, self._index)
        return self._flat

    def native_files(self) -> None:
        """None: values are Python objects."""

    def release(self) -> None:
        """Releases the timers."""
        self._flat = None
        for queue in self._queues.values():
            queue.release()


class _FlatTimers:
    """All timers one after the other."""

    def __init__(self, queues: Mapping[TimeDomain, CapturedQueue], namespaced: bool, index: KeyGroupIndex) -> None:
        import numpy as np

        self._namespaced = namespaced
        self._entries: list[Any] = []
        self._ends: list[int] = []
        self._domains = [domain.value for domain in queues]
        times = []
        for queue in queues.values():
            counts = []
            for held in queue.held:
                if type(held) is dict:
                    self._entries += held
                    counts.append(len(held))
                else:
                    self._entries.append(held)
                    counts.append(1)
            times.append(np.repeat(np.array(queue.timestamps, np.int64), counts))
            self._ends.append(len(self._entries))
        self._times = np.concatenate(times)
        self._groups = np.concatenate([np.empty(0, np.uint16), *key_groups_of(self._entries, namespaced, index)])
        check_owned(index.owned, self._groups, map(itemgetter(0), self._entries) if namespaced else self._entries)
        self.order = KeyGroupOrder(self._groups, index.max_parallelism)

    def rows(self, numbers: npt.NDArray[np.uint32]) -> StateRows:
        """Those of some numbers."""
        import numpy as np

        domains = [self._domains[n] for n in np.searchsorted(self._ends, numbers, side="right").tolist()]
        keys, namespaces = picked(self._entries, numbers.tolist()), None
        if self._namespaced:
            keys, namespaces = list(map(itemgetter(0), keys)), list(map(itemgetter(1), keys))
        times = list(zip(self._times[numbers].tolist(), domains, strict=True))
        return StateRows(times, keys, namespaces, self._groups[numbers])
