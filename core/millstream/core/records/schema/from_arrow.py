"""The type that a column of Arrow has by itself.

What is stored in another way has the type of its values: dictionaries, runs, views, large and fixed-size lists and
texts. Unsigned integers have the next larger signed type, the largest ones DECIMAL(20, 0); a timestamp of any time
zone is TIMESTAMP_LTZ, which has no zone. Values of such columns have to be cast to `to_arrow_type` of their type.
Unions and Arrow's own intervals have no type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.core.records.schema import atomic_types as a
from millstream.core.records.schema.errors import InvalidTypeError
from millstream.core.records.schema.interval_types import DayTimeIntervalType, DayTimeResolution
from millstream.core.records.schema.logical_type import BYTES, STRING, LogicalType
from millstream.core.records.schema.nested_types import ArrayOf, Field, MapOf, RowOf

if TYPE_CHECKING:
    import pyarrow as pa

_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}

_BY_NAME: dict[str, LogicalType] = {
    "bool": a.BooleanType(),
    "int8": a.TinyIntType(),
    "int16": a.SmallIntType(),
    "int32": a.IntType(),
    "int64": a.BigIntType(),
    "uint8": a.SmallIntType(),
    "uint16": a.IntType(),
    "uint32": a.BigIntType(),
    "uint64": a.DecimalType(20, 0),
    "halffloat": a.FloatType(),
    "float": a.FloatType(),
    "double": a.DoubleType(),
    "string": STRING,
    "large_string": STRING,
    "string_view": STRING,
    "binary": BYTES,
    "large_binary": BYTES,
    "binary_view": BYTES,
    "date32[day]": a.DateType(),
    "date64[ms]": a.DateType(),
    "null": a.NullType(),
}


def from_arrow_type(arrow: pa.DataType, *, nullable: bool = True) -> LogicalType:
    """Returns the type of a column's values; raises `InvalidTypeError` if there is none."""
    type = _BY_NAME.get(str(arrow)) or _with_parameters(arrow) or _nested(arrow) or _encoded(arrow)
    if type is None:
        raise InvalidTypeError(f"No type stands for Arrow's {arrow}")
    return type.with_nullable(nullable)


def _with_parameters(arrow: pa.DataType) -> LogicalType | None:
    from pyarrow import types

    if types.is_decimal(arrow):
        return a.DecimalType(arrow.precision, arrow.scale)
    if types.is_timestamp(arrow):
        digits = _DIGITS[arrow.unit]
        return a.TimestampType(digits) if arrow.tz is None else a.LocalZonedTimestampType(digits)
    if types.is_time(arrow):
        return a.TimeType(_DIGITS[arrow.unit])
    if types.is_duration(arrow):
        return DayTimeIntervalType(DayTimeResolution.DAY_TO_SECOND, 6, _DIGITS[arrow.unit])
    if types.is_fixed_size_binary(arrow):
        return a.BinaryType(arrow.byte_width)
    return None


def _nested(arrow: pa.DataType) -> LogicalType | None:
    from pyarrow import types

    if types.is_struct(arrow):
        return RowOf(tuple(Field(f.name, from_arrow_type(f.type), f.nullable) for f in arrow))
    if types.is_map(arrow):
        key, item = arrow.key_field, arrow.item_field
        return MapOf(from_arrow_type(key.type, nullable=False), from_arrow_type(item.type, nullable=item.nullable))
    lists = (
        types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view, types.is_large_list_view,
    )  # fmt: skip
    if any(is_kind(arrow) for is_kind in lists):
        return ArrayOf(from_arrow_type(arrow.value_type, nullable=arrow.value_field.nullable))
    return None


def _encoded(arrow: pa.DataType) -> LogicalType | None:
    import pyarrow as pa

    if pa.types.is_dictionary(arrow) or pa.types.is_run_end_encoded(arrow):
        return from_arrow_type(arrow.value_type)
    return from_arrow_type(arrow.storage_type) if isinstance(arrow, pa.BaseExtensionType) else None
