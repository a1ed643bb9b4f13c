"""Logical types and schemas: what a value may be, as SQL says it, apart from how it is encoded.

`TypeInformation` says which Python class a record is and how it travels; a logical type says which values a column
may have: the digits of a decimal, the length of a text, the precision of a timestamp, and whether it may be NULL.
"""

from __future__ import annotations

from millstream.core.records.schema.arrow_fields import (
    from_arrow_field,
    from_arrow_schema,
    to_arrow_field,
    to_arrow_schema,
)
from millstream.core.records.schema.arrow_types import to_arrow_type
from millstream.core.records.schema.atomic_types import (
    BigIntType,
    BinaryType,
    BooleanType,
    CharType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    LocalZonedTimestampType,
    NullType,
    SmallIntType,
    TimestampType,
    TimeType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
    ZonedTimestampType,
)
from millstream.core.records.schema.errors import InvalidTypeError, TypeSyntaxError
from millstream.core.records.schema.from_arrow import from_arrow_type
from millstream.core.records.schema.from_python import from_type_information, logical_type_of, schema_of
from millstream.core.records.schema.interval_types import (
    DayTimeIntervalType,
    DayTimeResolution,
    YearMonthIntervalType,
    YearMonthResolution,
)
from millstream.core.records.schema.logical_type import BYTES, STRING, LogicalType
from millstream.core.records.schema.nested_types import ArrayOf, Field, MapOf, MultisetOf, RawType, RowOf, pickled
from millstream.core.records.schema.parsing import parse_type
from millstream.core.records.schema.schema import Schema
from millstream.core.records.schema.to_type_information import to_type_information
from millstream.core.records.schema.writing import serializable_string, summary_string

__all__ = [
    "BYTES",
    "STRING",
    "ArrayOf",
    "BigIntType",
    "BinaryType",
    "BooleanType",
    "CharType",
    "DateType",
    "DayTimeIntervalType",
    "DayTimeResolution",
    "DecimalType",
    "DoubleType",
    "Field",
    "FloatType",
    "IntType",
    "InvalidTypeError",
    "LocalZonedTimestampType",
    "LogicalType",
    "MapOf",
    "MultisetOf",
    "NullType",
    "RawType",
    "RowOf",
    "Schema",
    "SmallIntType",
    "TimeType",
    "TimestampType",
    "TinyIntType",
    "TypeSyntaxError",
    "VarBinaryType",
    "VarCharType",
    "YearMonthIntervalType",
    "YearMonthResolution",
    "ZonedTimestampType",
    "from_arrow_field",
    "from_arrow_schema",
    "from_arrow_type",
    "from_type_information",
    "logical_type_of",
    "parse_type",
    "pickled",
    "schema_of",
    "serializable_string",
    "summary_string",
    "to_arrow_field",
    "to_arrow_schema",
    "to_arrow_type",
    "to_type_information",
]
