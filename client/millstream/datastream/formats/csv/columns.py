"""The values of CSV columns: from text and to text, by their declared types. Pure."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

from millstream.core.errors import InvalidProgramError
from millstream.core.records.exact_values import InexactError, narrowed
from millstream.core.records.types import (
    BIG_DEC,
    BIG_INT,
    BOOLEAN,
    BYTE,
    BYTES,
    DATE,
    DOUBLE,
    FLOAT,
    INSTANT,
    INT,
    LONG,
    SHORT,
    TIME,
    TIMESTAMP,
    BasicType,
    ListType,
    RowType,
    TupleType,
    TypeInformation,
)
from millstream.core.row import Row
from millstream.datastream.formats.csv.dialect import CsvError, Dialect
from millstream.datastream.formats.csv.numbers import double_text, float_text

_BITS = {BYTE: 8, SHORT: 16, INT: 32, LONG: 64}
_BOOLEANS = {"true": True, "false": False}
Parse = Callable[[str], Any]
Format = Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class Column:
    """A column; `separator` stands between the elements of a list, or the fields of a row in it."""

    name: str
    type: TypeInformation
    separator: str = ""


def parser(column: Column) -> Parse:
    """What makes a value of text that is not None. Raises a CsvError for text that is none."""
    match column.type:
        case ListType(element):
            each, between = _plain_parser(element, column.name), column.separator
            if not between:
                return lambda text: [each(text)] if text else []
            return lambda text: [each(item) for item in text.split(between)] if text else []
        case RowType(fields) | TupleType(fields):
            parsers = [_plain_parser(field, column.name) for field in fields]
            make = _row_maker(column.type)
            return lambda text: make(_fields(text, parsers, column.separator))
    return _plain_parser(column.type, column.name)


def _row_maker(kind: RowType | TupleType) -> Callable[[list[Any]], Any]:
    if isinstance(kind, TupleType):
        return tuple
    names = kind.row_names
    return lambda values: Row.of_names(names, values)


def _fields(text: str, parsers: list[Parse], separator: str) -> list[Any]:
    parts = text.split(separator) if separator else [text]
    if len(parts) != len(parsers):
        raise CsvError(f"{text!r:.100} has {len(parts)} parts, expected {len(parsers)}")
    return [parse(part) for parse, part in zip(parsers, parts, strict=True)]


def _plain_parser(kind: TypeInformation, name: str) -> Parse:
    if not isinstance(kind, BasicType):
        raise InvalidProgramError(f"column '{name}': CSV has no {kind.describe()}; map it to plain values first")
    if kind.python_type is str:
        return str
    convert = _parsing(kind)

    def parse(text: str) -> Any:
        try:
            return convert(text)
        except (ValueError, KeyError, InvalidOperation, OverflowError) as error:
            raise CsvError(f"{text!r:.100} is no {kind.describe()}") from error

    return parse


def _parsing(kind: BasicType) -> Parse:
    if kind in _BITS:
        limit = 1 << (_BITS[kind] - 1)
        return lambda text: _within(int(text), limit)
    if kind == BOOLEAN:
        return lambda text: _BOOLEANS[text.strip().lower()]
    if kind == BYTES:
        return lambda text: base64.b64decode(text, validate=True)
    found: dict[BasicType, Parse] = {
        BIG_INT: int, BIG_DEC: Decimal, DOUBLE: float, DATE: date.fromisoformat, TIME: time.fromisoformat,
        TIMESTAMP: datetime.fromisoformat, INSTANT: datetime.fromisoformat, FLOAT: lambda text: narrowed(float(text)),
    }  # fmt: skip
    return found[kind]


def _within(number: int, limit: int) -> int:
    if not -limit <= number < limit:
        raise OverflowError
    return number


def formatter(column: Column, dialect: Dialect) -> Format:
    """What makes the text of a value that is not None. Raises a CsvError for one that is not of the column's type."""
    match column.type:
        case ListType(element):
            kinds: Callable[[Any], list[TypeInformation]] = lambda value: [element] * len(value)  # noqa: E731
        case RowType(fields) | TupleType(fields):
            kinds = lambda value: list(fields)  # noqa: E731
        case BasicType() as kind if kind.python_type is str:
            return lambda value: dialect.text(_plain_text(value, kind))
        case BasicType() as kind:
            return lambda value: dialect.bare(_plain_text(value, kind))
        case other:
            raise InvalidProgramError(f"column '{column.name}': CSV has no {other.describe()}; map it to plain values")
    return lambda value: dialect.text(_joined(list(value), kinds(value), column.separator))


def _joined(values: list[Any], kinds: list[TypeInformation], separator: str) -> str:
    if len(values) != len(kinds):
        raise CsvError(f"{len(values)} fields, expected {len(kinds)}")
    texts = [_plain_text(value, kind) for value, kind in zip(values, kinds, strict=True)]
    if any(separator in text for text in texts) if separator else len(texts) > 1:
        raise CsvError(f"an element of {values!r:.100} has the separator {separator!r} in it, or there is none")
    if texts == [""]:
        raise CsvError("a list of nothing but empty text would be read as an empty list")
    return separator.join(texts)


def _single(value: float) -> float:
    try:
        return narrowed(value)
    except InexactError as error:
        raise CsvError(str(error)) from None


def _plain_text(value: Any, kind: TypeInformation) -> str:
    assert isinstance(kind, BasicType), "the parser has refused all others"
    is_whole = value.__class__ is int
    if kind in _BITS or kind == BIG_INT:
        limit = 1 << (_BITS.get(kind, 1 << 20) - 1)
        if is_whole and -limit <= value < limit:
            return str(value)
    elif kind in (FLOAT, DOUBLE):
        if is_whole or value.__class__ is float:
            return double_text(float(value)) if kind == DOUBLE else float_text(_single(value))
    elif kind == BOOLEAN:
        if value.__class__ is bool:
            return "true" if value else "false"
    elif isinstance(value, bytes | bytearray):
        if kind == BYTES:
            return base64.b64encode(value).decode()
    elif isinstance(value, datetime):
        if kind in (TIMESTAMP, INSTANT):
            return value.isoformat(" " if value.tzinfo is None else "T")
    elif isinstance(value, kind.python_type):
        return value.isoformat() if isinstance(value, date | time) else str(value)
    raise CsvError(f"{value!r:.100} is no {kind.describe()}")
