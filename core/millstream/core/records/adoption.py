"""The conversion of values to their declared type. Nearly all types convert nothing.

Two types do, as in PyFlink: `Types.FLOAT()` is single precision, and a value of a row type is a `Row` with the declared
names, in their order, otherwise f0, f1, ..., also if a function returned a tuple, a list or a dict. Values are
converted when an operator emits them or a state stores them, so the result does not depend on where the next operator
runs or on a restore. A value that is not of its declared type is not changed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from millstream.core.records.exact_values import narrowed
from millstream.core.records.types import FLOAT, DataclassType, ListType, MapType, RowType, TupleType, TypeInformation
from millstream.core.row import Row, RowKind, kind_of, names_of, values_of

Adopt = Callable[[Any], Any]


def adopter(type: TypeInformation) -> Adopt | None:
    """Returns the conversion of values to the type; None for types that convert nothing."""
    return _adopter(type, ())


def _adopter(type: TypeInformation, inside: tuple[type, ...]) -> Adopt | None:
    match type:
        case TupleType(fields):
            return _tuples([_adopter(f, inside) for f in fields])
        case RowType(fields, names):
            return _rows([_adopter(f, inside) for f in fields], type.row_names, names is None)
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


def _rows(fields: list[Adopt | None], names: tuple[str, ...], by_position: bool) -> Adopt:
    width, changes, by_name = len(fields), any(fields), frozenset(names)

    def adopt(value: Any) -> Any:
        given = names
        kind = RowKind.INSERT
        if value.__class__ is Row:
            own, kind, values = names_of(value), kind_of(value), values_of(value)
            if own == names:
                if not changes:
                    return value
            elif own is not None and by_name != frozenset(own):
                if not by_position:
                    return value
                given = own
            elif own is not None:
                values = value.get_fields_by_names(names)
        elif isinstance(value, tuple | list):
            values = value
        elif isinstance(value, dict) and by_name.issuperset(value):
            values = [value.get(name) for name in names]
        else:
            return value
        if len(values) != width:
            return value
        row = Row.of_names(given, _each(values, fields) if changes else values)
        if kind is not RowKind.INSERT:
            row.set_row_kind(kind)
        return row

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
