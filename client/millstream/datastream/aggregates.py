"""Aggregates over the columns of windows: `windows.aggregate(count(), sum("amount").alias("total"))`.

For rows of a declared type, and for Arrow batches. Records of a window are never called for one by one: partial
aggregates are kept as columns. Null is no value: aggregates pass over it, and are null where there is nothing else;
counts are 0 then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from millstream.core.aggregates import (
    AVG,
    COUNT,
    COUNT_DISTINCT,
    FIRST,
    LAST,
    MAX,
    MIN,
    SUM,
    Aggregate,
    aggregate_named,
)
from millstream.core.errors import InvalidProgramError

__all__ = ["ColumnAggregate", "avg", "call", "count", "count_distinct", "first", "last", "max", "min", "sum"]


@dataclass(frozen=True, slots=True)
class ColumnAggregate:
    """The result of a function of this module, for `aggregate` of windows."""

    aggregate: Aggregate
    column: str | None = None
    name: str = ""

    def alias(self, name: str) -> ColumnAggregate:
        """Returns the same aggregate with the column name `name` in the result."""
        if not isinstance(name, str) or not name:
            raise InvalidProgramError(f"alias: expected the name of a column, got {name!r}")
        return replace(self, name=name)


def call(aggregate: Aggregate | str, column: str | None = None) -> ColumnAggregate:
    """An aggregate of your own over `column`: an object of a class derived from `Aggregate`, or a registered name.

    `aggregate` and how one is written: `millstream.core.aggregates`. Without a column, it is one over the records
    themselves.

        windows.aggregate(count(), call(Variance(), "amount").alias("variance"))
    """
    found = aggregate_named(aggregate) if isinstance(aggregate, str) else aggregate
    if not isinstance(found, Aggregate):
        raise InvalidProgramError(f"call: expected an aggregate or the name of one, got {found!r}")
    if column is None and not found.needs_column:
        return ColumnAggregate(found, None, found.name)
    if not isinstance(column, str) or not column:
        raise InvalidProgramError(f"{found.name}: expected the name of a column, got {column!r}")
    return ColumnAggregate(found, column, f"{found.name}_{column}")


def count(column: str | None = None) -> ColumnAggregate:
    """How many records; with a column, in how many of them it is not null."""
    return call(COUNT, column)


def sum(column: str) -> ColumnAggregate:
    """The sum of numbers: of integers an integer of 64 bits, beyond which it is an error; of floats a double."""
    return call(SUM, column)


def min(column: str) -> ColumnAggregate:
    """The smallest value; of floats, NaN only where there is no other."""
    return call(MIN, column)


def max(column: str) -> ColumnAggregate:
    """The largest value; of floats, NaN only where there is no other."""
    return call(MAX, column)


def avg(column: str) -> ColumnAggregate:
    """The mean of numbers, as a double; of decimals, as a decimal."""
    return call(AVG, column)


def first(column: str) -> ColumnAggregate:
    """The value that came first, in the order of arrival."""
    return call(FIRST, column)


def last(column: str) -> ColumnAggregate:
    """The value that came last, in the order of arrival."""
    return call(LAST, column)


def count_distinct(column: str) -> ColumnAggregate:
    """How many different values. All of them are kept until the window is gone."""
    return call(COUNT_DISTINCT, column)
