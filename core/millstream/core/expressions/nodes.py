"""The nodes of expressions. They are values: two of the same parts are equal.

A node has no type until it is resolved (`None`), except for literals, and conversions, which state it.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct

from millstream.core.records.schema import LogicalType


class Column(Struct, frozen=True):
    """The value of a column."""

    name: str
    type: LogicalType | None = None


class Literal(Struct, frozen=True):
    """A constant: a Python value that `pyarrow` takes for the column of the type. Lists are tuples."""

    value: Any
    type: LogicalType


class Call(Struct, frozen=True):
    """The value of a function, by its name in the registry."""

    function: str
    arguments: tuple[Expression, ...]
    type: LogicalType | None = None


class Cast(Struct, frozen=True):
    """The same value in another type; fails for a value that has no equivalent there."""

    operand: Expression
    type: LogicalType


Expression: TypeAlias = Column | Literal | Call | Cast
