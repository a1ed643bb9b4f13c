"""Declared types as Spark's types, and back.

| declared | Spark |
|---|---|
| `String`, `Boolean`, `Byte`, `Short`, `Integer`, `Long`, `Double`, `Bytes`, `Date` | the type of that name |
| `Float` | `double`, as it is stored: Python's numbers have that precision |
| `BigInteger`, `BigDecimal` | `string`, with all digits: Spark's decimals end at 38 |
| `Time` | `string`, as in `12:30:00.000000`: Spark's own type is off by default |
| `Timestamp`, `Instant` | `timestamp_ntz` and `timestamp`; or what the files hold: see below |
| a tuple, a row, a dataclass | a struct of its fields |
| a list, a dict | an array, a map |
| undeclared | `binary`: the pickle, which nothing here loads |

Python's datetimes may have a time zone or none, whatever was declared, and files say which: a column has only times
without zone (`timestamp_ntz`), only moments (`timestamp`), or a struct of the time on the clock, the zone and the fold
where they are mixed or the zone is another one than UTC. So nothing about a time is lost.

Nothing here needs a running Spark.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as s
from pyspark.sql.pandas.types import to_arrow_type

from millstream.core.errors import InvalidProgramError
from millstream.core.records import types as t
from millstream.core.records.conversion import field_types
from millstream.core.snapshot.tables.times import zoned_type

if TYPE_CHECKING:
    import pyarrow as pa

_BASIC: dict[str, Any] = {
    t.STRING.name: s.StringType(), t.BOOLEAN.name: s.BooleanType(), t.BYTE.name: s.ByteType(),
    t.SHORT.name: s.ShortType(), t.INT.name: s.IntegerType(), t.LONG.name: s.LongType(), t.FLOAT.name: s.DoubleType(),
    t.DOUBLE.name: s.DoubleType(), t.BIG_INT.name: s.StringType(), t.BIG_DEC.name: s.StringType(),
    t.BYTES.name: s.BinaryType(), t.INSTANT.name: s.TimestampType(), t.DATE.name: s.DateType(),
    t.TIME.name: s.StringType(), t.TIMESTAMP.name: s.TimestampNTZType(),
}  # fmt: skip
_DECLARED: dict[Any, t.BasicType] = {
    s.BooleanType: t.BOOLEAN, s.ByteType: t.BYTE, s.ShortType: t.SHORT, s.IntegerType: t.INT, s.LongType: t.LONG,
    s.FloatType: t.FLOAT, s.DoubleType: t.DOUBLE, s.DecimalType: t.BIG_DEC, s.BinaryType: t.BYTES, s.DateType: t.DATE,
    s.TimestampType: t.INSTANT, s.TimestampNTZType: t.TIMESTAMP, s.TimeType: t.TIME,
}  # fmt: skip
_ZONED = s.StructType(
    [
        s.StructField("time", s.TimestampNTZType()),
        s.StructField("zone", s.StringType()),
        s.StructField("fold", s.BooleanType()),
    ]
)


def is_time(type: t.TypeInformation) -> bool:
    """Whether values are datetimes, of which only the files say whether they have zones."""
    return isinstance(type, t.BasicType) and type.python_type is datetime.datetime


def holds_times(type: t.TypeInformation) -> bool:
    """Whether values are datetimes, or have some inside."""
    return is_time(type) or any(map(holds_times, parts(type)))


def parts(type: t.TypeInformation) -> list[t.TypeInformation]:
    """The types of what is directly inside of a value."""
    match type:
        case t.ListType(element):
            return [element]
        case t.MapType(key, value):
            return [key, value]
    return field_types(type) or []


def spark_type(type: t.TypeInformation, stored: pa.DataType | None = None) -> Any:
    """The Spark type of a declared type; of datetimes, as they are stored, if that is known."""
    import pyarrow as pa

    if is_time(type) and stored is not None and not pa.types.is_null(stored):
        if pa.types.is_struct(stored):
            return _ZONED
        return s.TimestampNTZType() if stored.tz is None else s.TimestampType()
    match type:
        case t.BasicType(name):
            return _BASIC[name]
        case t.ListType(element):
            return s.ArrayType(spark_type(element, None if stored is None else stored.value_type))
        case t.MapType(key, value):
            if stored is None:
                return s.MapType(spark_type(key), spark_type(value))
            return s.MapType(spark_type(key, stored.key_type), spark_type(value, stored.item_type))
    names, types = type.field_names(), field_types(type)
    if names is None or types is None:
        return s.BinaryType()
    return s.StructType(
        [
            s.StructField(name, spark_type(inner, None if stored is None else stored.field(name).type))
            for name, inner in zip(names, types, strict=True)
        ]
    )


def fits(type: t.TypeInformation, of_spark: Any) -> bool:
    """Whether a column of the declared type can be of the Spark type: datetimes of each of their three."""
    if is_time(type):
        return of_spark in (s.TimestampNTZType(), s.TimestampType(), _ZONED)
    match type, of_spark:
        case t.ListType(element), s.ArrayType():
            return fits(element, of_spark.elementType)
        case t.MapType(key, value), s.MapType():
            return fits(key, of_spark.keyType) and fits(value, of_spark.valueType)
        case _, s.StructType() if type.field_names() == of_spark.names:
            pairs = zip(parts(type), of_spark.fields, strict=True)
            return all(fits(inner, field.dataType) for inner, field in pairs)
    return bool(spark_type(type) == of_spark)


def type_information(type: Any, where: str = "the column") -> t.TypeInformation:
    """The type that state of a Spark type is declared as; a struct is a row with the names of its fields."""
    match type:
        case s.StringType():  # and those with a length, which are strings as well
            return t.STRING
        case s.ArrayType():
            return t.ListType(type_information(type.elementType, f"{where}[]"))
        case s.MapType():
            key = type_information(type.keyType, f"{where}{{key}}")
            return t.MapType(key, type_information(type.valueType, f"{where}{{}}"))
        case s.StructType() if type == _ZONED:
            return t.TIMESTAMP
        case s.StructType() if type.fields:
            fields = tuple(type_information(f.dataType, f"{where}.{f.name}") for f in type.fields)
            return t.RowType(fields, tuple(type.names))
    basic = _DECLARED.get(type.__class__)
    if basic is None:
        raise InvalidProgramError(f"{where} is {type.simpleString()}, which state cannot have: cast it to another type")
    return basic


def arrow_type_of(type: Any) -> pa.DataType:
    """The Arrow type in which Spark hands a column of its type out, and takes one."""
    return to_arrow_type(type, timezone="UTC")


def common_type(one: pa.DataType, other: pa.DataType, type: t.TypeInformation) -> pa.DataType:
    """The stored type that columns of one declared type from two files can have in common: only times differ."""
    import pyarrow as pa

    if is_time(type):
        if pa.types.is_null(one) or one == other:
            return other
        if pa.types.is_null(other):
            return one
        moments = all(pa.types.is_timestamp(kind) and kind.tz is not None for kind in (one, other))
        return pa.timestamp("us", "UTC") if moments else zoned_type()
    match type:
        case t.ListType(element):
            return pa.list_(common_type(one.value_type, other.value_type, element))
        case t.MapType(key, value):
            keys = common_type(one.key_type, other.key_type, key)
            return pa.map_(keys, common_type(one.item_type, other.item_type, value))
    names, types = type.field_names(), field_types(type)
    if names is None or types is None:
        return one
    pairs = zip(names, types, strict=True)
    return pa.struct(
        [(name, common_type(one.field(name).type, other.field(name).type, inner)) for name, inner in pairs]
    )
