"""Converts the tables of windows to keyed state of a snapshot, and back.

The main table is an aggregating state: for each key and window its partial columns, and a zero for each column whose
distinct values are counted, so that it identifies all aggregates. The distinct values are a map state each, as keys.
Most columns are stored unchanged; those of types that a snapshot stores differently from Arrow are converted through
Python values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from millstream.core.keys.grouped_columns import GroupedColumn
from millstream.core.records.types import BOOLEAN, LONG, TupleType, TypeInformation
from millstream.core.snapshot.errors import IncompatibleStateError
from millstream.core.snapshot.metadata.model import StateKind
from millstream.core.snapshot.tables.arrow_values import from_stored, to_stored
from millstream.core.snapshot.tables.table import KEY, MAP_KEY, NAMESPACE, StateTypes
from millstream.core.snapshot.tables.table import VALUE as STORED_VALUE
from millstream.taskmanager.worker.operators.columns.partials import VALUE, Partials
from millstream.taskmanager.worker.operators.windows.columns.fired import END, FIRED, START, ColumnWindows, Frozen
from millstream.taskmanager.worker.state.backend import KeyedStateBackend
from millstream.taskmanager.worker.state.column_state import KeyedColumns

if TYPE_CHECKING:
    import pyarrow as pa

MAIN = "window-aggregates"
DISTINCT = "window-values-of-"
_SPAN = TupleType((LONG, LONG), ("start", "end"))


class StoredWindows:
    """The states of one operator's windows."""

    def __init__(
        self,
        partials: Partials,
        key_type: TypeInformation,
        windows: ColumnWindows,
        backend: KeyedStateBackend,
    ) -> None:
        self._partials = partials
        self._windows = windows
        self._frozen: Frozen | None = None
        self.next_number = 0
        self._names = [kept.name for kept in partials.columns] + [distinct.name for distinct in partials.distinct]
        self._types = [kept.type for kept in partials.columns] + [LONG for _ in partials.distinct]
        values = TupleType((*self._types, LONG), (*self._names, FIRED))
        self._restore(0, backend.columns(MAIN, StateTypes(key_type, values, _SPAN), partial(self._freeze, 0)))
        for part, distinct in enumerate(partials.distinct, 1):
            types = StateTypes(key_type, BOOLEAN, _SPAN, distinct.values.type)
            name = DISTINCT + distinct.column
            rows = backend.columns(name, types, partial(self._freeze, part), StateKind.MAP)
            self._restore(part, rows)

    # To a snapshot

    def _freeze(self, part: int) -> Callable[[], KeyedColumns]:
        """Freezes all parts with the first of them: nothing is processed in between."""
        if part == 0:
            self._frozen = self._windows.freeze()
        frozen = self._frozen
        assert frozen is not None, "the main part is the first"
        if part == len(self._partials.distinct):  # the last one: nothing is held for longer than needed
            self._frozen = None
        return lambda: self._columns(part, frozen(part))

    def _columns(self, part: int, table: pa.Table | None) -> KeyedColumns:
        import pyarrow as pa

        if table is None:
            return KeyedColumns([], [], [], [] if part else None)
        partials = self._partials
        spans = pa.StructArray.from_arrays([_whole(table, START), _whole(table, END)], list(_SPAN.field_names()))
        keys = self._keys(table)
        if part:
            values = partials.distinct[part - 1].values
            decoded = to_stored([values.decode(table.column(VALUE))], [values.type], None)
            return KeyedColumns(keys, spans, pa.repeat(True, table.num_rows), decoded)
        columns = [_whole(table, kept.name) for kept in partials.columns]
        columns += [pa.repeat(0, table.num_rows) for _ in partials.distinct]
        stored = to_stored([*columns, _whole(table, FIRED)], [*self._types, LONG], [*self._names, FIRED])
        return KeyedColumns(keys, spans, stored)

    def _keys(self, table: pa.Table) -> Any:
        partials = self._partials
        if not partials.keys:
            return _whole(table, partials.key_names[0])
        columns = [key.decode(table.column(name)) for key, name in zip(partials.keys, partials.key_names, strict=True)]
        names = None if len(columns) == 1 else [f"f{number}" for number in range(len(columns))]
        return to_stored(columns, [key.type for key in partials.keys], names)

    # From a snapshot

    def _restore(self, part: int, restored: Sequence[pa.Table]) -> None:
        import pyarrow as pa

        if not sum(table.num_rows for table in restored):
            return
        partials, stored = self._partials, pa.concat_tables(restored).combine_chunks()
        spans = stored.column(NAMESPACE).combine_chunks()
        columns: dict[str, Any] = {START: spans.field("start"), END: spans.field("end")}
        grouped = partials.keys or [GroupedColumn(LONG)]
        keys = stored.column(KEY).combine_chunks()
        of_keys = [keys] if len(grouped) == 1 else keys.flatten()
        for key, name, column in zip(grouped, partials.key_names, of_keys, strict=True):
            columns[name] = key.encode(from_stored(column, key.type, KEY))
        if part:
            values = partials.distinct[part - 1].values
            found = from_stored(stored.column(MAP_KEY).combine_chunks(), values.type, MAP_KEY)
            table = pa.table({**columns, VALUE: values.encode(found)})
        else:
            struct = stored.column(STORED_VALUE).combine_chunks()
            self._check_same([field.name for field in struct.type])
            for kept in partials.columns:
                columns[kept.name] = from_stored(struct.field(kept.name), kept.type, kept.name)
            columns[FIRED] = struct.field(FIRED)
            table, self.next_number = partials.renumbered(pa.table(columns), 0)
        self._windows.restore(part, table)

    def _check_same(self, stored: list[str]) -> None:
        """Raises if the aggregates are not those that were stored, which tuples of the same types would not reveal."""
        if stored != [*self._names, FIRED]:
            detail = f"holds {', '.join(stored[:-1])}, and the program aggregates {', '.join(self._names)}"
            raise IncompatibleStateError(
                f"state '{MAIN}'",
                f"{detail}: the aggregates of open windows cannot be changed; another uid starts without state",
            )


def _whole(table: pa.Table, name: str) -> pa.Array:
    return table.column(name).combine_chunks()
