"""State to Arrow tables: the columns of the snapshot format, rows sorted by key group.

Each function takes parallel columns (`state.keys()`, `state.values()`; Arrow arrays are taken as they are), so a
million entries cost no loop in Python beyond what pyarrow does. Key groups may be handed in by a backend that knows
them; otherwise they are computed from the keys.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from millstream.core.keys.key_groups import stable_hash, stable_hash_column
from millstream.core.records import types as t
from millstream.core.records.conversion import ConversionError
from millstream.core.snapshot.errors import SnapshotError
from millstream.core.snapshot.metadata.model import StateKind, StateSnapshot, ValueEncoding
from millstream.core.snapshot.metadata.types_json import holds_pickled, stored_type, type_from_json, type_to_json
from millstream.core.snapshot.tables.columns import Dumps, dumps, is_array, to_array
from millstream.core.snapshot.tables.instances import Held

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

KEY_GROUP, KEY, NAMESPACE = "key_group", "key", "namespace"
VALUE, ELEMENT, POSITION = "value", "element", "position"
MAP_KEY, MAP_VALUE = "map_key", "map_value"
EXPIRES_AT, TIMESTAMP, DOMAIN = "expires_at", "timestamp", "domain"

_HASHED_AS_COLUMN = frozenset({t.BYTE, t.SHORT, t.INT, t.LONG})


class StateTypes(Struct, frozen=True):
    """The types of a state's columns; None where the state has no such column. Pickled when undeclared."""

    key: t.TypeInformation | None = None
    value: t.TypeInformation | None = None
    namespace: t.TypeInformation | None = None
    map_key: t.TypeInformation | None = None

    def stored(self) -> StateTypes:
        """The types that columns can hold."""
        return StateTypes(*(None if x is None else stored_type(x) for x in self._all()))

    def snapshot(self, name: str, kind: StateKind) -> StateSnapshot:
        """The state's entry in the metadata, without files."""
        documents = [None if x is None else type_to_json(x) for x in self._all()]
        pickled = any(d is not None and holds_pickled(d) for d in documents)
        return StateSnapshot(
            name, kind, documents[0], documents[2], documents[1], documents[3],
            ValueEncoding.PICKLE if pickled else None,
        )  # fmt: skip

    @staticmethod
    def of(state: StateSnapshot) -> StateTypes:
        """The stored types, without importing any class: dataclasses are rows."""
        documents = (state.key_type, state.value_type, state.namespace_type, state.map_key_type)
        return StateTypes(*(None if d is None else type_from_json(d) for d in documents))

    def _all(self) -> tuple[t.TypeInformation | None, ...]:
        return (self.key, self.value, self.namespace, self.map_key)


def value_table(
    keys: Collection[Any],
    values: Collection[Any],
    types: StateTypes,
    max_parallelism: int,
    *,
    namespaces: Collection[Any] | None = None,
    expires_at: Collection[int | None] | None = None,
    key_groups: Sequence[int] | None = None,
    pickler: Dumps = dumps,
) -> pa.Table:
    """Value, reducing and aggregating state: one row for each key and namespace."""
    columns = _Columns(types, max_parallelism, pickler)
    columns.keys(keys, namespaces, key_groups)
    columns.add(VALUE, values, types.value)
    columns.expiry(expires_at)
    return columns.table()


def list_table(
    keys: Collection[Any],
    lists: Collection[Sequence[Any]],
    types: StateTypes,
    max_parallelism: int,
    *,
    namespaces: Collection[Any] | None = None,
    expires_at: Collection[Sequence[int | None]] | None = None,
    key_groups: Sequence[int] | None = None,
    pickler: Dumps = dumps,
) -> pa.Table:
    """List state: one row for each element. `expires_at` is parallel to the lists."""
    import numpy as np

    columns = _Columns(types, max_parallelism, pickler)
    counts = np.fromiter(map(len, lists), np.int64, len(lists))
    columns.keys(keys, namespaces, key_groups, counts)
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    columns.add(ELEMENT, list(chain.from_iterable(lists)), types.value)
    columns.arrays[POSITION] = np.arange(len(starts), dtype=np.int64) - starts
    columns.expiry(None if expires_at is None else list(chain.from_iterable(expires_at)))
    return columns.table()


