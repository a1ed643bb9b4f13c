"""The `TypeInformation` of records with a logical type: which Python class their values are.

What it does not say is lost: whether values may be NULL, lengths, digits of a decimal or of a second, descriptions.
Columns of the result are those of today: decimals are DECIMAL(38, 18), and times are in microseconds, so of a
DECIMAL(38, 0) the largest values do not fit, nor do the last digits of a TIMESTAMP(9). An interval of years and months
is its number of months, and a MULTISET a dict of how many times each element is there. An interval of days, a time with
an offset of its own, and NULL are pickled: no column of a `TypeInformation` holds them.
"""

from __future__ import annotations

from millstream.core.records import types as t
from millstream.core.records.schema import atomic_types as a
from millstream.core.records.schema.errors import InvalidTypeError
from millstream.core.records.schema.interval_types import DayTimeIntervalType, YearMonthIntervalType
from millstream.core.records.schema.logical_type import LogicalType
from millstream.core.records.schema.nested_types import ArrayOf, MapOf, MultisetOf, RawType, RowOf, pickled
from millstream.core.records.schema.writing import summary_string

_OF_KIND: dict[type[LogicalType], t.TypeInformation] = {
    a.BooleanType: t.BOOLEAN,
    a.TinyIntType: t.BYTE,
    a.SmallIntType: t.SHORT,
    a.IntType: t.INT,
    a.BigIntType: t.LONG,
    a.FloatType: t.FLOAT,
    a.DoubleType: t.DOUBLE,
    a.DecimalType: t.BIG_DEC,
    a.CharType: t.STRING,
    a.VarCharType: t.STRING,
    a.BinaryType: t.BYTES,
    a.VarBinaryType: t.BYTES,
    a.DateType: t.DATE,
    a.TimeType: t.TIME,
    a.TimestampType: t.TIMESTAMP,
    a.LocalZonedTimestampType: t.INSTANT,
    a.ZonedTimestampType: t.PICKLED,
    a.NullType: t.PICKLED,
    YearMonthIntervalType: t.INT,
    DayTimeIntervalType: t.PICKLED,
}


def to_type_information(type: LogicalType) -> t.TypeInformation:
    """Returns the type information; raises `InvalidTypeError` for values of a class of the JVM."""
    match type:
        case ArrayOf(element=element):
            return t.ListType(to_type_information(element))
        case MapOf(key=key, value=value):
            return t.MapType(to_type_information(key), to_type_information(value))
        case MultisetOf(element=element):
            return t.MapType(to_type_information(element), t.INT)
        case RowOf(fields=fields):
            return t.RowType(tuple(to_type_information(f.type) for f in fields), tuple(f.name for f in fields))
        case RawType():
            if type.with_nullable(True) != pickled():
                raise InvalidTypeError(f"The values of {summary_string(type)} are of a class of the JVM")
            return t.PICKLED
    return _OF_KIND[type.__class__]
