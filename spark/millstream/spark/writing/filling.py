"""State that a function fills: rows go to the parts of their keys, where the function sees them key by key.

A part is worked on in windows of key groups, each with a fresh copy of the function and empty state, so that a task
holds the state of one window at a time. Operator state has no keys: one task sees all rows, and holds all of it.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from millstream.client.state_bootstrap import KeyedBootstrap, OperatorBootstrap
from millstream.core.records.types import LONG, TypeInformation
from millstream.core.row import Row
from millstream.core.snapshot.metadata.model import StateFile, StateSnapshot
from millstream.core.snapshot.tables.columns import from_array
from millstream.core.snapshot.tables.table import KEY
from millstream.spark.errors import RowFault
from millstream.spark.types import to_stored
from millstream.spark.writing.blocks import gathered, opened
from millstream.spark.writing.parts import ROW_FAULTS, Destination, PartReport, PartWriter
from millstream.spark.writing.runs import sorted_rows

if TYPE_CHECKING:
    import pyarrow as pa

ORDER = "order"
PREFIX = "column_"
"""Before the numbers of the caller's columns, whose own names may be those of the format, or have dots in them."""


class Filling(Struct, frozen=True):
    """A function, the type of its keys (None: it fills operator state), and the columns that its rows have."""

    frame: Any
    function: bytes
    key_type: TypeInformation | None
    columns: tuple[str, ...]
    ordered: bool = False


def keyed_rows(filling: Filling) -> Any:
    """What makes of a DataFrame's batches the rows that are moved: the key, if any, the order, and all columns."""
    key_type = filling.key_type  # the DataFrame stays on the driver

    def tables(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        import pyarrow as pa

        for batch in gathered(batches):
            arrays = {name: batch.column(name) for name in batch.schema.names}
            if key_type is not None:
                if arrays[KEY].null_count:
                    raise RowFault("a row has a null key: leave such rows out")
                arrays[KEY] = to_stored(arrays[KEY], key_type, "the key")
            yield pa.table(arrays)

    return tables


def fill_part(
    batches: Iterable[pa.RecordBatch], filling: Filling, destination: Destination, part: int, max_parallelism: int
) -> PartReport:
    """Has the function see the rows of one part, and writes what it leaves."""
    writer = PartWriter(destination, part)
    written: dict[str, tuple[StateSnapshot, tuple[StateFile, ...]]] = {}
    types = {KEY: filling.key_type, ORDER: LONG}
    try:
        with writer.all_or_nothing():
            for table in sorted_rows(opened(batches), types, destination.in_memory):
                for state, rows in _filled(table, filling, destination.operator, max_parallelism):
                    before = written.get(state.name, (state, ()))
                    if before[0] != state:
                        raise RowFault(f"state '{state.name}' was declared in two ways: an operator has one of a name")
                    written[state.name] = (state, before[1] + writer.write(state, rows))
    except ROW_FAULTS as error:
        return PartReport(fault=str(error))
    return PartReport(tuple(written.values()))


def _filled(
    table: pa.Table, filling: Filling, operator: str, max_parallelism: int
) -> list[tuple[StateSnapshot, pa.Table]]:
    import numpy as np
    import pyarrow as pa

    if filling.ordered:
        table = table.take(pa.array(np.argsort(table.column(ORDER).to_numpy(), kind="stable")))
    names = filling.columns
    columns = [table.column(f"{PREFIX}{number}").to_pylist() for number in range(len(names))]
    rows = [Row.of_names(names, values) for values in zip(*columns, strict=True)]
    function = pickle.loads(filling.function)
    bootstrap: KeyedBootstrap | OperatorBootstrap
    if filling.key_type is None:
        keys: list[Any] = [None] * len(rows)
        bootstrap = OperatorBootstrap(function, operator, max_parallelism)
    else:
        keys = from_array(table.column(KEY), filling.key_type, "key", unpickle=True)
        bootstrap = KeyedBootstrap(function, operator, filling.key_type, max_parallelism)
    try:
        for key, row in zip(keys, rows, strict=True):
            bootstrap.process(key, row)
    except ROW_FAULTS:
        bootstrap.abort()
        raise
    except Exception as error:
        bootstrap.abort()
        where = f"the row {row!r:.100}" if filling.key_type is None else f"the key {key!r:.100}"
        raise RowFault(f"the function failed for {where}: {type(error).__name__}: {error}") from error
    return bootstrap.finish()
