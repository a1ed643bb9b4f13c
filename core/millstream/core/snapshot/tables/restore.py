"""Tables back to state: only the wanted key groups, checked against the stored types, as the declared types.

Rows may come from another tool (a savepoint is open data), so nothing is taken on trust: columns, types, nulls, the
order of key groups, and, on request, that each key is in its key group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from millstream.core.keys.key_groups import combine_hashes
from millstream.core.records import types as t
from millstream.core.row import Row
from millstream.core.snapshot.errors import SnapshotError
from millstream.core.snapshot.metadata.model import StateKind, StateSnapshot, TypeJson
from millstream.core.snapshot.metadata.types_json import holds_pickled
from millstream.core.snapshot.tables.columns import conform, from_array
from millstream.core.snapshot.tables.key_columns import key_hashes
from millstream.core.snapshot.tables.table import (
    DOMAIN,
    ELEMENT,
    EXPIRES_AT,
    KEY,
    KEY_GROUP,
    MAP_KEY,
    MAP_VALUE,
    NAMESPACE,
    POSITION,
    TIMESTAMP,
    VALUE,
    StateTypes,
)
from millstream.core.snapshot.tables.widening import widened

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

NEVER_NULL = (KEY_GROUP, POSITION, TIMESTAMP, DOMAIN)
"""The columns in which nulls are refused."""

OWNER = frozenset({KEY_GROUP, KEY, NAMESPACE, MAP_KEY, POSITION})
"""The columns that say whose a row is; timers may be there more than once."""

_CONTENT: dict[StateKind, tuple[str, ...]] = {
    StateKind.VALUE: (VALUE,),
    StateKind.REDUCING: (VALUE,),
    StateKind.AGGREGATING: (VALUE,),
    StateKind.LIST: (ELEMENT, POSITION),
    StateKind.MAP: (MAP_KEY, MAP_VALUE),
    StateKind.TIMERS: (TIMESTAMP, DOMAIN),
    StateKind.OPERATOR_LIST: (ELEMENT, POSITION),
    StateKind.OPERATOR_UNION: (ELEMENT, POSITION),
    StateKind.SPLITS: (ELEMENT, POSITION),
    StateKind.IN_FLIGHT: (ELEMENT, POSITION),
    StateKind.SINK_TRANSACTIONS: (ELEMENT, POSITION),
    StateKind.BROADCAST: (MAP_KEY, MAP_VALUE),
}


class Rows(Struct, frozen=True):
    """The rows of a state as parallel columns; a column that the kind does not have is empty.

    `content` is the value, the element, the map's value, or the timer's timestamp; `detail` is the element's
    position, the map's key, or the timer's domain. `expires_at` is None for state without a time-to-live.
    """

    content: list[Any]
    keys: list[Any] = field(default_factory=list)
    namespaces: list[Any] = field(default_factory=list)
    detail: list[Any] = field(default_factory=list)
    expires_at: list[int | None] | None = None
    key_groups: list[int] = field(default_factory=list)

    def lists(self) -> dict[tuple[Any, Any], list[Any]]:
        """List state: the elements by key and namespace (None without namespaces), by position."""
        result: dict[tuple[Any, Any], list[Any]] = {}
        for row in sorted(range(len(self.content)), key=self.detail.__getitem__):
            result.setdefault(self._owner(row), []).append(self.content[row])
        return result

    def _owner(self, row: int) -> tuple[Any, Any]:
        return self.keys[row], self.namespaces[row] if self.namespaces else None


def columns_for(state: StateSnapshot) -> tuple[str, ...]:
    """The columns that a file of this state must have."""
    keyed = (KEY_GROUP, KEY) if state.kind.keyed else ()
    namespace = (NAMESPACE,) if state.kind.keyed and state.namespace_type is not None else ()
    return (*keyed, *namespace, *_CONTENT[state.kind], *((EXPIRES_AT,) if state.ttl is not None else ()))


def column_types(state: StateSnapshot) -> dict[str, t.TypeInformation | None]:
    """The stored type of each column that a state may have; None where the metadata declares none."""
    stored = StateTypes.of(state)
    return {
        KEY_GROUP: t.INT, KEY: stored.key, NAMESPACE: stored.namespace, VALUE: stored.value, ELEMENT: stored.value,
        POSITION: t.LONG, MAP_KEY: stored.map_key, MAP_VALUE: stored.value, EXPIRES_AT: t.LONG, TIMESTAMP: t.LONG,
        DOMAIN: t.STRING,
    }  # fmt: skip


def check_table(table: pa.Table, state: StateSnapshot, where: str, *, pruned: bool = False) -> pa.Table:
    """The table with exactly the columns and types that the metadata promises, or an error that names the file.

    A pruned one may lack columns.
    """
    import pyarrow as pa

    wanted = tuple(table.column_names) if pruned else columns_for(state)
    if sorted(table.column_names) != sorted(wanted):
        found = ", ".join(table.column_names) or "none"
        raise SnapshotError(where, f"has the columns {found}, and must have {', '.join(wanted)}")
    types = column_types(state)
    arrays = {}
    for name in wanted:
        kind = types[name]
        if kind is None:
            raise SnapshotError(where, f"has the column {name}, for which the metadata declares no type")
        try:
            arrays[name] = conform(_whole(table, name), kind, f"column {name}")
        except SnapshotError as error:
            raise SnapshotError(where, str(error)) from error
        if name in NEVER_NULL and arrays[name].null_count:
            raise SnapshotError(where, f"column {name} holds nulls")
    return pa.table(arrays)


def check_keys(table: pa.Table, state: StateSnapshot, max_parallelism: int, where: str) -> None:
    """Refuses a checked table in which a key is not in its own key group, or has two values. It may lack the values.

    No subtask would find the one, and which of the others holds would be chance. Pickled keys are not loaded, and so
    their key groups are not checked.
    """
    import numpy as np

    key_type = StateTypes.of(state).key
    if not state.kind.keyed or state.key_type is None or key_type is None:
        return
    if not holds_pickled(state.key_type):
        expected = (key_hashes(_whole(table, KEY), state.key_type) % np.uint64(max_parallelism)).astype(np.int32)
        wrong = np.flatnonzero(expected != _groups(table))
        if len(wrong):
            row = int(wrong[0])
            rows = read_rows(table.slice(row, 1), state, where=where)
            raise SnapshotError(
                where,
                f"row {row} has key group {rows.key_groups[0]}, and its key {rows.keys[0]!r:.100} belongs to "
                f"{expected[row]} of {max_parallelism}",
            )
    if state.kind is not StateKind.TIMERS:
        _check_unique(read_rows(_possibly_twice(table, state), state, where=where), where)


def _possibly_twice(table: pa.Table, state: StateSnapshot) -> pa.Table:
    """The rows whose hash others have as well; all, where pickles would have to be loaded for it."""
    import numpy as np
    import pyarrow as pa

    long: TypeJson = {"type": "basic", "name": t.LONG.name}
    types = {KEY: state.key_type, NAMESPACE: state.namespace_type, MAP_KEY: state.map_key_type, POSITION: long}
    owners = [(name, kind) for name, kind in types.items() if name in table.column_names and kind is not None]
    if any(holds_pickled(kind) for _, kind in owners):
        return table
    hashes = combine_hashes([key_hashes(_whole(table, name), kind) for name, kind in owners])
    ordered = np.sort(hashes)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    return table.take(pa.array(np.flatnonzero(np.isin(hashes, twice)))) if len(twice) else table.slice(0, 0)


def _check_unique(rows: Rows, where: str) -> None:
    columns = [column for column in (rows.keys, rows.namespaces, rows.detail) if column] or [[]]
    owners = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
    try:
        different = len(set(owners))
    except TypeError:  # keys with lists in them, whose class hashes them in its own way
        owners = list(map(frozen, owners))
        different = len(set(owners))
    if different < len(owners):
        twice, _ = Counter(owners).most_common(1)[0]
        raise SnapshotError(where, f"has more than one row for {twice!r:.200}")


def frozen(value: Any) -> Hashable:
    """A value of a snapshot that can be hashed, in which what is not a number is alike."""
    match value:
        case float() if value != value:
            return "nan"
        case Row() | tuple() | list():
            return tuple(map(frozen, value))
        case dict():
            return frozenset((frozen(key), frozen(item)) for key, item in value.items())
    return value  # type: ignore[no-any-return]  # a primitive, or pickled bytes


def select_key_groups(table: pa.Table, wanted: Iterable[range] | None, where: str) -> pa.Table:
    """The rows in the wanted key groups; all without any given. The table has to be sorted by key group."""
    import numpy as np
    import pyarrow as pa

    column = table.column(KEY_GROUP)
    if not pa.types.is_integer(column.type) or column.null_count:
        raise SnapshotError(where, f"column {KEY_GROUP} must hold integers, and no nulls")
    groups = _groups(table)
    if len(groups) > 1 and bool((groups[1:] < groups[:-1]).any()):
        raise SnapshotError(where, f"is not sorted by {KEY_GROUP}")
    if wanted is None:
        return table
    slices = []
    for part in sorted(wanted, key=lambda r: r.start):
        start, end = np.searchsorted(groups, [part.start, part.stop], side="left")
        if end > start:
            slices.append(table.slice(int(start), int(end - start)))
    return pa.concat_tables(slices) if slices else table.slice(0, 0)


def read_rows(
    table: pa.Table,
    state: StateSnapshot,
    declared: StateTypes | None = None,
    *,
    where: str = "state",
    unpickle: bool = False,
    unpickle_keys: bool = False,
) -> Rows:
    """The rows of a checked table as Python objects of the declared types; without any, of the stored ones.

    The caller has compared the types before: an added field gets its default, a removed one is dropped, and a number
    gets wider if it can stay what it is. With `unpickle_keys`, what is pickled is loaded in the keys at least.
    """
    stored = StateTypes.of(state)
    types = stored if declared is None else declared.stored()

    def values(name: str, kind: t.TypeInformation | None, evolve: bool = False) -> list[Any]:
        if kind is None or name not in table.column_names:
            return []
        load = unpickle or (unpickle_keys and name == KEY)
        column = _whole(table, name)
        if evolve and stored.value is not None:
            column = widened(column, stored.value, kind, f"state '{state.name}': cannot be restored: column {name}")
        changed = evolve or (declared is not None and name in (KEY, MAP_KEY))
        return from_array(column, kind, f"{where}: column {name}", unpickle=load, new_fields=changed)

    columns = columns_for(state)
    content, detail = {
        VALUE: (VALUE, None), ELEMENT: (ELEMENT, POSITION), MAP_KEY: (MAP_VALUE, MAP_KEY),
        TIMESTAMP: (TIMESTAMP, DOMAIN),
    }[next(name for name in columns if name in (VALUE, ELEMENT, MAP_KEY, TIMESTAMP))]  # fmt: skip
    detail_types = {POSITION: t.LONG, MAP_KEY: types.map_key, DOMAIN: t.STRING}
    return Rows(
        values(content, t.LONG if content == TIMESTAMP else types.value, declared is not None),
        values(KEY, types.key),
        values(NAMESPACE, types.namespace),
        values(detail, detail_types[detail]) if detail else [],
        values(EXPIRES_AT, t.LONG) if EXPIRES_AT in table.column_names else None,
        values(KEY_GROUP, t.INT),
    )


def _whole(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()  # which copies also one


def _groups(table: pa.Table) -> npt.NDArray[np.int32]:
    groups: npt.NDArray[np.int32] = _whole(table, KEY_GROUP).to_numpy(zero_copy_only=False)
    return groups
