"""Parses keys of a snapshot from text: plain text for a primitive, JSON for composite keys."""

from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Callable
from typing import Any

from millstream.core.errors import MillstreamError
from millstream.core.records import types as t
from millstream.core.row import Row
from millstream.core.snapshot.metadata.model import TypeJson
from millstream.core.snapshot.metadata.types_json import describe_json, type_from_json


class KeyLiteralError(MillstreamError):
    """The text is not a key of the state's type."""


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


def _decimal(text: str) -> decimal.Decimal:
    try:
        return decimal.Decimal(text)
    except decimal.InvalidOperation as error:
        raise ValueError(text) from error


_PARSERS: dict[type, tuple[Callable[[str], Any], str]] = {
    str: (str, "text"),
    bool: (_boolean, "true or false"),
    int: (int, "a whole number"),
    float: (float, "a number"),
    bytes: (bytes.fromhex, "hexadecimal digits"),
    decimal.Decimal: (_decimal, "a decimal number"),
    datetime.datetime: (datetime.datetime.fromisoformat, "a time such as 2026-01-31T12:00:00"),
    datetime.date: (datetime.date.fromisoformat, "a date such as 2026-01-31"),
    datetime.time: (datetime.time.fromisoformat, "a time of day such as 12:00:00"),
}


def keys_from_text(text: str, document: TypeJson) -> list[Any]:
    """Returns the keys that the text may represent: one, except for pickled keys, whose type is unknown."""
    kind = type_from_json(document)
    if isinstance(kind, t.BasicType):
        return [_parsed(text, kind)]
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        if kind == t.PICKLED:
            return [text]
        raise KeyLiteralError(f"the keys are {describe_json(document)}: write one as JSON, not {text!r:.100}") from None
    if kind == t.PICKLED:
        meant = _untyped(value)
        return [meant] if meant == text else [meant, text]
    try:
        return [_from_json(value, kind)]
    except KeyLiteralError as error:
        raise KeyLiteralError(f"the keys are {describe_json(document)}: {error}") from None


def _parsed(text: str, kind: t.BasicType) -> Any:
    parse, wanted = _PARSERS[kind.python_type]
    try:
        return parse(text)
    except ValueError:
        raise KeyLiteralError(f"{text!r:.100} is not a {kind.describe()}: write {wanted}") from None


def _from_json(value: Any, kind: t.TypeInformation) -> Any:
    match kind:
        case t.TupleType(fields):
            return tuple(_fields(value, fields, None))
        case t.RowType(fields):
            return Row.of_names(kind.row_names, _fields(value, fields, kind.row_names))
        case t.BasicType():
            return _basic(value, kind)
        case t.PickledType():
            return _untyped(value)
    raise KeyLiteralError(f"a {kind.describe()} cannot be written as a key")


def _fields(value: Any, kinds: tuple[t.TypeInformation, ...], names: tuple[str, ...] | None) -> list[Any]:
    if isinstance(value, dict) and names is not None and value.keys() == set(names):
        value = [value[name] for name in names]
    if not isinstance(value, list) or len(value) != len(kinds):
        either = f" or an object of {', '.join(names)}" if names is not None else ""
        raise KeyLiteralError(f"{json.dumps(value):.100} must be a list of {len(kinds)}{either}")
    return [_from_json(item, kind) for item, kind in zip(value, kinds, strict=True)]


def _basic(value: Any, kind: t.BasicType) -> Any:
    if value is None:
        return None
    if kind.python_type in (bool, int, float):
        fits = isinstance(value, bool) if kind.python_type is bool else isinstance(value, int | float)
        if fits and kind.python_type(value) == value:
            return kind.python_type(value)
        raise KeyLiteralError(f"{json.dumps(value):.100} is not a {kind.describe()}")
    return _parsed(value if isinstance(value, str) else json.dumps(value), kind)


def _untyped(value: Any) -> Any:
    return tuple(map(_untyped, value)) if isinstance(value, list) else value
