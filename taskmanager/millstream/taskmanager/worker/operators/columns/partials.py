"""Partial aggregates as columns: how records become partials, how partials are combined, and how results are made.

The partial aggregate of one record consists of its columns as they are, and partial aggregates of one group are
combined by Arrow's `group_by`, in any order: first and last values carry the number of their record.

All data is in tables. The main table has a row for each group, with its partial columns. For each column whose distinct
values are counted there is another table, with a row for each group and value.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, localcontext
from enum import Enum
from typing import TYPE_CHECKING, Any, assert_never

from msgspec import Struct

from millstream.core.errors import MillstreamError
from millstream.core.jobs.plan.column_windows import Aggregation, PlannedAggregate
from millstream.core.records.types import BIG_DEC, DOUBLE, FLOAT, LONG, TypeInformation
from millstream.taskmanager.worker.operators.columns.keys import GroupedColumn

if TYPE_CHECKING:
    import pyarrow as pa

VALUE = "value"
"""The column of distinct values."""
_RANGE = 1 << 63


class SumOverflowError(MillstreamError):
    """A sum of integers that overflows 64 bits."""


class Of(Enum):
    """The content of a kept column for a single record."""

    ROW = "one"
    PRESENCE = "one, or none if its value is null"
    NUMBER = "its number, if its value is not null"
    VALUE = "its value"


class Partial(Struct, frozen=True):
    """A kept column: the Arrow function that combines several values.

    With `at`, it is the value in the row whose number that function has chosen in the column of that name.
    """

    name: str
    type: TypeInformation
    function: str
    of: Of
    column: str = ""
    at: str | None = None


class DistinctColumn(Struct, frozen=True):
    """A column whose distinct values are counted."""

    column: str
    values: GroupedColumn

    @property
    def name(self) -> str:
        """The name of its count in the main table."""
        return f"distinct:{self.column}"


class Partials:
    """Partial aggregates in groups by keys."""

    def __init__(self, keys: Sequence[tuple[str, TypeInformation]], aggregates: Sequence[PlannedAggregate]) -> None:
        self.key_names = [f"key:{number}" for number in range(max(1, len(keys)))]
        self.key_columns = [name for name, _ in keys]
        self.keys = [GroupedColumn(kind) for _, kind in keys]
        self.aggregates = aggregates
        kept = {partial.name: partial for aggregate in aggregates for partial in _partials(aggregate)}
        self.columns = list(kept.values())
        distinct = {a.column: a.type for a in aggregates if a.aggregation is Aggregation.COUNT_DISTINCT}
        self.distinct = [DistinctColumn(str(column), GroupedColumn(kind)) for column, kind in distinct.items()]
        self._grouped = [partial for partial in self.columns if partial.at is None]
        self._taken = [partial for partial in self.columns if partial.at is not None]
        self._numbered = bool(self._taken)
        self._long_sums = [p for p in self.columns if p.function == "sum" and p.of is Of.VALUE and p.type == LONG]
        self._ones: pa.Array | None = None

    def inputs(self) -> set[str]:
        """The columns of records that are needed."""
        return {*self.key_columns, *(a.column for a in self.aggregates if a.column is not None)}

    # Records

    def of_records(self, data: pa.RecordBatch, first: int, places: dict[str, Any]) -> list[pa.Table]:
        """The tables of records that are numbered from `first` on, the main one first.

        `places` are columns that the tables begin with, such as the window of a record.
        """
        import numpy as np
        import pyarrow as pa

        rows = data.num_rows
        lead = {**places, **dict(zip(self.key_names, self._keys_of(data), strict=True))}
        numbers = pa.array(np.arange(first, first + rows, dtype=np.int64)) if self._numbered else None
        main = {partial.name: self._of_record(partial, data, numbers) for partial in self.columns}
        tables = [pa.table({**lead, **main})]
        for distinct in self.distinct:
            column = data.column(distinct.column)
            table = pa.table({**lead, VALUE: distinct.values.encode(column)})
            tables.append(table.filter(column.is_valid()) if column.null_count else table)
        return tables

    def _keys_of(self, data: pa.RecordBatch) -> list[Any]:
        import numpy as np
        import pyarrow as pa

        if not self.keys:
            return [pa.array(np.zeros(data.num_rows, np.int64))]
        return [key.encode(data.column(name)) for key, name in zip(self.keys, self.key_columns, strict=True)]

    def _of_record(self, partial: Partial, data: pa.RecordBatch, numbers: pa.Array | None) -> pa.Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        match partial.of:
            case Of.ROW:
                return self._as_many_ones(data.num_rows)
            case Of.PRESENCE:
                column = data.column(partial.column)
                return column.is_valid().cast(pa.int64()) if column.null_count else self._as_many_ones(data.num_rows)
            case Of.NUMBER:
                column = data.column(partial.column)
                return pc.if_else(column.is_valid(), numbers, None) if column.null_count else numbers
            case Of.VALUE:
                column = data.column(partial.column)
                kind = partial.type.arrow_type()
                return column if column.type == kind else column.cast(kind)
            case _:
                assert_never(partial.of)

    def _as_many_ones(self, rows: int) -> pa.Array:
        import numpy as np
        import pyarrow as pa

        if self._ones is None or len(self._ones) < rows:
            self._ones = pa.array(np.ones(max(rows, 4096), np.int64))
        return self._ones.slice(0, rows)

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
        calls = [(p.name, p.function, present) for p in self._grouped]
        calls += [(name, function, present) for name, function in further]
        self._check_sums(table, groups)
        grouped = table.group_by(list(groups), use_threads=False).aggregate(calls)
        grouped = grouped.rename_columns([*groups, *(name for name, _, _ in calls)])
        for partial in self._taken:
            rows = pc.index_in(grouped.column(partial.at), value_set=table.column(partial.at).combine_chunks())
            grouped = grouped.append_column(partial.name, table.column(partial.name).take(rows))
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

        for partial in self._long_sums:
            column = table.column(partial.name)
            extremes = pc.min_max(column).as_py()
            if extremes["min"] is None or max(-extremes["min"], extremes["max"]) * len(column) < _RANGE:
                continue
            wide = table.select(list(groups)).append_column("sum", column.cast(pa.decimal128(38, 0)))
            sums = wide.group_by(list(groups), use_threads=False).aggregate([("sum", "sum")]).column("sum_sum")
            largest = pc.min_max(sums).as_py()
            if not -_RANGE <= largest["min"] <= largest["max"] < _RANGE:
                raise SumOverflowError(
                    f"the sum of column '{partial.column}' does not fit 64 bits: declare the column as "
                    "Types.DOUBLE() or Types.BIG_DEC()"
                )

    # Results

    def results(self, table: pa.Table) -> list[pa.Array]:
        """The aggregates of a main table that includes the counts of distinct values."""
        return [_result(aggregate, table) for aggregate in self.aggregates]

    def renumbered(self, table: pa.Table, first: int) -> tuple[pa.Table, int]:
        """Renumbers records, in the same order and each once; returns the number that follows as well.

        Tables that come from several subtasks have overlapping numbers.
        """
        import numpy as np
        import pyarrow as pa

        for at in {partial.at for partial in self._taken}:
            numbers = table.column(at).combine_chunks()
            valid = numbers.is_valid().to_numpy(zero_copy_only=False)
            ranks = np.empty(len(numbers), np.int64)
            ranks[np.argsort(numbers.fill_null(0).to_numpy(), kind="stable")] = np.arange(len(numbers))
            place = table.schema.get_field_index(at)
            table = table.set_column(place, at, pa.array(ranks + first, mask=~valid))
        return table, first + table.num_rows


def _partials(aggregate: PlannedAggregate) -> list[Partial]:
    column, kind = aggregate.column or "", aggregate.type
    match aggregate.aggregation:
        case Aggregation.COUNT:
            return [_count(aggregate.column)]
        case Aggregation.SUM:
            return [Partial(f"sum:{column}", aggregate.result, "sum", Of.VALUE, column)]
        case Aggregation.AVG:
            added = kind if kind == BIG_DEC else DOUBLE if kind in (FLOAT, DOUBLE) else LONG
            return [Partial(f"sum:{column}", added, "sum", Of.VALUE, column), _count(column)]
        case Aggregation.MIN | Aggregation.MAX:
            name = aggregate.aggregation.value
            return [Partial(f"{name}:{column}", kind, name, Of.VALUE, column)]
        case Aggregation.FIRST | Aggregation.LAST:
            name = aggregate.aggregation.value
            at, chosen = f"{name}_at:{column}", "min" if aggregate.aggregation is Aggregation.FIRST else "max"
            return [
                Partial(at, LONG, chosen, Of.NUMBER, column),
                Partial(f"{name}:{column}", kind, "", Of.VALUE, column, at),
            ]
        case Aggregation.COUNT_DISTINCT:
            return []
        case _:
            assert_never(aggregate.aggregation)


def _count(column: str | None) -> Partial:
    if column is None:
        return Partial("rows", LONG, "sum", Of.ROW)
    return Partial(f"count:{column}", LONG, "sum", Of.PRESENCE, column)


def _result(aggregate: PlannedAggregate, table: pa.Table) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    column = aggregate.column
    match aggregate.aggregation:
        case Aggregation.COUNT:
            result = table.column("rows" if column is None else f"count:{column}")
        case Aggregation.AVG:
            sums, counts = table.column(f"sum:{column}"), table.column(f"count:{column}")
            if aggregate.result == BIG_DEC:
                return pa.array(map(_mean, sums.to_pylist(), counts.to_pylist()), BIG_DEC.arrow_type())
            result = pc.divide(sums.cast(pa.float64(), safe=False), counts.cast(pa.float64()))
        case Aggregation.COUNT_DISTINCT:
            name = f"distinct:{column}"
            if name not in table.column_names:  # all values are null
                return pa.repeat(0, table.num_rows)
            result = table.column(name).cast(pa.int64()).fill_null(0)
        case Aggregation.SUM | Aggregation.MIN | Aggregation.MAX | Aggregation.FIRST | Aggregation.LAST:
            result = table.column(f"{aggregate.aggregation.value}:{column}")
        case _:
            assert_never(aggregate.aggregation)
    return result.combine_chunks()


def _mean(total: Decimal | None, count: int) -> Decimal | None:
    if total is None:
        return None
    with localcontext(prec=60):
        return (total / count).quantize(Decimal(1).scaleb(-18))
