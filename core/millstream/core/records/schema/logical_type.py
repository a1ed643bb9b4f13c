"""The closed union of all logical types: what matches on a type covers each of them, and `assert_never` the rest.

Of Flink's types there are no STRUCTURED and DISTINCT types (a `ROW` has their fields), and no VARIANT, BITMAP,
DESCRIPTOR, SYMBOL and LEGACY; nor the lengths of 0 of empty literals. Whether a timestamp is a time attribute is not
part of its type, since it has no bearing on values.
"""

from __future__ import annotations

from typing import TypeAlias

from millstream.core.records.schema import atomic_types as a
from millstream.core.records.schema.interval_types import DayTimeIntervalType, YearMonthIntervalType
from millstream.core.records.schema.nested_types import ArrayOf, MapOf, MultisetOf, RawType, RowOf

LogicalType: TypeAlias = (
    a.BooleanType
    | a.TinyIntType
    | a.SmallIntType
    | a.IntType
    | a.BigIntType
    | a.FloatType
    | a.DoubleType
    | a.DecimalType
    | a.CharType
    | a.VarCharType
    | a.BinaryType
    | a.VarBinaryType
    | a.DateType
    | a.TimeType
    | a.TimestampType
    | a.ZonedTimestampType
    | a.LocalZonedTimestampType
    | a.NullType
    | YearMonthIntervalType
    | DayTimeIntervalType
    | ArrayOf
    | MapOf
    | MultisetOf
    | RowOf
    | RawType
)

STRING = a.VarCharType(a.MAX_LENGTH)
BYTES = a.VarBinaryType(a.MAX_LENGTH)
