"""Types from words: the grammar of Flink's `LogicalTypeParser`, with all its synonyms.

    type     = kind [ NULL | NOT NULL ] [ (ARRAY | MULTISET) [ NULL | NOT NULL ] ]
    kind     = INT | DECIMAL [ (p [, s]) ] | ARRAY < type > | MAP < type , type > | ROW < fields > | …
    fields   = [ name type [ 'description' ] { , name type [ 'description' ] } ]

A type without NOT NULL allows NULL. What comes with a class of the JVM is refused by name, except for `RAW`, whose
class is only a name here; so are types that a catalog would have to know.
"""

from __future__ import annotations

from collections.abc import Callable

from millstream.core.records.schema import atomic_types as a
from millstream.core.records.schema.interval_parsing import parse_interval
from millstream.core.records.schema.logical_type import BYTES, STRING, LogicalType
from millstream.core.records.schema.nested_types import ArrayOf, Field, MapOf, MultisetOf, RawType, RowOf
from millstream.core.records.schema.token_reader import TokenReader
from millstream.core.records.schema.tokens import Token, TokenKind

_DEEPEST = 50  # levels, as of the types in a snapshot: what works with types takes several calls for each

_WITHOUT_PARAMETERS: dict[str, LogicalType] = {
    "STRING": STRING, "BOOLEAN": a.BooleanType(), "BYTES": BYTES, "TINYINT": a.TinyIntType(),
    "SMALLINT": a.SmallIntType(), "INT": a.IntType(), "INTEGER": a.IntType(), "BIGINT": a.BigIntType(),
    "FLOAT": a.FloatType(), "DOUBLE": a.DoubleType(), "DATE": a.DateType(), "NULL": a.NullType(),
}  # fmt: skip
_WITH_LENGTH: dict[str, Callable[..., LogicalType]] = {
    "CHAR": a.CharType, "VARCHAR": a.VarCharType, "BINARY": a.BinaryType, "VARBINARY": a.VarBinaryType,
}  # fmt: skip
_ELSEWHERE = ("LEGACY", "DESCRIPTOR", "STRUCTURED", "VARIANT", "BITMAP")  # Flink has these


def parse_type(text: str) -> LogicalType:
    """Returns the type that the text names; raises `TypeSyntaxError` if it names none."""
    reader = TokenReader(text)
    type = _type(reader, 1)
    if reader.next.kind is not TokenKind.END:
        raise reader.error(f"Unexpected token: {reader.next}")
    return type


def _type(reader: TokenReader, level: int) -> LogicalType:
    start = reader.next
    if level > _DEEPEST:
        raise reader.error(f"The type is nested more than {_DEEPEST} levels deep")
    type = _nullability(reader, _kind(reader, level), start)
    suffix = reader.next
    if reader.skips("ARRAY"):
        return _nullability(reader, ArrayOf(type), suffix)
    if reader.skips("MULTISET"):
        return _nullability(reader, MultisetOf(type), suffix)
    return type


def _nullability(reader: TokenReader, type: LogicalType, start: Token) -> LogicalType:
    if reader.skips("NOT", "NULL"):
        with reader.at(start):
            return type.not_null()
    reader.skips("NULL")
    return type


def _kind(reader: TokenReader, level: int) -> LogicalType:
    start = reader.next
    if start.kind is TokenKind.NAME:
        raise reader.error(f"The type {start} is not known. Types of catalogs are not supported")
    keyword = reader.take(TokenKind.KEYWORD, "a type").value
    with reader.at(start):
        match keyword:
            case "DECIMAL" | "NUMERIC" | "DEC":
                return a.DecimalType(*reader.integers(2))
            case "DOUBLE":
                reader.skips("PRECISION")
            case "TIME":
                precision = reader.integers(1)
                reader.skips_if_first("WITHOUT", "TIME", "ZONE")
                return a.TimeType(*precision)
            case "TIMESTAMP":
                return _timestamp(reader)
            case "TIMESTAMP_LTZ":
                return a.LocalZonedTimestampType(*reader.integers(1))
            case "INTERVAL":
                return parse_interval(reader)
            case "ARRAY":
                return ArrayOf(*_parameters(reader, 1, level))
            case "MULTISET":
                return MultisetOf(*_parameters(reader, 1, level))
            case "MAP":
                return MapOf(*_parameters(reader, 2, level))
            case "ROW":
                return RowOf(_fields(reader, level))
            case "RAW":
                return _raw(reader)
        if keyword in _WITH_LENGTH:
            return _WITH_LENGTH[keyword](*reader.integers(1))
        if keyword in _WITHOUT_PARAMETERS:
            return _WITHOUT_PARAMETERS[keyword]
    reason = "is a type of Flink's that is not supported" if keyword in _ELSEWHERE else "is not a type"
    raise reader.error(f"Unsupported type: '{keyword}' {reason}", start)


def _timestamp(reader: TokenReader) -> LogicalType:
    precision = reader.integers(1)
    if reader.skips_if_first("WITHOUT", "TIME", "ZONE"):
        return a.TimestampType(*precision)
    if not reader.skips("WITH"):
        return a.TimestampType(*precision)
    local = reader.skips("LOCAL")
    reader.expect("TIME")
    reader.expect("ZONE")
    return a.LocalZonedTimestampType(*precision) if local else a.ZonedTimestampType(*precision)


def _parameters(reader: TokenReader, count: int, level: int) -> list[LogicalType]:
    reader.expect_mark("<")
    types = [_type(reader, level + 1)]
    while len(types) < count:
        reader.expect_mark(",")
        types.append(_type(reader, level + 1))
    reader.expect_mark(">")
    return types


def _fields(reader: TokenReader, level: int) -> tuple[Field, ...]:
    end = ")" if reader.skips_mark("(") else ">"
    if end == ">":
        reader.expect_mark("<")
    fields: list[Field] = []
    while not reader.skips_mark(end):
        if fields:
            reader.expect_mark(",")
        name = reader.take(TokenKind.NAME)
        type = _type(reader, level + 1)
        described = reader.next.kind is TokenKind.TEXT
        with reader.at(name):
            fields.append(Field(name.value, type, None, reader.take(TokenKind.TEXT).value if described else None))
    return tuple(fields)


def _raw(reader: TokenReader) -> RawType:
    reader.expect_mark("(")
    class_name = reader.take(TokenKind.TEXT).value
    reader.expect_mark(",")
    serializer = reader.take(TokenKind.TEXT).value
    reader.expect_mark(")")
    return RawType(class_name, serializer)
