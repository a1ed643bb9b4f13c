"""Partial aggregates as columns: how records become partials, how partials are combined, and how results are made.

What aggregates keep is defined by them (`millstream.core.aggregates`): state columns, which all aggregates of an
operator have in one table, and which are combined by Arrow's `group_by`, in any order: first and last values carry the
number of their record.

All data is in tables. The main table has a row for each group, with its state columns. For each column whose distinct
values are counted there is another table, with a row for each group and value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from millstream.core.aggregates import ChangedRecords, PlannedAggregate, RetractionError, StateColumn
from millstream.core.aggregates.aggregate import distinct_count
from millstream.core.errors import MillstreamError
from millstream.core.keys.grouped_columns import GroupedColumn
from millstream.core.records.types import TypeInformation

if TYPE_CHECKING:
    import pyarrow as pa

VALUE = "value"
"""The column of distinct values."""
_RANGE = 1 << 63


class SumOverflowError(MillstreamError):
    """A sum of integers that overflows 64 bits."""


class DistinctColumn(Struct, frozen=True):
    """A column whose distinct values are counted."""

    column: str
    values: GroupedColumn

    @property
    def name(self) -> str:
        """The name of its count in the main table."""
        return distinct_count(self.column)


class Partials:
    """Partial aggregates in groups by keys."""

    def __init__(self, keys: Sequence[tuple[str, TypeInformation]], aggregates: Sequence[PlannedAggregate]) -> None:
        self.key_names = [f"key:{number}" for number in range(max(1, len(keys)))]
        self.key_columns = [name for name, _ in keys]
        self.keys = [GroupedColumn(kind) for _, kind in keys]
        self.aggregates = aggregates
        kept: dict[str, StateColumn] = {}
        for aggregate in aggregates:
            for column in aggregate.state():
                kept.setdefault(column.name, column)
        self.columns = list(kept.values())
        distinct = {str(a.column): a.type for a in aggregates if a.aggregate.counts_distinct}
        self.distinct = [DistinctColumn(column, GroupedColumn(kind)) for column, kind in distinct.items()]
        self._grouped = [column for column in self.columns if column.at is None]
        self._taken = [column for column in self.columns if column.at is not None]
        self._bounded_sums = [column for column in self.columns if column.sum_of]

    def inputs(self) -> set[str]:
        """The columns of records that are needed."""
        return {*self.key_columns, *(a.column for a in self.aggregates if a.column is not None)}

    # Records

    def of_records(self, data: pa.RecordBatch, first: int, places: dict[str, Any]) -> list[pa.Table]:
        """The tables of records that are numbered from `first` on, the main one first.

        `places` are columns that the tables begin with, such as the window of a record.
        """
        import pyarrow as pa

        records = ChangedRecords(data, first)
        lead = {**places, **dict(zip(self.key_names, self._keys_of(data), strict=True))}
        tables = [pa.table({**lead, **{column.name: column.accumulate(records) for column in self.columns}})]
        for distinct in self.distinct:
            column = data.column(distinct.column)
            table = pa.table({**lead, VALUE: distinct.values.encode(column)})
            tables.append(table.filter(column.is_valid()) if column.null_count else table)
        return tables

    def of_retracted(self, data: pa.RecordBatch, places: dict[str, Any]) -> pa.Table:
        """The main table of records that are taken back, which were accumulated before.

        Combined with that of the others, it is as if they had never been. Raises a `RetractionError` if the aggregates
        were not planned for that.
        """
        import pyarrow as pa

        records = ChangedRecords(data)
        lead = {**places, **dict(zip(self.key_names, self._keys_of(data), strict=True))}
        return pa.table({**lead, **{column.name: _retracted(column, records) for column in self.columns}})

    def _keys_of(self, data: pa.RecordBatch) -> list[Any]:
        import numpy as np
        import pyarrow as pa

        if not self.keys:
            return [pa.array(np.zeros(data.num_rows, np.int64))]
        return [key.encode(data.column(name)) for key, name in zip(self.keys, self.key_columns, strict=True)]

    # Tables

    def combined(
        self, tables: Sequence[pa.Table], groups: Sequence[str], further: Sequence[tuple[str, str]] = ()
    ) -> pa.Table:
        """Combines main tables into one row per group; further columns by Arrow's functions.

        Missing columns are null.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        table = tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="default")
        present = pc.ScalarAggregateOptions(skip_nulls=True, min_count=1)
        calls = [(column.name, column.merge, present) for column in self._grouped]
        calls += [(name, function, present) for name, function in further]
        self._check_sums(table, groups)
        grouped = table.group_by(list(groups), use_threads=False).aggregate(calls)
        grouped = grouped.rename_columns([*groups, *(name for name, _, _ in calls)])
        for taken in self._taken:
            rows = pc.index_in(grouped.column(taken.at), value_set=table.column(taken.at).combine_chunks())
            grouped = grouped.append_column(taken.name, table.column(taken.name).take(rows))
        return grouped

    def different(self, tables: Sequence[pa.Table], groups: Sequence[str]) -> pa.Table:
        """Combines tables of distinct values into one row per group and value."""
        import pyarrow as pa

        table = tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="default")
        return table.group_by([*groups, VALUE], use_threads=False).aggregate([])

    def compacted(self, part: int, tables: Sequence[pa.Table], groups: Sequence[str]) -> pa.Table:
        """Combines tables of one part into one: the main part is number 0."""
        return self.combined(tables, groups) if part == 0 else self.different(tables, groups)

    def counted(self, number: int, tables: Sequence[pa.Table], groups: Sequence[str]) -> pa.Table:
        """The number of distinct values of each group, as a main table."""
        counts = self.different(tables, groups).group_by(list(groups), use_threads=False).aggregate([([], "count_all")])
        return counts.rename_columns([*groups, self.distinct[number].name])

    def _check_sums(self, table: pa.Table, groups: Sequence[str]) -> None:
        """Raises if a sum has overflowed: Arrow's sums wrap around silently."""
        import pyarrow as pa
        import pyarrow.compute as pc

        for bounded in self._bounded_sums:
            column = table.column(bounded.name)
            extremes = pc.min_max(column).as_py()
            if extremes["min"] is None or max(-extremes["min"], extremes["max"]) * len(column) < _RANGE:
                continue
            wide = table.select(list(groups)).append_column("sum", column.cast(pa.decimal128(38, 0)))
            sums = wide.group_by(list(groups), use_threads=False).aggregate([("sum", "sum")]).column("sum_sum")
            largest = pc.min_max(sums).as_py()
            if not -_RANGE <= largest["min"] <= largest["max"] < _RANGE:
                raise SumOverflowError(
                    f"the sum of column '{bounded.sum_of}' does not fit 64 bits: declare the column as "
                    "Types.DOUBLE() or Types.BIG_DEC()"
                )

    # Results

    def results(self, table: pa.Table) -> list[pa.Array]:
        """The aggregates of a main table that includes the counts of distinct values."""
        state = dict(zip(table.column_names, table.columns, strict=True))
        return [a.aggregate.result(a, state, table.num_rows) for a in self.aggregates]

    def renumbered(self, table: pa.Table, first: int) -> tuple[pa.Table, int]:
        """Renumbers records, in the same order and each once; returns the number that follows as well.

        Tables that come from several subtasks have overlapping numbers.
        """
        import numpy as np
        import pyarrow as pa

        for at in {taken.at for taken in self._taken}:
            numbers = table.column(at).combine_chunks()
            valid = numbers.is_valid().to_numpy(zero_copy_only=False)
            ranks = np.empty(len(numbers), np.int64)
            ranks[np.argsort(numbers.fill_null(0).to_numpy(), kind="stable")] = np.arange(len(numbers))
            place = table.schema.get_field_index(at)
            table = table.set_column(place, at, pa.array(ranks + first, mask=~valid))
        return table, first + table.num_rows


def _retracted(column: StateColumn, records: ChangedRecords) -> pa.Array:
    if column.retract is None:
        raise RetractionError(f"the state '{column.name}' has no way to take a record back")
    return column.retract(records)
