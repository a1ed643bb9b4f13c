"""The tables of windows as keyed state of a snapshot, and back.

The main table is an aggregating state: for each key and piece of time its partial columns. The different values of a
column are a map state each, whose keys they are. Most columns are handed over as they are; those of types that a
snapshot stores in another way than Arrow has them go through Python values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from millstream.core.records.conversion import record_batch_to_rows, rows_to_record_batch
from millstream.core.records.types import (
    BOOLEAN,
    BYTE,
    BYTES,
    DATE,
    DOUBLE,
    INT,
    LONG,
    SHORT,
    STRING,
    TupleType,
    TypeInformation,
)
from millstream.core.snapshot.metadata.model import StateKind
from millstream.core.snapshot.tables.restore import Rows
from millstream.core.snapshot.tables.table import StateTypes
from millstream.taskmanager.worker.operators.windows.columns.fired import END, FIRED, START, ColumnWindows, Frozen
from millstream.taskmanager.worker.operators.windows.columns.keys import GroupedColumn
from millstream.taskmanager.worker.operators.windows.columns.partials import VALUE, Partials
from millstream.taskmanager.worker.state.backend import KeyedStateBackend
from millstream.taskmanager.worker.state.column_state import KeyedColumns

if TYPE_CHECKING:
    import pyarrow as pa

MAIN = "window-aggregates"
DISTINCT = "window-values-of-"
_SPAN = TupleType((LONG, LONG), ("start", "end"))
_AS_THEY_ARE = frozenset({STRING, BOOLEAN, BYTE, SHORT, INT, LONG, DOUBLE, BYTES, DATE})
"""Types whose columns a snapshot stores as Arrow has them."""


class StoredWindows:
    """The states of one operator's windows."""

    def __init__(
        self,
        partials: Partials,
        key_type: TypeInformation,
        windows: ColumnWindows,
        backend: KeyedStateBackend,
        watermark: Callable[[], int],
    ) -> None:
        self._partials = partials
        self._windows = windows
        self._watermark = watermark
        self._frozen: Frozen | None = None
        self.next_number = 0
        values = TupleType(
            (*(kept.type for kept in partials.columns), LONG),
            (*(kept.name for kept in partials.columns), FIRED),
        )
        self._restore(0, backend.columns(MAIN, StateTypes(key_type, values, _SPAN), partial(self._freeze, 0)))
        for part, distinct in enumerate(partials.distinct, 1):
            types = StateTypes(key_type, BOOLEAN, _SPAN, distinct.values.type)
            name = DISTINCT + distinct.column
            rows = backend.columns(name, types, partial(self._freeze, part), StateKind.MAP)
            self._restore(part, rows)

    # To a snapshot

    def _freeze(self, part: int) -> Callable[[], KeyedColumns]:
        """All parts are frozen with the first of them: nothing happens between."""
        if part == 0:
            self._frozen = self._windows.freeze(self._watermark())
        frozen = self._frozen
        assert frozen is not None, "the main part is the first"
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
            decoded = _stored([values.decode(table.column(VALUE))], [values.type], None)
            return KeyedColumns(keys, spans, pa.repeat(True, table.num_rows), decoded)
        columns = [_whole(table, kept.name) for kept in partials.columns]
        types = [kept.type for kept in partials.columns]
        names = [kept.name for kept in partials.columns]
        stored = _stored([*columns, _whole(table, FIRED)], [*types, LONG], [*names, FIRED])
        return KeyedColumns(keys, spans, stored)

    def _keys(self, table: pa.Table) -> Any:
        partials = self._partials
        if not partials.keys:
            return _whole(table, partials.key_names[0])
        columns = [key.decode(table.column(name)) for key, name in zip(partials.keys, partials.key_names, strict=True)]
        names = None if len(columns) == 1 else [f"f{number}" for number in range(len(columns))]
        return _stored(columns, [key.type for key in partials.keys], names)

    # From a snapshot

    def _restore(self, part: int, restored: Sequence[Rows]) -> None:
        import pyarrow as pa

        if not any(rows.content for rows in restored):
            return
        partials = self._partials
        keys = list(chain.from_iterable(rows.keys for rows in restored))
        spans = [rows.namespaces for rows in restored]
        columns: dict[str, Any] = {
            START: pa.array([span[0] for span in chain.from_iterable(spans)], pa.int64()),
            END: pa.array([span[1] for span in chain.from_iterable(spans)], pa.int64()),
        }
        grouped = partials.keys or [GroupedColumn(LONG)]
        of_keys = [keys] if len(grouped) == 1 else list(zip(*keys, strict=True))
        for key, name, column in zip(grouped, partials.key_names, of_keys, strict=True):
            columns[name] = key.encode(_array(column, key.type))
        if part:
            values = partials.distinct[part - 1].values
            details = list(chain.from_iterable(rows.detail for rows in restored))
            columns[VALUE] = values.encode(_array(details, values.type))
            table = pa.table(columns)
        else:
            contents = list(zip(*chain.from_iterable(rows.content for rows in restored), strict=True))
            for kept, stored in zip(partials.columns, contents, strict=False):
                columns[kept.name] = _array(stored, kept.type)
            columns[FIRED] = _array(contents[-1], LONG)
            table, self.next_number = partials.renumbered(pa.table(columns), 0)
        self._windows.restore(part, table)


def _stored(columns: Sequence[pa.Array], types: Sequence[TypeInformation], names: Sequence[str] | None) -> Any:
    """Columns as a snapshot takes them: a struct of all, or the one; by Python values where it has to be."""
    import pyarrow as pa

    if all(kind in _AS_THEY_ARE for kind in types):
        return columns[0] if names is None else pa.StructArray.from_arrays(list(columns), list(names))
    given = [f"f{number}" for number in range(len(columns))]
    batch = pa.RecordBatch.from_arrays(list(columns), names=given)
    rows = record_batch_to_rows(batch, TupleType(tuple(types)))
    return [row[0] for row in rows] if names is None else rows


def _array(values: Sequence[Any], kind: TypeInformation) -> pa.Array:
    return rows_to_record_batch([(value,) for value in values], TupleType((kind,))).column(0)


def _whole(table: pa.Table, name: str) -> pa.Array:
    return table.column(name).combine_chunks()
