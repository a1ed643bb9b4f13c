"""Fields of records by position or name: in tuples, rows, dataclasses, dicts, and a plain value as its own field 0."""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from millstream.core.errors import InvalidProgramError
from millstream.core.records.types import BasicType, DataclassType, RowType, TupleType, TypeInformation
from millstream.core.row import Row

Field = int | str

_TUPLE_FIELD = re.compile(r"f(\d+)\Z")


def get_field(record: Any, field: Field) -> Any:
    """The value of a record's field."""
    if isinstance(record, tuple | list):
        return record[_position(record, field)]
    if isinstance(record, Row):
        return record[_row_position(record, field)]
    if isinstance(record, Mapping):
        return record[_mapping_key(record, field)]
    if dataclasses.is_dataclass(record):
        return getattr(record, _attribute(record, field))
    if isinstance(field, str):
        if hasattr(record, field):
            return getattr(record, field)
    elif field == 0:
        return record
    raise _no_field(record, field)


def with_field(record: Any, field: Field, value: Any) -> Any:
    """A copy of the record in which one field has another value."""
    if isinstance(record, tuple):
        position = _position(record, field)
        if hasattr(record, "_replace"):
            return record._replace(**{record._fields[position]: value})  # type: ignore[attr-defined]  # a named tuple
        return (*record[:position], value, *record[position + 1 :])
    if isinstance(record, Row):
        values = list(record)
        values[_row_position(record, field)] = value
        return Row.of_names(record.get_fields_names(), values)
    if isinstance(record, Mapping):
        return {**record, _mapping_key(record, field): value}
    if isinstance(record, list):
        changed = list(record)
        changed[_position(record, field)] = value
        return changed
    if dataclasses.is_dataclass(record) or isinstance(field, str):
        attribute = _attribute(record, field)
        clone = copy.copy(record)
        object.__setattr__(clone, attribute, value)
        return clone
    if field == 0:
        return value
    raise _no_field(record, field)


def _position(record: Any, field: Field) -> int:
    if isinstance(field, str):
        names = getattr(record, "_fields", ())
        if field in names:
            return int(names.index(field))
        match = _TUPLE_FIELD.match(field)
        if match is None:
            raise _no_field(record, field)
        field = int(match.group(1))
    if not 0 <= field < len(record):
        raise _no_field(record, field)
    return field


def _row_position(record: Row, field: Field) -> int:
    names = record.get_fields_names() or [f"f{i}" for i in range(len(record))]
    if isinstance(field, str):
        if field not in names:
            raise _no_field(record, field)
        return names.index(field)
    if not 0 <= field < len(record):
        raise _no_field(record, field)
    return field


def _mapping_key(record: Mapping[Any, Any], field: Field) -> Any:
    if field in record:
        return field
    keys = list(record)
    if isinstance(field, str) or not 0 <= field < len(keys):
        raise _no_field(record, field)
    return keys[field]


def _attribute(record: Any, field: Field) -> str:
    if isinstance(field, str):
        if not hasattr(record, field):
            raise _no_field(record, field)
        return field
    names = [item.name for item in dataclasses.fields(record)]
    if not 0 <= field < len(names):
        raise _no_field(record, field)
    return names[field]


def _no_field(record: Any, field: Field) -> InvalidProgramError:
    return InvalidProgramError(f"a record of type {type(record).__qualname__} has no field {field!r}: {record!r:.200}")


def checked_field(operator: str, field: Any, record_type: TypeInformation, allow_value: bool = False) -> Field:
    """The field as tasks should look for it; raises when it is none, or when the type is known not to have it.

    Fields of tuples become positions. `allow_value` lets position 0 stand for a plain value itself.
    """
    if isinstance(field, bool) or not isinstance(field, int | str):
        raise InvalidProgramError(f"{operator}: a field is a name or a position, not {field!r}")
    if isinstance(field, int) and field < 0:
        raise InvalidProgramError(f"{operator}: a position counts from 0, {field} does not")
    if isinstance(record_type, BasicType) and not (allow_value and field == 0):
        raise InvalidProgramError(f"{operator}: records of type {record_type} have no field {field!r}")
    names = record_type.field_names()
    if names is None:
        return field
    if field not in (names if isinstance(field, str) else range(len(names))):
        raise InvalidProgramError(
            f"{operator}: records of type {record_type} have no field {field!r}; they have {', '.join(names)}"
        )
    return names.index(field) if isinstance(field, str) and isinstance(record_type, TupleType) else field


def field_type(field: Field, record_type: TypeInformation) -> TypeInformation | None:
    """The type of a field, if the record's type declares it."""
    names = record_type.field_names()
    if names is None:
        return None
    position = names.index(field) if isinstance(field, str) else field
    match record_type:
        case TupleType() | RowType():
            return record_type.fields[position]
        case DataclassType():
            return record_type.field_types()[position]
        case _:
            return None


def described_columns(record_type: TypeInformation) -> str:
    """What the records of a stream have as columns, for messages."""
    names = record_type.field_names() or []
    columns = [f"{name} ({kind.describe()})" for name in names if (kind := field_type(name, record_type)) is not None]
    if not columns:
        return f"records of type {record_type.describe()}, without columns"
    return f"the columns {', '.join(columns)}"
