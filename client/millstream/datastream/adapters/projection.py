"""`project`: keeps some fields of each record, in the given order."""

from __future__ import annotations

from typing import Any

from millstream.core.records.types import PICKLED, RowType, TupleType, TypeInformation
from millstream.core.row import Row
from millstream.datastream.adapters.fields import Field, field_type, get_field
from millstream.datastream.functions import MapFunction


class Projection(MapFunction):
    """Rows stay rows; everything else becomes a tuple."""

    def __init__(self, fields: tuple[Field, ...]) -> None:
        self.fields = fields

    def map(self, value: Any) -> Any:
        """The record's chosen fields."""
        values = tuple([get_field(value, field) for field in self.fields])
        if not isinstance(value, Row):
            return values
        names = value.get_fields_names()
        if names is not None:
            names = [field if isinstance(field, str) else names[field] for field in self.fields]
        return Row.of_names(names, values)


def projected_type(fields: tuple[Field, ...], record_type: TypeInformation) -> TypeInformation:
    """The type of the chosen fields, as far as the record's type declares it."""
    types = [field_type(field, record_type) for field in fields]
    if any(kind is None for kind in types):
        return PICKLED
    known = tuple(kind or PICKLED for kind in types)
    if not isinstance(record_type, RowType):
        return TupleType(known)
    if record_type.names is None:
        return RowType(known)
    names = tuple(field if isinstance(field, str) else record_type.names[field] for field in fields)
    return RowType(known, names)
