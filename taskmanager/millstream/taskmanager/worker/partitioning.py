"""Partitions batches over the consumers of an edge, rows and columns alike.

A `Router` returns the parts of a batch with the index of the channel that each is sent to. Records of one batch for one
channel keep their order.
"""

from __future__ import annotations

import contextlib
import operator
import random
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Protocol

from millstream.core.jobs.plan import plan
from millstream.core.keys.key_groups import combine_hashes, key_group_of, stable_hash_column, stable_hashes, subtask_of
from millstream.core.keys.key_values import hashable, is_all_its_fields
from millstream.core.logs.tracebacks import one_line
from millstream.core.records.batches import Batch, ColumnBatch
from millstream.core.records.conversion import record_batch_to_rows
from millstream.core.records.copying import is_immutable_type
from millstream.core.records.function_code import getter, picked
from millstream.core.records.handover import Handover, RecordCopyError
from millstream.core.records.types import DataclassType, RowType, TupleType, TypeInformation
from millstream.core.row import Row
from millstream.datastream.functions import as_callable
from millstream.taskmanager.worker.interruption import TaskInterrupted

Routed = Iterable[tuple[int, Batch]]


class Router(Protocol):
    """Selects the channels for the parts of a batch."""

    def route(self, batch: Batch) -> Routed:
        """Returns the parts as (channel index, part)."""


class PartitioningError(Exception):
    """The user's key selector or partitioner failed on a record, or the router cannot use the key.

    `key_of` returns the record's key, if it has one.
    """

    def __init__(self, record: Any, cause: BaseException, key_of: Callable[[Any], Any] | None) -> None:
        super().__init__(one_line(cause))
        self.record = record
        self.key_of = key_of


def key_function(selector: plan.KeySelector) -> Callable[[Any], Any]:
    """Returns a function that extracts the key of a record."""
    if selector.function is not None:
        return as_callable(selector.function, "get_key")
    getters = [_field_getter(f) for f in selector.fields]
    if len(getters) == 1:
        return getters[0]
    return lambda record: tuple([get(record) for get in getters])


def _field_getter(field: str | int) -> Callable[[Any], Any]:
    if isinstance(field, int):
        return operator.itemgetter(field)
    name = field
    return lambda record: record[name] if isinstance(record, dict | Row) else getattr(record, name)


class _Single:
    """Routes everything to one channel."""

    def route(self, batch: Batch) -> Routed:
        return ((0, batch),)


class _Broadcast:
    """Routes everything to every channel.

    Channels in `copied` lead to tasks that may change the records: they get copies.
    """

    def __init__(self, channels: int, copied: Collection[int]) -> None:
        self._channels = range(channels)
        self._copied = copied
        self._handover = Handover()

    def route(self, batch: Batch) -> Routed:
        if not self._copied:
            return [(index, batch) for index in self._channels]
        return [(index, self._copy(batch) if index in self._copied else batch) for index in self._channels]

    def _copy(self, batch: Batch) -> Batch:
        try:
            return self._handover.to_another(batch)
        except RecordCopyError as error:
            raise PartitioningError(error.record, error, None) from error


class _RoundRobin:
    """Distributes rows round-robin, so that every channel gets its share also of small batches."""

    def __init__(self, channels: int, start: int) -> None:
        self._channels = channels
        self._next = start % channels

    def route(self, batch: Batch) -> Routed:
        count, start = self._channels, self._next
        self._next = (start + len(batch)) % count
        for offset in range(min(count, len(batch))):
            yield (start + offset) % count, batch.slice(offset, None, count)


class _Random:
    def __init__(self, channels: int, source: random.Random) -> None:
        self._channels = channels
        self._random = source

    def route(self, batch: Batch) -> Routed:
        return batch.split(self._random.choices(range(self._channels), k=len(batch)), self._channels)


class KnownKeys(dict[Any, int]):
    """Caches the consumers of recent keys: a look-up costs a tenth of a hash."""

    overflowed = False
    """Whether there were more keys than are cached."""

    def __init__(self, channels: int, max_parallelism: int, most: int = 1 << 17) -> None:
        super().__init__()
        self._channels = channels
        self._max_parallelism = max_parallelism
        self._most = most

    def __missing__(self, key: Any) -> int:
        subtask = subtask_of(key_group_of(key, self._max_parallelism), self._max_parallelism, self._channels)
        if len(self) >= self._most:
            self.clear()
            self.overflowed = True
        self[key] = subtask
        return subtask


