"""Tables of columns in a backend that keeps only bytes: a row is looked for by the bytes of its address.

The key of a row consists of the state's name, its key group, its key, and the columns below it. Its value has all
columns, and when it expires.
"""

from __future__ import annotations

import pickle
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from bytes_rows import CapturedBytes, StoredRows
from ordered_bytes import OrderedBytes, framed, key_bytes

from millstream.core.keys.grouped_columns import GroupedColumn
from millstream.core.snapshot.metadata.model import TtlSettings
from millstream.taskmanager.worker.state.capturing.captured import StateDeclaration
from millstream.taskmanager.worker.state.capturing.restored_rows import deadlines_of
from millstream.taskmanager.worker.state.column_table import RowLayout
from millstream.taskmanager.worker.state.expiring import Expiry
from millstream.taskmanager.worker.state.key_group_index import KeyGroupIndex
from millstream.taskmanager.worker.state.stored_rows import key_groups_of_rows, restored_rows, stored_table, whole

Row = tuple[int, tuple[Any, ...], tuple[Any, ...]]  # when it expires, its address, its values
_NEVER = 1 << 62


class BytesColumnTable(StoredRows):
    """The rows of one state."""

    def __init__(
        self, declaration: StateDeclaration, layout: RowLayout, index: KeyGroupIndex, expiry: Expiry | None,
        store: OrderedBytes,
    ) -> None:  # fmt: skip
        super().__init__(declaration, index, store)
        self.layout, self.expiry = layout, expiry

    def __len__(self) -> int:
        return sum(1 for _ in self.store.scan(self.prefix))

    def find(self, addresses: pa.Table) -> tuple[Any, pa.Table]:
        found = [self._visible(place) for place in self._places(addresses)]
        there = np.array([row is not None for row in found], np.bool_)
        empty = (None,) * len(self.layout.values)
        return there, self._table(self.layout.values, [empty if row is None else row[2] for row in found])

    def of_keys(self, keys: pa.Table) -> pa.Table:
        prefixes = sorted(set(self._prefixes(keys)))
        places = [prefix + rest for prefix in prefixes for rest, _ in list(self.store.scan(prefix))]
        return self.rows_table([row for row in map(self._visible, places) if row is not None])

    def put(self, rows: pa.Table) -> None:
        deadline = _NEVER if self.expiry is None else self.expiry.now() + self.expiry.ttl_ms
        self._put(rows, [deadline] * rows.num_rows)

    def remove(self, addresses: pa.Table) -> Any:
        removed = []
        for place in self._places(addresses):
            data = self.store.get(place)
            removed.append(data is not None and not self._is_expired(pickle.loads(data)))
            self.store.delete(place)
        return np.array(removed, np.bool_)

    def scan(self, key_groups: range | None = None) -> Generator[pa.Table]:
        now = None if self.expiry is None or self.expiry.answers_expired else self.expiry.now()
        capture = BytesColumnCapture(self, self.store.snapshot(), None, now)
        for group in sorted(self.index.owned if key_groups is None else key_groups):
            yield self.rows_table(capture.alive(list(capture.scanned(group))))

    def restore(self, stored: pa.Table, ttl: TtlSettings | None) -> None:
        rows, given = restored_rows(self.declaration, self.layout, stored)
        deadlines = [_NEVER] * rows.num_rows
        if self.expiry is not None:
            expires = None if given is None else given.to_pylist()
            deadlines = deadlines_of(expires, rows.num_rows, ttl, self.expiry.ttl_ms, self.expiry.now())
        self._put(rows, deadlines)

    def capture(self, store: OrderedBytes, base: int | None) -> BytesColumnCapture:
        drops = self.expiry is not None and self.expiry.in_snapshots
        return BytesColumnCapture(self, store, base, self.expiry.now() if self.expiry is not None and drops else None)

    def rows_table(self, rows: Sequence[Row]) -> pa.Table:
        named = (*self.layout.address, *self.layout.values)
        return self._table(named, [(*address, *values) for _, address, values in rows], len(self.layout.address))

    def _put(self, rows: pa.Table, deadlines: Iterable[int]) -> None:
        addresses, values = self._pylists(rows, self.layout.address), self._pylists(rows, self.layout.values)
        groups = self._groups(rows)
        places = self._places(rows)
        for place, group, *row in zip(places, groups, deadlines, addresses, values, strict=True):
            if group in self.index.owned:
                self.store.put(place, pickle.dumps(tuple(row)))

    def _visible(self, place: bytes) -> Row | None:
        data = self.store.get(place)
        row: Row | None = None if data is None else pickle.loads(data)
        if row is None or self.expiry is None:
            return row
        if self._is_expired(row):
            self.store.delete(place)
            return row if self.expiry.answers_expired else None
        if self.expiry.reads_extend:
            self.store.put(place, pickle.dumps((self.expiry.now() + self.expiry.ttl_ms, *row[1:])))
        return row

    def _is_expired(self, row: Row) -> bool:
        return self.expiry is not None and row[0] <= self.expiry.now()

    def _groups(self, rows: pa.Table) -> list[int]:
        keys = [whole(rows, name) for name, _ in self.layout.key]
        groups: list[int] = key_groups_of_rows(self.layout, keys, self.index.max_parallelism).tolist()
        return groups

    def _prefixes(self, rows: pa.Table) -> list[bytes]:
        keys = [framed(key_bytes(key, None)) for key in self._pylists(rows, self.layout.key)]
        groups = self._groups(rows)
        return [self.prefix + group.to_bytes(2, "big") + key for group, key in zip(groups, keys, strict=True)]

    def _places(self, rows: pa.Table) -> list[bytes]:
        below = self._pylists(rows, self.layout.below)
        return [prefix + key_bytes(rest, None) for prefix, rest in zip(self._prefixes(rows), below, strict=True)]

    @staticmethod
    def _pylists(rows: pa.Table, named: Any) -> list[tuple[Any, ...]]:
        columns = [whole(rows, name).to_pylist() for name, _ in named]
        return list(zip(*columns, strict=True)) if columns else [()] * rows.num_rows

    @staticmethod
    def _table(named: Any, rows: Sequence[tuple[Any, ...]], grouped: int = 0) -> pa.Table:
        columns = {}
        for number, (name, kind) in enumerate(named):
            type_ = kind.arrow_type()
            if number < grouped:
                type_ = GroupedColumn(kind).encode(pa.array([], type_)).type
            columns[name] = pa.array([row[number] for row in rows], type_)
        return pa.table(columns)


class BytesColumnCapture(CapturedBytes):
    """The rows in a snapshot of the store."""

    def __init__(
        self, table: BytesColumnTable, store: OrderedBytes, base: int | None, drop_expired_at: int | None
    ) -> None:
        super().__init__(table.declaration, store, table.prefix, table.index, base)
        self._source, self._drop_expired_at = table, drop_expired_at

    def scanned(self, group: int) -> Iterator[tuple[bytes, bytes]]:
        return self._scan(group)

    def alive(self, rows: list[tuple[bytes, bytes]]) -> list[Row]:
        """Without those that had expired."""
        decoded: list[Row] = [pickle.loads(data) for _, data in rows]
        now = self._drop_expired_at
        return decoded if now is None else [row for row in decoded if row[0] > now]

    def _table(self, group: int, rows: list[tuple[bytes, bytes]]) -> pa.Table:
        table, alive = self._source, self.alive(rows)
        groups = np.full(len(alive), group, np.int32)
        deadlines = None if table.expiry is None else pa.array([row[0] for row in alive], pa.int64())
        return stored_table(
            self.declaration, table.layout, table.rows_table(alive), self._index.max_parallelism, groups, deadlines
        )
