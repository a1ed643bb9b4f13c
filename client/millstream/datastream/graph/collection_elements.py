"""The elements of `from_collection`, made to fit the type declared for them, or refused with the element at fault."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millstream.common.time import Instant
from millstream.core.errors import InvalidProgramError
from millstream.core.records.types import (
    INSTANT,
    BasicType,
    DataclassType,
    ListType,
    MapType,
    PickledType,
    RowType,
    TupleType,
    TypeInformation,
)
from millstream.core.row import Row, RowKind


def conformed(elements: list[Any], declared: TypeInformation) -> list[Any]:
    """The elements as the declared type has them: rows from tuples and dicts, tuples from lists, floats from ints."""
    if isinstance(declared, PickledType):
        return elements
    result = []
    for index, element in enumerate(elements):
        try:
            result.append(_conform(element, declared))
        except _MisfitError as misfit:
            raise InvalidProgramError(
                f"from_collection: element {index}, {element!r:.100}, is not a {declared.describe()}: {misfit}"
            ) from None
    return result


class _MisfitError(Exception):
    """A value is not of its type."""


def _conform(value: Any, declared: TypeInformation) -> Any:
    if value is None or isinstance(declared, PickledType):
        return value
    match declared:
        case BasicType():
            return _basic(value, declared)
        case RowType():
            return _row(value, declared)
        case TupleType():
            if not isinstance(value, tuple | list):
                raise _misfit(value, declared)
            return tuple(_fields(value, declared.fields))
        case ListType():
            if not isinstance(value, list | tuple):
                raise _misfit(value, declared)
            return [_conform(item, declared.element) for item in value]
        case MapType():
            if not isinstance(value, Mapping):
                raise _misfit(value, declared)
            return {_conform(k, declared.key): _conform(v, declared.value) for k, v in value.items()}
        case DataclassType():
            if not isinstance(value, declared.cls):
                raise _misfit(value, declared)
            return value
        case _:
            return value


def _basic(value: Any, declared: BasicType) -> Any:
    if isinstance(value, declared.python_type) or (declared == INSTANT and isinstance(value, Instant)):
        return value
    if declared.python_type is float and isinstance(value, int):
        return float(value)
    raise _misfit(value, declared)


def _row(value: Any, declared: RowType) -> Row:
    names, kind = declared.row_names, RowKind.INSERT
    if isinstance(value, Mapping):
        if set(value) != set(names):
            raise _misfit(value, declared)
        value = [value[name] for name in names]
    elif isinstance(value, Row):
        own, kind = value.get_fields_names(), value.get_row_kind()
        if own is not None and set(own) == set(names):
            value = value.get_fields_by_names(names)
    elif not isinstance(value, tuple | list):
        raise _misfit(value, declared)
    row = Row.of_names(names, _fields(value, declared.fields))
    if kind is not RowKind.INSERT:
        row.set_row_kind(kind)
    return row


def _fields(value: Any, types: tuple[TypeInformation, ...]) -> list[Any]:
    if len(value) != len(types):
        raise _MisfitError(f"it has {len(value)} fields, not {len(types)}")
    return [_conform(item, kind) for item, kind in zip(value, types, strict=True)]


def _misfit(value: Any, declared: TypeInformation) -> _MisfitError:
    return _MisfitError(f"{value!r:.100} is of type {type(value).__qualname__}, not {declared.describe()}")