class _Hash:
    """Routes by key group.

    The consumers of rows' keys are cached. Where there are more keys than the cache holds, those that are integers or
    texts are hashed as arrays: a row of 1 M different keys is routed in 67 ns (texts: 88), where it took 540 (720).
    """

    def __init__(
        self, selector: plan.KeySelector, channels: int, max_parallelism: int, record_type: TypeInformation
    ) -> None:
        self._fields = selector.fields
        self._key_of = key_function(selector)
        self._getter = getter(self._key_of)
        self._channels = channels
        self._max_parallelism = max_parallelism
        self._type = record_type
        self._by_columns: bool | None = None
        self._known = KnownKeys(channels, max_parallelism)

    def route(self, batch: Batch) -> Routed:
        if isinstance(batch, ColumnBatch):
            return self._route_columns(batch)
        return batch.split(self._subtasks(batch.rows), self._channels)

    def _subtasks(self, rows: list[Any]) -> Sequence[int]:
        keys = picked(self._getter, rows)
        if keys is None:
            keys = self._keys(rows)
        if self._known.overflowed and (hashes := stable_hashes(keys)) is not None:
            found = self._of_hashes(hashes)
            several: Sequence[int] = found.astype("u1").tobytes() if self._channels <= 256 else found.tolist()
            return several
        with contextlib.suppress(Exception):  # the code below finds the record that caused it
            subtasks = list(map(self._known.__getitem__, keys))
            if len(subtasks) == len(rows):  # map treats a StopIteration raised by a key's hash as its own end
                return subtasks
        return self._one_by_one(rows, keys)

    def _keys(self, rows: list[Any]) -> list[Any]:
        """Calls the user's selector exactly once per record, before the keys are used."""
        key_of, source = self._key_of, iter(rows)
        try:
            return [key_of(row) for row in source]
        except TaskInterrupted:
            raise
        except BaseException as error:
            raise PartitioningError(rows[len(rows) - operator.length_hint(source) - 1], error, None) from error

    def _one_by_one(self, rows: list[Any], keys: list[Any]) -> list[int]:
        """Handles keys that are lists, which cannot be hashed, or are invalid; an error names the record."""
        subtasks, row, key = [], None, None
        try:
            for row, key in zip(rows, keys, strict=True):  # noqa: B007  # used below
                subtasks.append(self._known[hashable(key)])
        except TaskInterrupted:
            raise
        except BaseException as error:
            raise PartitioningError(row, error, lambda _: key) from error
        return subtasks

    def _route_columns(self, batch: ColumnBatch) -> Routed:
        if self._by_columns is None:
            self._by_columns = bool(self._fields) and _compares_by_all_fields(self._type)
        if not self._by_columns:
            return batch.split(self._subtasks(record_batch_to_rows(batch.data, self._type)), self._channels)
        hashes = [stable_hash_column(batch.data.column(f)) for f in self._fields]
        combined = hashes[0] if len(hashes) == 1 else combine_hashes(hashes)
        return batch.split(self._of_hashes(combined), self._channels)

    def _of_hashes(self, hashes: Any) -> Any:
        import numpy as np

        groups = hashes % np.uint64(self._max_parallelism)
        return groups * np.uint64(self._channels) // np.uint64(self._max_parallelism)


def _compares_by_all_fields(record_type: TypeInformation) -> bool:
    """Whether keys among the fields of such records are equal exactly when all of their columns are equal."""
    seen: set[type] = set()
    pending = [record_type]
    while pending:
        match pending.pop():
            case DataclassType(cls) as kind if cls not in seen:
                if kind is not record_type and not is_all_its_fields(cls):
                    return False
                seen.add(cls)
                pending += kind.field_types()
            case TupleType(inner) | RowType(inner):
                pending += inner
    return True


class _Custom:
    def __init__(self, spec: plan.CustomPartitioner, channels: int, record_type: TypeInformation) -> None:
        self._partition = as_callable(spec.partitioner, "partition")
        self._key_of = key_function(spec.key_selector)
        self._channels = channels
        self._type = record_type

    def route(self, batch: Batch) -> Routed:
        rows = batch.to_rows(self._type).rows
        source = iter(rows)
        try:
            indices = [self._checked(self._partition(self._key_of(row), self._channels)) for row in source]
        except TaskInterrupted:
            raise
        except BaseException as error:
            raise PartitioningError(rows[len(rows) - operator.length_hint(source) - 1], error, None) from error
        return batch.split(indices, self._channels)

    def _checked(self, chosen: Any) -> int:
        index = operator.index(chosen) if hasattr(chosen, "__index__") else -1
        if not 0 <= index < self._channels:
            raise ValueError(f"the partitioner returned {chosen!r}, not a number from 0 to {self._channels - 1}")
        return index


def make_router(edge: plan.EdgeSpec, channels: int, subtask: int, seed: int, changing: Sequence[int] = ()) -> Router:
    """The router for one producer's end of an edge. The consumers of the channels in `changing` may change records."""
    match edge.partitioner:
        case plan.BroadcastPartitioner():
            if is_immutable_type(edge.type):
                return _Broadcast(channels, ())
            return _Broadcast(channels, changing[:-1] if len(changing) == channels else changing)
        case plan.GlobalPartitioner():
            return _Single()
        case _ if channels == 1:
            return _Single()
        case plan.ForwardPartitioner():
            raise ValueError("a forward edge has exactly one consumer")
        case plan.RebalancePartitioner() | plan.RescalePartitioner():
            return _RoundRobin(channels, subtask)
        case plan.ShufflePartitioner():
            return _Random(channels, random.Random(seed))
        case plan.HashPartitioner(selector):
            return _Hash(selector, channels, edge.max_parallelism, edge.type)
        case plan.CustomPartitioner():
            return _Custom(edge.partitioner, channels, edge.type)