def map_table(
    keys: Collection[Any],
    maps: Collection[Mapping[Any, Any]],
    types: StateTypes,
    max_parallelism: int,
    *,
    namespaces: Collection[Any] | None = None,
    expires_at: Collection[Sequence[int | None]] | None = None,
    key_groups: Sequence[int] | None = None,
    pickler: Dumps = dumps,
) -> pa.Table:
    """Map state: one row for each entry. `expires_at` is parallel to the maps, in the order of their entries."""
    import numpy as np

    columns = _Columns(types, max_parallelism, pickler)
    counts = np.fromiter(map(len, maps), np.int64, len(maps))
    columns.keys(keys, namespaces, key_groups, counts)
    columns.add(MAP_KEY, list(chain.from_iterable(maps)), types.map_key)
    columns.add(MAP_VALUE, list(chain.from_iterable(m.values() for m in maps)), types.value)
    columns.expiry(None if expires_at is None else list(chain.from_iterable(expires_at)))
    return columns.table()


def map_entry_table(
    keys: Collection[Any],
    map_keys: Collection[Any],
    values: Collection[Any],
    types: StateTypes,
    max_parallelism: int,
    *,
    namespaces: Collection[Any] | None = None,
    expires_at: Collection[int | None] | None = None,
    key_groups: Sequence[int] | None = None,
    pickler: Dumps = dumps,
) -> pa.Table:
    """Map state whose entries are given as columns: one row for each entry."""
    columns = _Columns(types, max_parallelism, pickler)
    columns.keys(keys, namespaces, key_groups)
    columns.add(MAP_KEY, map_keys, types.map_key)
    columns.add(MAP_VALUE, values, types.value)
    columns.expiry(expires_at)
    return columns.table()


def timer_table(
    keys: Collection[Any],
    timestamps: Collection[int],
    domains: Collection[str],
    types: StateTypes,
    max_parallelism: int,
    *,
    namespaces: Collection[Any] | None = None,
    key_groups: Sequence[int] | None = None,
    pickler: Dumps = dumps,
) -> pa.Table:
    """Timers: one row each, with its time domain."""
    columns = _Columns(types, max_parallelism, pickler)
    columns.keys(keys, namespaces, key_groups)
    columns.add(TIMESTAMP, timestamps, t.LONG)
    columns.add(DOMAIN, domains, t.STRING)
    return columns.table()


def element_table(elements: Collection[Any], types: StateTypes, *, pickler: Dumps = dumps) -> pa.Table:
    """Operator list and union state, splits and sink transactions: elements in their order."""
    import numpy as np

    columns = _Columns(types, 1, pickler)
    columns.add(ELEMENT, elements, types.value)
    columns.arrays[POSITION] = np.arange(len(elements), dtype=np.int64)
    return columns.table()


def broadcast_table(entries: Mapping[Any, Any], types: StateTypes, *, pickler: Dumps = dumps) -> pa.Table:
    """Broadcast state: one row for each entry."""
    columns = _Columns(types, 1, pickler)
    columns.add(MAP_KEY, list(entries), types.map_key)
    columns.add(MAP_VALUE, list(entries.values()), types.value)
    return columns.table()


def column_of_keys(keys: Collection[Any], types: StateTypes) -> tuple[pa.Array, t.TypeInformation]:
    """The column of keys, and their stored type."""
    key_type = types.stored().key
    if key_type is None:
        raise SnapshotError(KEY, "has no type, which keyed state needs")
    column: Any = keys if is_array(keys) or isinstance(keys, list | tuple) else list(keys)
    return to_array(column, key_type, KEY, held=Held.AS_KEYS), key_type


def key_groups_of(
    keys: Collection[Any], array: pa.Array, type: t.TypeInformation, max_parallelism: int
) -> npt.NDArray[np.int32]:
    """The key groups of keys, which are also given as their column: the same as `key_group_of` each."""
    import numpy as np
    import pyarrow as pa

    if is_array(keys) or _hashed_as_column(type, array):
        hashes = stable_hash_column(array)
    elif _are_longs(keys):  # of an undeclared type
        hashes = stable_hash_column(pa.array(keys, pa.int64(), size=len(keys)))
    else:
        hashes = np.fromiter(map(stable_hash, keys), np.uint64, len(keys))
    return (hashes % np.uint64(max_parallelism)).astype(np.int32)


def _hashed_as_column(type: t.TypeInformation, array: pa.Array) -> bool:
    """Whether hashing the column is exact and quick: integers, and tuples of them."""
    if array.null_count:
        return False
    if isinstance(type, t.TupleType):
        return all(_hashed_as_column(inner, array.field(i)) for i, inner in enumerate(type.fields))
    return type in _HASHED_AS_COLUMN


