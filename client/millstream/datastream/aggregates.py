"""Aggregates over the columns of windows: `windows.aggregate(count(), sum("amount").alias("total"))`.

For rows of a declared type, and for Arrow batches. Records of a window are never called for one by one: partial
aggregates are kept as columns. Null is no value: aggregates pass over it, and are null where there is nothing else;
counts are 0 then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.plan.column_windows import Aggregation

__all__ = ["ColumnAggregate", "avg", "count", "count_distinct", "first", "last", "max", "min", "sum"]


@dataclass(frozen=True, slots=True)
class ColumnAggregate:
    """The result of a function of this module, for `aggregate` of windows."""

    aggregation: Aggregation
    column: str | None = None
    name: str = ""

    def alias(self, name: str) -> ColumnAggregate:
        """Returns the same aggregate with the column name `name` in the result."""
        if not isinstance(name, str) or not name:
            raise InvalidProgramError(f"alias: expected the name of a column, got {name!r}")
        return replace(self, name=name)


def _of(aggregation: Aggregation, column: str) -> ColumnAggregate:
    if not isinstance(column, str) or not column:
        raise InvalidProgramError(f"{aggregation.value}: expected the name of a column, got {column!r}")
    return ColumnAggregate(aggregation, column, f"{aggregation.value}_{column}")


def count(column: str | None = None) -> ColumnAggregate:
    """How many records; with a column, in how many of them it is not null."""
    if column is None:
        return ColumnAggregate(Aggregation.COUNT, None, Aggregation.COUNT.value)
    return _of(Aggregation.COUNT, column)


def sum(column: str) -> ColumnAggregate:
    """The sum of numbers: of integers an integer of 64 bits, beyond which it is an error; of floats a double."""
    return _of(Aggregation.SUM, column)


def min(column: str) -> ColumnAggregate:
    """The smallest value; of floats, NaN only where there is no other."""
    return _of(Aggregation.MIN, column)


def max(column: str) -> ColumnAggregate:
    """The largest value; of floats, NaN only where there is no other."""
    return _of(Aggregation.MAX, column)


def avg(column: str) -> ColumnAggregate:
    """The mean of numbers, as a double; of decimals, as a decimal."""
    return _of(Aggregation.AVG, column)


def first(column: str) -> ColumnAggregate:
    """The value that came first, in the order of arrival."""
    return _of(Aggregation.FIRST, column)


def last(column: str) -> ColumnAggregate:
    """The value that came last, in the order of arrival."""
    return _of(Aggregation.LAST, column)


def count_distinct(column: str) -> ColumnAggregate:
    """How many different values. All of them are kept until the window is gone."""
    return _of(Aggregation.COUNT_DISTINCT, column)
