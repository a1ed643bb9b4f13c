"""The text format of records, for `print` and line-based files.

A record of a declared type is written as Flink writes it, whose sinks get Java's objects: `(ann,3)`, `+I[1, a]`,
`true`, `null`, `1.0E7`. One of no declared type is written by `str`, as PyFlink does, and so is a value that is not
what was declared.
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable, Sequence
from typing import Any

from millstream.core.records.instant import Instant
from millstream.core.records.types import (
    BIG_DEC,
    BOOLEAN,
    BYTES,
    DOUBLE,
    FLOAT,
    INSTANT,
    STRING,
    TIMESTAMP,
    BasicType,
    ListType,
    MapType,
    RowType,
    TupleType,
    TypeInformation,
)
from millstream.core.row import Row, kind_of, names_of

Write = Callable[[Any], str]

_PLAIN_FROM, _PLAIN_BELOW = 1e-3, 1e7
_DIGITS_OF_A_FLOAT = 9  # with so many no two are the same


def text_of(kind: TypeInformation) -> Write:
    """Returns the formatter of records of this type for lines of a file."""
    return str if kind in (STRING, BYTES) else _writer(kind)


def printed(kind: TypeInformation) -> Write:
    """Returns the formatter of records of this type for `print`: fields of rows are written by `str`, as in PyFlink."""
    return _printed_row if isinstance(kind, RowType) else text_of(kind)


def as_printed(records: list[Any]) -> list[Any]:
    """Records of no declared type for a sink that writes text: rows that have names were of one, and look like it."""
    if Row not in set(map(type, records)):
        return records
    return [_undeclared(r) if r.__class__ is Row and names_of(r) is not None else r for r in records]


def _undeclared(value: Any) -> str:
    if isinstance(value, Row):
        return f"{kind_of(value)}[{', '.join(map(_undeclared, value))}]"
    return "null" if value is None else _boolean(value)


def _printed_row(row: Any) -> str:
    return f"{kind_of(row)}[{','.join(map(str, row))}]" if isinstance(row, Row) else str(row)


def _writer(kind: TypeInformation) -> Write:
    match kind:
        case BasicType():
            return _or_null(_BASIC.get(kind, str))
        case TupleType(fields):
            return _or_null(_of_tuple([_writer(field) for field in fields]))
        case RowType(fields):
            return _or_null(_of_row([_writer(field) for field in fields]))
        case ListType(element):
            return _or_null(_of_list(_writer(element)))
        case MapType(key, value):
            return _or_null(_of_map(_writer(key), _writer(value)))
        case _:
            return str


def _or_null(write: Write) -> Write:
    return lambda value: "null" if value is None else write(value)


def _of_tuple(writers: Sequence[Write]) -> Write:
    def write(value: Any) -> str:
        if not isinstance(value, tuple | list | Row) or len(value) != len(writers):
            return str(value)
        return f"({','.join([write(field) for write, field in zip(writers, value, strict=True)])})"

    return write


def _of_row(writers: Sequence[Write]) -> Write:
    def write(value: Any) -> str:
        if not isinstance(value, Row) or len(value) != len(writers):
            return str(value)
        return f"{kind_of(value)}[{', '.join([write(field) for write, field in zip(writers, value, strict=True)])}]"

    return write


def _of_list(write: Write) -> Write:
    return lambda value: f"[{', '.join(map(write, value))}]" if isinstance(value, list | tuple) else str(value)


def _of_map(key: Write, value: Write) -> Write:
    def write(mapping: Any) -> str:
        if not isinstance(mapping, dict):
            return str(mapping)
        return f"{{{', '.join([f'{key(k)}={value(v)}' for k, v in mapping.items()])}}}"

    return write


def _boolean(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _double(value: Any) -> str:
    return _number(float(value), repr(float(value))) if isinstance(value, float | int) else str(value)


def _float(value: Any) -> str:
    """Returns the fewest digits that identify this number in single precision."""
    if not isinstance(value, float | int):
        return str(value)
    try:
        single = struct.pack("f", value)
    except OverflowError:
        return _double(value)
    texts = (f"{value:.{digits}g}" for digits in range(1, _DIGITS_OF_A_FLOAT + 1))
    return _number(value, next((text for text in texts if struct.pack("f", float(text)) == single), repr(value)))


def _number(value: float, digits: str) -> str:
    """Formats a number with these digits as Java does."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    sign, fraction, exponent = _parts(digits)
    if value and not _PLAIN_FROM <= abs(value) < _PLAIN_BELOW:
        return f"{sign}{fraction[0]}.{fraction[1:] or '0'}E{exponent}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{fraction}"
    whole = fraction[: exponent + 1].ljust(exponent + 1, "0")
    return f"{sign}{whole}.{fraction[exponent + 1 :] or '0'}"


def _parts(digits: str) -> tuple[str, str, int]:
    """The sign, the digits without zeros around them, and the exponent of ten of the first digit."""
    mantissa, _, power = digits.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    significant = (whole + fraction).lstrip("0")
    exponent = int(power or 0) + len(whole) - 1 - (len(whole + fraction) - len(significant))
    kept = significant.rstrip("0")
    return "-" if digits.startswith("-") else "", kept or "0", exponent if kept else 0


def _bytes(value: Any) -> str:
    """Formats bytes as Java formats an array of signed bytes."""
    return f"[{', '.join([str(b - 256 if b > 127 else b) for b in value])}]" if isinstance(value, bytes) else str(value)


def _timestamp(value: Any) -> str:
    if not isinstance(value, datetime.datetime):
        return str(value)
    fraction = f"{value.microsecond:06}".rstrip("0") or "0"
    return f"{value.replace(microsecond=0, tzinfo=None).isoformat(' ')}.{fraction}"


def _instant(value: Any) -> str:
    """A `datetime`, or an `Instant`, which knows its milliseconds."""
    if isinstance(value, Instant):
        value = Instant.of_epoch_milli(value.to_epoch_milli()).to_datetime()
    if not isinstance(value, datetime.datetime):
        return str(value)
    thousandths, rest = divmod(value.microsecond, 1000)
    fraction = f".{value.microsecond:06}" if rest else f".{thousandths:03}" if thousandths else ""
    return f"{value.replace(microsecond=0, tzinfo=None).isoformat()}{fraction}Z"


_BASIC: dict[TypeInformation, Write] = {
    BOOLEAN: _boolean,
    FLOAT: _float,
    DOUBLE: _double,
    BIG_DEC: str,
    BYTES: _bytes,
    TIMESTAMP: _timestamp,
    INSTANT: _instant,
}
