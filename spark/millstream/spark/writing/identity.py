"""Rows that are one: two values for one key are refused, or decided between, when each comes from another side.

Which rows may be one is found by their hashes, in one go; only those are compared, as Python values. Side 0 is what a
savepoint had, side 1 what is merged into it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from millstream.core.keys.key_groups import combine_hashes
from millstream.core.snapshot.metadata.model import StateKind, StateSnapshot
from millstream.core.snapshot.tables.columns import from_array, to_array
from millstream.core.snapshot.tables.key_columns import key_hashes
from millstream.core.snapshot.tables.restore import column_types, frozen
from millstream.core.snapshot.tables.table import (
    DOMAIN,
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
from millstream.spark.errors import RowFault
from millstream.spark.writing.blocks import SIDE

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa


class KeepOnConflict(Enum):
    """What counts for a key that both sides have."""

    EXISTING = "existing"
    NEW = "new"
    BOTH = "both"  # of lists: the new elements behind the existing ones
    NEITHER = "error"


Rule = KeepOnConflict | Callable[[Any, Any], Any]
"""Or a function of the existing and the new value, which returns the one to keep."""

_BY_ENTRY = (NAMESPACE, MAP_KEY, POSITION, TIMESTAMP, DOMAIN)


def without_conflicts(table: pa.Table, state: StateSnapshot, rule: Rule = KeepOnConflict.NEITHER) -> pa.Table:
    """The rows, of which no two are one any more."""
    import numpy as np

    owners = [name for name in (KEY, NAMESPACE) if name in table.column_names]
    two_sided = SIDE in table.column_names and len(np.unique(_sides(table))) > 1
    if state.kind is StateKind.LIST or POSITION in table.column_names:
        side = [SIDE] if two_sided else []
        table = _unique(table, [*owners, POSITION, *side], state, KeepOnConflict.NEITHER)
        return _one_list_each(table, owners, state, rule) if two_sided else table
    return _unique(table, [name for name in (KEY, *_BY_ENTRY) if name in table.column_names], state, rule)


def _sides(table: pa.Table) -> npt.NDArray[np.uint8]:
    """The side of each row: all are of one, unless a column gives it."""
    import numpy as np

    if SIDE not in table.column_names:
        return np.zeros(table.num_rows, np.uint8)
    sides: npt.NDArray[np.uint8] = table.column(SIDE).to_numpy()
    return sides


def _identity(table: pa.Table, names: list[str], state: StateSnapshot) -> npt.NDArray[np.uint64]:
    """One hash for all that identifies the row."""
    types: dict[str, Any] = {KEY: state.key_type, NAMESPACE: state.namespace_type, MAP_KEY: state.map_key_type}
    hashes = []
    for name in names:
        column = table.column(name).combine_chunks()
        if types.get(name) is None:
            hashes.append(key_hashes(column, {"type": "basic", "name": "String" if name == DOMAIN else "Long"}))
        elif types[name]["type"] == "pickled":  # their bytes
            hashes.append(key_hashes(column, {"type": "basic", "name": "Bytes"}))
        else:
            hashes.append(key_hashes(column, types[name]))
    return hashes[0] if len(hashes) == 1 else combine_hashes(hashes)


def _alike(table: pa.Table, names: list[str], state: StateSnapshot) -> list[list[int]]:
    """The numbers of the rows that are one, for each such."""
    import pyarrow as pa

    rows = _hashed_alike(_identity(table, names, state), _key_groups(table))
    if not len(rows):
        return []
    some = table.select(names).take(pa.array(rows))
    types = column_types(state)
    columns = []
    for name in names:
        column, kind = some.column(name).combine_chunks(), types.get(name)
        columns.append(column.to_pylist() if kind is None else list(map(frozen, from_array(column, kind, name))))
    found: dict[Any, list[int]] = {}
    for row, owner in zip(rows.tolist(), zip(*columns, strict=True), strict=True):
        found.setdefault(owner, []).append(row)
    return [those for those in found.values() if len(those) > 1]


def _key_groups(table: pa.Table) -> list[slice]:
    """Where the rows of each key group are, by which they are sorted; all of them where there is none."""
    import numpy as np

    if KEY_GROUP not in table.column_names:
        return [slice(None)]
    groups = table.column(KEY_GROUP).to_numpy()
    bounds = [0, *(np.flatnonzero(groups[1:] != groups[:-1]) + 1).tolist(), len(groups)]
    return [slice(start, end) for start, end in pairwise(bounds)]


def _hashed_alike(hashes: npt.NDArray[np.uint64], key_groups: list[slice]) -> npt.NDArray[np.int64]:
    """The rows whose hash is not theirs alone. Those that are one have one key, and so are in one key group."""
    import numpy as np

    ordered = hashes.copy()
    for rows in key_groups:  # few at a time stay in the processor's cache: half the time of sorting all
        ordered[rows].sort()
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    return np.flatnonzero(np.isin(hashes, twice)) if len(twice) else np.empty(0, np.int64)


def _unique(table: pa.Table, names: list[str], state: StateSnapshot, rule: Rule) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    alike = _alike(table, names, state)
    if not alike:
        return table
    sides = _sides(table)
    kept = np.ones(table.num_rows, np.bool_)
    decided: dict[int, Any] = {}
    for rows in alike:
        if state.kind is StateKind.TIMERS:  # registered twice, it is one
            kept[rows[1:]] = False
            continue
        old, new = ([row for row in rows if sides[row] == side] for side in (0, 1))
        if max(len(old), len(new)) > 1:
            raise _twice(table, rows[0], names, state, f"{len(rows)} rows", "keep one of them")
        match rule:
            case KeepOnConflict.EXISTING:
                kept[new] = False
            case KeepOnConflict.NEW:
                kept[old] = False
            case KeepOnConflict.NEITHER | KeepOnConflict.BOTH:
                raise _twice(table, rows[0], names, state, "a row on each side", "say which of them counts")
            case _:
                kept[old] = False
                decided[new[0]] = old[0]
    if decided and callable(rule):
        table = _decided(table, decided, state, rule)
    return table.filter(pa.array(kept))


def _decided(table: pa.Table, pairs: dict[int, int], state: StateSnapshot, rule: Callable[[Any, Any], Any]) -> pa.Table:
    """The table with the rule's results in the new rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    name, kind = VALUE if VALUE in table.column_names else MAP_VALUE, StateTypes.of(state).value
    assert kind is not None, "a state has values"
    column = table.column(name).combine_chunks()
    new = from_array(column.take(pa.array(list(pairs))), kind, name, unpickle=True)
    old = from_array(column.take(pa.array(list(pairs.values()))), kind, name, unpickle=True)
    kept = to_array([rule(before, after) for before, after in zip(old, new, strict=True)], kind, name)
    if kept.type != column.type:
        kept = kept.cast(column.type)
    where = pc.index_in(pa.array(range(table.num_rows)), pa.array(list(pairs)))
    both = pa.concat_arrays([column, kept])
    places = pc.if_else(where.is_valid(), pc.add(where, table.num_rows), pa.array(range(table.num_rows)))
    return table.set_column(table.column_names.index(name), name, both.take(places))


