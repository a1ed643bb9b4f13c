"""The literals of Python's values."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

from millstream.core.expressions.errors import ExpressionError
from millstream.core.expressions.nodes import Literal
from millstream.core.records.schema import (
    ArrayOf,
    LocalZonedTimestampType,
    LogicalType,
    NullType,
    TimestampType,
    logical_type_of,
)

_CLASSES = (
    bool, int, float, str, bytes, Decimal, datetime.datetime, datetime.date, datetime.time, datetime.timedelta,
)  # fmt: skip


def literal_of(value: Any) -> Literal:
    """Returns the literal of a value of a class that columns hold; raises `ExpressionError` for any other.

    A list or tuple is a list of values of one class; None beside them is NULL.
    """
    if value is None:
        return Literal(None, NullType())
    if value.__class__ in (list, tuple):
        members = [literal_of(member) for member in value]
        types = {member.type.with_nullable(True) for member in members if member.value is not None}
        if len(types) > 1:
            raise ExpressionError(f"the values {value!r:.200} are of several types; give those of one")
        return Literal(tuple(value), ArrayOf(types.pop() if types else NullType(), nullable=False))
    if value.__class__ not in _CLASSES:
        raise ExpressionError(
            f"{value!r:.200} is a {type(value).__qualname__}, and constants of expressions are truth values, numbers, "
            "text, bytes, dates and times"
        )
    if value.__class__ is int and not -(1 << 63) <= value < 1 << 63:
        raise ExpressionError(f"{value} does not fit 64 bits, which integers of columns have")
    return Literal(value, _type_of(value))


def _type_of(value: Any) -> LogicalType:
    if value.__class__ is datetime.datetime and value.tzinfo is not None:
        return LocalZonedTimestampType(6, nullable=False)
    if value.__class__ is datetime.datetime:
        return TimestampType(6, nullable=False)
    return logical_type_of(value.__class__)