def _are_longs(keys: Collection[Any]) -> bool:
    kinds = {key.__class__ for key in keys}
    return kinds == {int} and min(keys) >= -(1 << 63) and max(keys) < 1 << 63


class _Columns:
    """The columns of one table, in the order in which they are added."""

    def __init__(self, types: StateTypes, max_parallelism: int, pickler: Dumps) -> None:
        self.types = types.stored()
        self.arrays: dict[str, Any] = {}
        self._max_parallelism = max_parallelism
        self._pickler = pickler
        self._order: Any = None
        self._owners: tuple[Any, Any] | None = None  # the keys, and the number of each row's key among them

    def keys(
        self, keys: Collection[Any], namespaces: Collection[Any] | None, key_groups: Sequence[int] | None,
        counts: npt.NDArray[np.int64] | None = None,
    ) -> None:  # fmt: skip
        """The columns that keyed rows begin with; each key is repeated by its count."""
        import numpy as np
        import pyarrow as pa

        if self.types.key is None:
            raise SnapshotError(KEY, "has no type, which keyed state needs")
        key_array = self._array(KEY, keys, self.types.key, Held.AS_KEYS)
        if key_groups is None:
            groups = key_groups_of(keys, key_array, self.types.key, self._max_parallelism)
        else:
            groups = np.asarray(key_groups, dtype=np.int32)
        repeats = None if counts is None else np.repeat(np.arange(len(counts)), counts)
        self._owners = (keys, repeats)
        self.arrays[KEY_GROUP] = groups if repeats is None else groups[repeats]
        if len(groups) > 1 and bool((groups[1:] < groups[:-1]).any()):
            # Key groups fit 16 bits, and for those NumPy's stable sort is a radix sort.
            self._order = np.argsort(self.arrays[KEY_GROUP].astype(np.uint16), kind="stable")
        self.arrays[KEY] = key_array if repeats is None else key_array.take(pa.array(repeats))
        if self.types.namespace is not None:
            array = self._array(NAMESPACE, namespaces if namespaces is not None else (), self.types.namespace)
            self.arrays[NAMESPACE] = array if repeats is None else array.take(pa.array(repeats))
        elif namespaces is not None:
            raise SnapshotError(NAMESPACE, "has no type, and namespaces were given")

    def add(self, name: str, values: Collection[Any], type: t.TypeInformation | None) -> None:
        """One column of values."""
        if type is None:
            raise SnapshotError(name, "has no type")
        held = Held.EXACTLY_AS_KEYS if name == MAP_KEY else Held.EXACTLY
        try:
            self.arrays[name] = self._array(name, values, stored_type(type), held)
        except ConversionError as error:
            if error.number is None or self._owners is None:
                raise
            key = self._owners[0][self._owners[1][error.number] if self._owners[1] is not None else error.number]
            raise ConversionError(f"{error}, of the key {key!r:.200}", error.number) from error

    def expiry(self, expires_at: Collection[int | None] | None) -> None:
        """When each row expires, for state with a time-to-live; null for never."""
        if expires_at is not None:
            self.arrays[EXPIRES_AT] = self._array(EXPIRES_AT, expires_at, t.LONG)

    def _array(
        self, name: str, values: Collection[Any], type: t.TypeInformation, held: Held = Held.EXACTLY
    ) -> pa.Array:
        column: Any = values if is_array(values) or isinstance(values, list | tuple) else list(values)
        return to_array(column, type, name, self._pickler, held)

    def table(self) -> pa.Table:
        """The table, sorted by key group; rows of one key keep their order."""
        import pyarrow as pa

        lengths = {name: len(array) for name, array in self.arrays.items()}
        if len(set(lengths.values())) > 1:
            detail = ", ".join(f"{name} {count}" for name, count in lengths.items())
            raise SnapshotError("state", f"has columns of different lengths: {detail}")
        table = pa.table({name: pa.array(a) if not is_array(a) else a for name, a in self.arrays.items()})
        return table if self._order is None else table.take(pa.array(self._order))


def key_groups_in(table: pa.Table) -> Any:
    """The column of key groups as a NumPy array. `to_numpy` would import pandas, which takes 40 MB."""
    import numpy as np

    parts = [np.from_dlpack(chunk) for chunk in table.column(KEY_GROUP).chunks if len(chunk)]
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.int32), *parts])
