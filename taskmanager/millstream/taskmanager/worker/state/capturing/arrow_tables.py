"""Captured state as the tables of the snapshot format, for backends that keep Python values.

Converting them holds the interpreter lock, which the task needs too, so it is done in steps of some milliseconds.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import compress
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from millstream.core.snapshot.metadata.model import StateKind
from millstream.core.snapshot.tables.columns import OversizedColumnError
from millstream.core.snapshot.tables.table import (
    broadcast_table,
    element_table,
    key_groups_in,
    list_table,
    map_table,
    timer_table,
    value_table,
)
from millstream.taskmanager.worker.state.capturing.captured import StateDeclaration, Work

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

_STEP = 16 * 1024  # rows
_AT_ONCE = 1 << 30  # bytes: Arrow rearranges no column of more than 2 GiB


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

    def part(self, start: int, end: int) -> StateRows:
        """Some of the entries."""
        cut = slice(start, end)
        namespaces = None if self.namespaces is None else self.namespaces[cut]
        return StateRows(self.values[cut], self.keys[cut], namespaces, self.key_groups[cut])

    def of_groups(self, wanted: Collection[int]) -> StateRows:
        """The entries in some key groups."""
        import numpy as np

        return self.where(np.isin(self.key_groups, np.fromiter(wanted, np.int32, len(wanted))))

    def where(self, chosen: npt.NDArray[np.bool_]) -> StateRows:
        """The entries selected by a mask."""
        kept = chosen.tolist()
        return StateRows(
            list(compress(self.values, kept)),
            list(compress(self.keys, kept)),
            None if self.namespaces is None else list(compress(self.namespaces, kept)),
            self.key_groups[chosen],
        )


def stepwise_table(declaration: StateDeclaration, rows: StateRows, max_parallelism: int, work: Work) -> pa.Table:
    """The rows of a keyed state, sorted by key group; converted in steps."""
    tables: list[pa.Table] = []
    for start in range(0, max(1, len(rows)), _STEP):
        tables += _tables(declaration, rows.part(start, start + _STEP), max_parallelism, work)
    with work():
        if len(tables) == 1:
            return tables[0]
        if any(table.schema != tables[0].schema for table in tables):  # timestamps in the time zones of their step
            return keyed_table(declaration, rows, max_parallelism)
        return in_order(tables)


def _tables(declaration: StateDeclaration, rows: StateRows, max_parallelism: int, work: Work) -> list[pa.Table]:
    """The rows as one table, or as more if they are too large for one."""
    try:
        with work():
            return [keyed_table(declaration, rows, max_parallelism)]
    except OversizedColumnError:
        if len(rows) < 2:
            raise
    middle = len(rows) // 2
    halves = rows.part(0, middle), rows.part(middle, len(rows))
    return [table for half in halves for table in _tables(declaration, half, max_parallelism, work)]


def in_order(tables: Sequence[pa.Table], at_once: int = _AT_ONCE) -> pa.Table:
    """The rows of tables that are each sorted by key group, merged by key group, and otherwise in the same order."""
    import numpy as np
    import pyarrow as pa

    table = pa.concat_tables(tables)
    groups = key_groups_in(table).astype(np.uint16)  # they fit, and so NumPy uses a radix sort
    if table.nbytes <= at_once:
        return table.combine_chunks().take(pa.array(np.argsort(groups, kind="stable")))
    present = np.unique(groups)
    ends = [np.searchsorted(key_groups_in(part), present, side="right").tolist() for part in tables]
    starts = [[0, *those] for those in ends]
    return pa.concat_tables(
        part.slice(starts[n][number], ends[n][number] - starts[n][number])
        for number in range(len(present))
        for n, part in enumerate(tables)
    )


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
