"""Types in words, as Flink writes them.

`serializable_string` is exact and is read again by `parse_type`; `summary_string` is for people: STRING and BYTES,
TIMESTAMP_LTZ, and neither descriptions nor serializers in full.
"""

from __future__ import annotations

from millstream.core.records.schema import atomic_types as a
from millstream.core.records.schema.interval_types import DayTimeIntervalType, YearMonthIntervalType
from millstream.core.records.schema.lexical import quoted_name, quoted_text
from millstream.core.records.schema.logical_type import BYTES, STRING, LogicalType
from millstream.core.records.schema.nested_types import ArrayOf, Field, MapOf, MultisetOf, RawType, RowOf

_ATOMIC: dict[type[LogicalType], str] = {
    a.BooleanType: "BOOLEAN",
    a.TinyIntType: "TINYINT",
    a.SmallIntType: "SMALLINT",
    a.IntType: "INT",
    a.BigIntType: "BIGINT",
    a.FloatType: "FLOAT",
    a.DoubleType: "DOUBLE",
    a.DecimalType: "DECIMAL({0.precision}, {0.scale})",
    a.CharType: "CHAR({0.length})",
    a.VarCharType: "VARCHAR({0.length})",
    a.BinaryType: "BINARY({0.length})",
    a.VarBinaryType: "VARBINARY({0.length})",
    a.DateType: "DATE",
    a.TimeType: "TIME({0.precision})",
    a.TimestampType: "TIMESTAMP({0.precision})",
    a.ZonedTimestampType: "TIMESTAMP({0.precision}) WITH TIME ZONE",
    a.LocalZonedTimestampType: "TIMESTAMP({0.precision}) WITH LOCAL TIME ZONE",
    a.NullType: "NULL",
}


def serializable_string(type: LogicalType) -> str:
    """Returns the type as Flink's `asSerializableString` does."""
    return _written(type, summary=False)


def summary_string(type: LogicalType) -> str:
    """Returns the type as Flink's `asSummaryString` does."""
    return _written(type, summary=True)


def _written(type: LogicalType, summary: bool) -> str:
    text = (_shortened(type) if summary else None) or _of_kind(type, summary)
    return text if type.nullable else f"{text} NOT NULL"


def _shortened(type: LogicalType) -> str | None:
    match type:
        case a.VarCharType(length=STRING.length):
            return "STRING"
        case a.VarBinaryType(length=BYTES.length):
            return "BYTES"
        case a.LocalZonedTimestampType(precision=precision):
            return f"TIMESTAMP_LTZ({precision})"
        case RawType(class_name=class_name):
            return f"RAW({quoted_text(class_name)}, '...')"
    return None


def _of_kind(type: LogicalType, summary: bool) -> str:
    match type:
        case ArrayOf(element=element):
            return f"ARRAY<{_written(element, summary)}>"
        case MultisetOf(element=element):
            return f"MULTISET<{_written(element, summary)}>"
        case MapOf(key=key, value=value):
            return f"MAP<{_written(key, summary)}, {_written(value, summary)}>"
        case RowOf(fields=fields):
            return f"ROW<{', '.join(_field(field, summary) for field in fields)}>"
        case RawType(class_name=class_name, serializer=serializer):
            return f"RAW({quoted_text(class_name)}, {quoted_text(serializer)})"
        case YearMonthIntervalType(resolution=resolution, precision=precision):
            return _interval(resolution.value, {"YEAR": precision})
        case DayTimeIntervalType(resolution=resolution, day_precision=days, fraction=fraction):
            return _interval(resolution.value, {"DAY": days, "SECOND": fraction})
    return _ATOMIC[type.__class__].format(type)


def _interval(parts: tuple[str, ...], precisions: dict[str, int]) -> str:
    return "INTERVAL " + " TO ".join(f"{p}({precisions[p]})" if p in precisions else p for p in parts)


def _field(field: Field, summary: bool) -> str:
    text = f"{quoted_name(field.name)} {_written(field.type, summary)}"
    if field.description is None:
        return text
    return f"{text} {quoted_text('...' if summary else field.description)}"
