"""Whether two tables hold the same rows, what is no number included. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def same_rows(one: pa.Table, other: pa.Table) -> bool:
    """Whether the tables have the same columns, with the same values in the same order."""
    if one.column_names != other.column_names or one.num_rows != other.num_rows:
        return False
    return all(_same(one.column(name), other.column(name)) for name in one.column_names)


def _same(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    import pyarrow as pa

    if one.equals(other):
        return True
    if one.type != other.type:
        return False
    if pa.types.is_float64(one.type):  # in Arrow NaN does not equal itself, but its bits do
        return bool(_bits(one).equals(_bits(other)))
    return bool(pa.types.is_nested(one.type)) and repr(one.to_pylist()) == repr(other.to_pylist())


def _bits(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa

    return pa.chunked_array([chunk.view(pa.int64()) for chunk in column.chunks], pa.int64())
