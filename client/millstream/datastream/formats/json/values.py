"""Between values of declared types and what JSON has: rows are objects, and times without a zone are in UTC."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from millstream.core.records.types import TIMESTAMP, BasicType, ListType, MapType, RowType, TupleType, TypeInformation
from millstream.core.row import Row, names_of

Convert = Callable[[Any], Any]


def written(type_info: TypeInformation) -> Convert | None:
    """What makes a value one that is written as JSON has it; None for types whose values are such already."""
    match type_info:
        case RowType(fields):
            names = type_info.field_names() or []
            inner = [written(field) or _same for field in fields]
            return lambda value: _object(value, names, inner)
        case TupleType(fields):
            parts = [written(field) or _same for field in fields]
            return lambda value: [part(item) for part, item in zip(parts, value, strict=True)]
        case ListType(element):
            each = _or_none(written(element))
            return None if each is None else lambda value: [each(item) for item in value]
        case MapType(_, item_type):
            item = _or_none(written(item_type))
            return None if item is None else lambda value: {key: item(entry) for key, entry in value.items()}
        case BasicType(_, python_type) if python_type is float:
            return _finite
    return _with_zone if type_info == TIMESTAMP else None


def read(type_info: TypeInformation) -> Convert | None:
    """What makes a decoded value one of its type: of a time with a zone one without, in UTC. None: nothing is to do."""
    match type_info:
        case RowType(fields):
            inner = [_or_none(read(field)) for field in fields]
            if not any(inner):
                return None
            return lambda row: Row.of_names(
                names_of(row), [v if convert is None else convert(v) for v, convert in zip(row, inner, strict=True)]
            )
        case ListType(element):
            each = _or_none(read(element))
            return None if each is None else lambda value: [each(item) for item in value]
        case MapType(_, item_type):
            item = _or_none(read(item_type))
            return None if item is None else lambda value: {key: item(entry) for key, entry in value.items()}
    return _without_zone if type_info == TIMESTAMP else None


def _object(value: Any, names: list[str], inner: list[Convert]) -> dict[str, Any]:
    if isinstance(value, Row) and names_of(value) is not None:
        value = value.as_dict()
    if isinstance(value, dict):
        if unknown := [str(name) for name in value if name not in names]:
            raise ValueError(f"the declared type has no field {', '.join(unknown)}")
        value = [value.get(name) for name in names]
    if len(value) != len(names):
        raise ValueError(f"{len(value)} fields, and the declared type has {len(names)}")
    return {n: None if v is None else convert(v) for n, v, convert in zip(names, value, inner, strict=True)}


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is no number of JSON")
    return value


def _with_zone(value: Any) -> Any:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value


def _without_zone(value: Any) -> Any:
    return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)


def _or_none(convert: Convert | None) -> Convert | None:
    return None if convert is None else lambda value: None if value is None else convert(value)


def _same(value: Any) -> Any:
    return value
