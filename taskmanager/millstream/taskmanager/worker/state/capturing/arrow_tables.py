"""Captured state as tables of the snapshot format, part by part.

Converting Python values holds the interpreter lock, which the task needs too, so it is done in steps of some
milliseconds. A part is converted when its reader takes it: only what is between two parts is in memory twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import compress, groupby
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from millstream.core.snapshot.metadata.model import StateKind
from millstream.core.snapshot.tables.columns import OversizedColumnError
from millstream.core.snapshot.tables.table import (
    broadcast_table,
    element_table,
    list_table,
    map_table,
    timer_table,
    value_table,
)
from millstream.taskmanager.worker.state.capturing.captured import StateDeclaration, Work
from millstream.taskmanager.worker.state.capturing.key_group_order import KeyGroupOrder

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

PART_ROWS = 64 * 1024
_PART_BYTES = 4 * 1024 * 1024
_STEP = 16 * 1024  # rows
_FIRST_STEP = 1024  # rows, which may be large
_STEP_BYTES = 1024 * 1024


class StateRows(Struct, frozen=True):
    """Entries as parallel columns. A value is the value, or the list, or the map of its key and namespace.

    With a time-to-live, values, elements and the values of maps are pairs with their deadline. A timer is a pair of its
    timestamp and its domain. `namespaces` is None where there are none.
    """

    values: list[Any]
    keys: list[Any]
    namespaces: list[Any] | None
    key_groups: Any  # an int32 array

    def __len__(self) -> int:
        return len(self.values)

    def where(self, chosen: npt.NDArray[np.bool_]) -> StateRows:
        """The entries selected by a mask."""
        kept = chosen.tolist()
        return StateRows(
            list(compress(self.values, kept)),
            list(compress(self.keys, kept)),
            None if self.namespaces is None else list(compress(self.namespaces, kept)),
            self.key_groups[chosen],
        )


def parts_by_key_group(
    order: KeyGroupOrder, key_groups: Collection[int] | None, convert: Callable[[npt.NDArray[np.uint32]], pa.Table],
    work: Work,
) -> Iterator[pa.Table]:  # fmt: skip
    """The rows of some key groups, or of all, sorted by key group; at least one part, which may be empty.

    `convert` makes a table of the rows of some numbers, which are in this order. It is called in steps, and again with
    fewer rows if those are too large for one table.
    """
    import numpy as np
    import pyarrow as pa

    most, is_empty = _FIRST_STEP, True
    for numbers in order.parts(key_groups, PART_ROWS):
        tables: list[pa.Table] = []
        start = size = 0
        while start < len(numbers):
            chosen = numbers[start : start + most]
            try:
                with work():
                    table = convert(chosen)
            except OversizedColumnError:
                if len(chosen) < 2:
                    raise
                most = len(chosen) // 2
                continue
            start += len(chosen)
            most = max(1, min(_STEP, most * 8, _STEP_BYTES * len(chosen) // max(1, table.nbytes)))
            if tables and (size + table.nbytes > _PART_BYTES or table.schema != tables[0].schema):
                yield pa.concat_tables(tables)
                tables, size, is_empty = [], 0, False
            tables.append(table)
            size += table.nbytes
        yield pa.concat_tables(tables)
        is_empty = False
    if is_empty:
        yield convert(np.empty(0, np.uint32))


def joined(parts: Iterable[pa.Table]) -> list[pa.Table]:
    """As few tables as possible with the rows of parts, in their order.

    More than one if the columns differ in type, such as those of times with and without a time zone.
    """
    import pyarrow as pa

    return [pa.concat_tables(alike) for _, alike in groupby(parts, attrgetter("schema"))]


def keyed_table(declaration: StateDeclaration, rows: StateRows, max_parallelism: int) -> pa.Table:
    """The rows of a keyed state, sorted by key group."""
    values, expires = rows.values, None
    if declaration.ttl is not None:
        values, expires = _apart(declaration.kind, values)
    shared: dict[str, Any] = {
        "namespaces": rows.namespaces, "key_groups": rows.key_groups, "expires_at": expires
    }  # fmt: skip
    match declaration.kind:
        case StateKind.LIST:
            return list_table(rows.keys, values, declaration.types, max_parallelism, **shared)
        case StateKind.TIMERS:
            times, domains = list(map(itemgetter(0), values)), list(map(itemgetter(1), values))
            del shared["expires_at"]
            return timer_table(rows.keys, times, domains, declaration.types, max_parallelism, **shared)
        case StateKind.MAP:
            return map_table(rows.keys, values, declaration.types, max_parallelism, **shared)
        case _:
            return value_table(rows.keys, values, declaration.types, max_parallelism, **shared)


def _apart(kind: StateKind, stamped: list[Any]) -> tuple[list[Any], list[Any]]:
    """Separates values and their deadlines."""
    match kind:
        case StateKind.LIST:
            values = [[value for _, value in elements] for elements in stamped]
            return values, [[deadline for deadline, _ in elements] for elements in stamped]
        case StateKind.MAP:
            maps = [{key: value for key, (_, value) in entries.items()} for entries in stamped]
            return maps, [[deadline for deadline, _ in entries.values()] for entries in stamped]
        case _:
            return list(map(itemgetter(1), stamped)), list(map(itemgetter(0), stamped))


def operator_table(declaration: StateDeclaration, contents: Any) -> pa.Table:
    """The elements of a list, or the entries of a broadcast map."""
    if declaration.kind is StateKind.BROADCAST:
        return broadcast_table(contents, declaration.types)
    return element_table(contents, declaration.types)
