"""Conversions of columns from one type to another, as Python's classes convert numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.core.expressions.types import FLOATS, INTEGERS
from millstream.core.records.schema import DecimalType, LogicalType, to_arrow_type


def converter(found: LogicalType, wanted: LogicalType) -> Callable[[Any], Any]:
    """Returns the function that converts arrays and scalars, and fails with `ArrowInvalid` for what does not fit.

    A number becomes the nearest float, and an integer loses the digits behind the point.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = to_arrow_type(wanted)
    if isinstance(wanted, FLOATS):
        return lambda values: pc.cast(values, kind, safe=False)
    if isinstance(wanted, INTEGERS) and isinstance(found, (*FLOATS, DecimalType)):
        return lambda values: pc.cast(pc.trunc(values), kind)
    if isinstance(wanted, DecimalType) and isinstance(found, INTEGERS):
        whole = pa.decimal128(19, 0)
        return lambda values: pc.cast(pc.cast(pc.cast(values, pa.int64()), whole), kind)
    return lambda values: pc.cast(values, kind)
