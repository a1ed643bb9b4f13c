"""What a declared type makes of the values that get it. Nearly all types make nothing of them.

Two types do, as PyFlink's do: `Types.FLOAT()` is single precision, and a `Row` that was declared with names has these
names, in their order. It happens where a value gets its type, when an operator emits it or a state takes it, so it does
not depend on where the next operator runs or on a restore. What is not of its declared type stays as it is.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from millstream.core.records.exact_values import narrowed
from millstream.core.records.types import FLOAT, DataclassType, ListType, MapType, RowType, TupleType, TypeInformation
from millstream.core.row import Row

Adopt = Callable[[Any], Any]


def adopter(type: TypeInformation) -> Adopt | None:
    """What makes a value one of its declared type; None for types that leave all values alone."""
    return _adopter(type, ())


def _adopter(type: TypeInformation, inside: tuple[type, ...]) -> Adopt | None:
    match type:
        case TupleType(fields):
            return _tuples([_adopter(f, inside) for f in fields])
        case RowType(fields, names):
            return _rows([_adopter(f, inside) for f in fields], names)
        case ListType(element):
            inner = _adopter(element, inside)
            return None if inner is None else lambda v: list(map(inner, v)) if v.__class__ is list else v
        case MapType(key, value):
            return _maps(_adopter(key, inside), _adopter(value, inside))
        case DataclassType(cls) if cls not in inside:
            return _instances(cls, _field_adopters(type, (*inside, cls)))
    return _single if type == FLOAT else None


def _single(value: Any) -> Any:
    if value.__class__ is float:
        return narrowed(value)
    if value.__class__.__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    return narrowed(float(value)) if value.__class__ in (int, float) else value


def _each(values: Sequence[Any], adopters: list[Adopt | None]) -> list[Any]:
    return [v if adopt is None else adopt(v) for v, adopt in zip(values, adopters, strict=True)]


def _tuples(fields: list[Adopt | None]) -> Adopt | None:
    if not any(fields):
        return None
    return lambda v: tuple(_each(v, fields)) if v.__class__ is tuple and len(v) == len(fields) else v


def _rows(fields: list[Adopt | None], names: tuple[str, ...] | None) -> Adopt | None:
    if not any(fields) and names is None:
        return None
    changes = any(fields)

    def adopt(row: Any) -> Any:
        if row.__class__ is not Row or len(row) != len(fields):
            return row
        own = row.names
        if own == names:
            return Row.of_names(names, _each(row.values, fields)) if changes else row
        if names is None or own is None:
            return Row.of_names(own if names is None else names, _each(row.values, fields))
        if set(own) != set(names):
            return row
        return Row.of_names(names, _each([row[name] for name in names], fields))

    return adopt


def _maps(key: Adopt | None, value: Adopt | None) -> Adopt | None:
    if key is None and value is None:
        return None

    def adopt(entries: Any) -> Any:
        if entries.__class__ is not dict:
            return entries
        keys = entries if key is None else map(key, entries)
        values = entries.values() if value is None else map(value, entries.values())
        return dict(zip(keys, values, strict=True))

    return adopt


def _field_adopters(type: DataclassType, inside: tuple[type, ...]) -> dict[str, Adopt]:
    try:
        kinds = zip(type.field_names() or [], type.field_types(), strict=True)
    except (NameError, AttributeError, TypeError):  # annotations that do not resolve
        return {}
    found = ((name, _adopter(kind, inside)) for name, kind in kinds)
    return {name: adopt for name, adopt in found if adopt is not None}


def _instances(cls: type, fields: dict[str, Adopt]) -> Adopt | None:
    if not fields:
        return None

    def adopt(instance: Any) -> Any:
        if not isinstance(instance, cls):
            return instance
        adopted = copy.copy(instance)
        for name, of_field in fields.items():
            if hasattr(instance, name):
                object.__setattr__(adopted, name, of_field(getattr(instance, name)))
        return adopted

    return adopt
