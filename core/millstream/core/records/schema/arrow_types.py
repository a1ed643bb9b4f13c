"""The column of Arrow that holds values of a type.

| type | column | why |
|---|---|---|
| DECIMAL(p, s) | decimal128(p, s) | |
| CHAR, VARCHAR, STRING | string | lengths are checked by casts, not by columns |
| BINARY, VARBINARY, BYTES | binary | in fixed_size_binary(n) a NULL takes n bytes |
| TIME(p) | time32 in s (p = 0) or ms (to 3), time64 in us (to 6) or ns | the unit that holds p digits |
| TIMESTAMP(p) | timestamp in s, ms, us or ns by the same rule | in ns the years 1677 to 2262 |
| TIMESTAMP_LTZ(p) | the same in UTC | |
| TIMESTAMP(p) WITH TIME ZONE | struct of `timestamp` in UTC and `offset_minutes` | columns have one zone, \
values here their own; it is the struct of Arrow's extension type `arrow.timestamp_with_offset` |
| INTERVAL of years and months | int32, months | kernels add integers, and nothing to Arrow's own intervals |
| INTERVAL of days and times | duration, in the unit of TIMESTAMP | kernels add it to timestamps, but no int64; in ns \
up to 292 years. Flink computes in ms, which would cut what a `timedelta` holds |
| ARRAY, MAP, ROW | list, map, struct | keys of a map are never NULL in Arrow, so none has the type NULL |
| MULTISET<t> | map from t to the number of times, int32 | as Flink converts it |
| NULL, RAW | null, binary | |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millstream.core.records.schema import atomic_types as a
from millstream.core.records.schema.errors import InvalidTypeError
from millstream.core.records.schema.interval_types import DayTimeIntervalType, YearMonthIntervalType
from millstream.core.records.schema.logical_type import LogicalType
from millstream.core.records.schema.nested_types import ArrayOf, MapOf, MultisetOf, RawType, RowOf

if TYPE_CHECKING:
    import pyarrow as pa

_FACTORIES: dict[type[LogicalType], str] = {
    a.BooleanType: "bool_",
    a.TinyIntType: "int8",
    a.SmallIntType: "int16",
    a.IntType: "int32",
    a.BigIntType: "int64",
    a.FloatType: "float32",
    a.DoubleType: "float64",
    a.CharType: "string",
    a.VarCharType: "string",
    a.BinaryType: "binary",
    a.VarBinaryType: "binary",
    a.DateType: "date32",
    a.NullType: "null",
    YearMonthIntervalType: "int32",
    RawType: "binary",
}


def to_arrow_type(type: LogicalType) -> pa.DataType:
    """Returns the type of a column of such values. It does not say whether they may be NULL: a field does."""
    import pyarrow as pa

    match type:
        case a.DecimalType(precision=precision, scale=scale):
            return pa.decimal128(precision, scale)
        case a.TimeType(precision=precision):
            return (pa.time32 if precision <= 3 else pa.time64)(unit(precision))
        case a.TimestampType(precision=precision):
            return pa.timestamp(unit(precision))
        case a.LocalZonedTimestampType(precision=precision):
            return pa.timestamp(unit(precision), "UTC")
        case a.ZonedTimestampType(precision=precision):
            moment = pa.field("timestamp", pa.timestamp(unit(precision), "UTC"), nullable=False)
            return pa.struct([moment, pa.field("offset_minutes", pa.int16(), nullable=False)])
        case DayTimeIntervalType(fraction=fraction):
            return pa.duration(unit(fraction))
    nested = _nested(type)
    return getattr(pa, _FACTORIES[type.__class__])() if nested is None else nested


def _nested(type: LogicalType) -> Any | None:
    import pyarrow as pa

    match type:
        case ArrayOf(element=element):
            return pa.list_(_inner("item", element))
        case MapOf(key=key, value=value):
            return pa.map_(_key(key), _inner("value", value))
        case MultisetOf(element=element):
            return pa.map_(_key(element), pa.field("value", pa.int32(), nullable=False))
        case RowOf(fields=fields):
            return pa.struct([_inner(field.name, field.type) for field in fields])
    return None


def _key(type: LogicalType) -> pa.DataType:
    if isinstance(type, a.NullType):
        raise InvalidTypeError("No column of Arrow has keys of the type NULL: keys are never NULL there")
    return to_arrow_type(type)


def _inner(name: str, type: LogicalType) -> pa.Field:
    import pyarrow as pa

    return pa.field(name, to_arrow_type(type), nullable=type.nullable)


def unit(digits: int) -> str:
    """The coarsest unit of Arrow that holds so many digits of a second."""
    return ("s", "ms", "us", "ns")[(digits + 2) // 3]
