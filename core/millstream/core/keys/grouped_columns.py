"""Columns to group by, in a form that Arrow can group and sort: equal values are equal bytes.

Floats become their bits, with one zero and one NaN; composite values become pickles. Null is a value like any other.
"""

from __future__ import annotations

import pickle
from io import BytesIO
from typing import TYPE_CHECKING, Any

from millstream.core.keys.key_values import NOT_A_NUMBER
from millstream.core.records.types import DOUBLE, FLOAT, BasicType, TypeInformation

if TYPE_CHECKING:
    import pyarrow as pa


class GroupedColumn:
    """A column of one declared type."""

    def __init__(self, kind: TypeInformation) -> None:
        self.type = kind
        self._is_float = kind in (FLOAT, DOUBLE)
        self._is_nested = not isinstance(kind, BasicType)

    def encode(self, column: pa.Array) -> pa.Array:
        """Encodes the values."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._is_float:
            one_zero = pc.add(column, pa.scalar(0.0, column.type))
            one_nan = pc.if_else(pc.is_nan(one_zero), pa.scalar(NOT_A_NUMBER, column.type), one_zero)
            return one_nan.view(pa.int32() if self.type == FLOAT else pa.int64())
        if self._is_nested:
            return pa.array([None if value is None else _pickled(value) for value in column.to_pylist()], pa.binary())
        return column

    def decode(self, column: pa.Array | pa.ChunkedArray) -> pa.Array:
        """Decodes values into a column of the declared type."""
        import pyarrow as pa

        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        if self._is_float:
            return column.view(self.type.arrow_type())
        if self._is_nested:
            values = [None if data is None else pickle.loads(data) for data in column.to_pylist()]
            return pa.array(values, self.type.arrow_type())
        return column


def _pickled(value: Any) -> bytes:
    """Pickles so that equal values have equal bytes: without references to objects that were pickled before."""
    buffer = BytesIO()
    pickler = pickle.Pickler(buffer, 5)
    pickler.fast = True
    pickler.dump(_with_one_zero(value))
    return buffer.getvalue()


def _with_one_zero(value: Any) -> Any:
    match value:
        case float():
            return value + 0.0 if value == value else NOT_A_NUMBER
        case list() | tuple():
            return [_with_one_zero(item) for item in value]
        case dict():
            return {name: _with_one_zero(item) for name, item in value.items()}
    return value