def _one_list_each(table: pa.Table, owners: list[str], state: StateSnapshot, rule: Rule) -> pa.Table:
    """Of lists on both sides, the one that counts, or both as one."""
    import numpy as np
    import pyarrow as pa

    sides, kept = _sides(table), np.ones(table.num_rows, np.bool_)
    positions = table.column(POSITION).to_numpy().copy()
    for rows in _alike(table, owners, state):
        old, new = ([row for row in rows if sides[row] == side] for side in (0, 1))
        if not old or not new:
            continue
        match rule:
            case KeepOnConflict.EXISTING:
                kept[new] = False
            case KeepOnConflict.NEW:
                kept[old] = False
            case KeepOnConflict.BOTH:
                positions[new] += max(positions[old]) + 1
            case _:
                raise _twice(table, rows[0], owners, state, "a list on each side", "say which of them counts")
    table = table.set_column(table.column_names.index(POSITION), POSITION, pa.array(positions))
    return table.filter(pa.array(kept))


def _twice(table: pa.Table, row: int, names: list[str], state: StateSnapshot, what: str, do: str) -> RowFault:
    types, shown = column_types(state), []
    for name in names:
        kind, column = types.get(name), table.column(name).slice(row, 1).combine_chunks()
        value = column[0].as_py() if kind is None else from_array(column, kind, name)[0]
        if name != SIDE:
            shown.append(f"{name} {value!r:.100}")
    return RowFault(f"state '{state.name}' has {what} for {', '.join(shown)}: {do}")
