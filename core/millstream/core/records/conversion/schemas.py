"""What records become as columns, by their declared type, and the errors when they do not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from millstream.core.errors import MillstreamError
from millstream.core.records.types import DataclassType, RowType, TupleType, TypeInformation

if TYPE_CHECKING:
    import pyarrow as pa

VALUE_COLUMN = "value"

UNKNOWN = object()

Converter = Callable[[Any], Any]
"""Of one value."""


class ConversionError(MillstreamError):
    """Records and their declared type, or columns and theirs, do not fit.

    `number` is the position of the value or record at fault, if it is known, and `record` the record itself.
    """

    def __init__(self, message: str, number: int | None = None) -> None:
        super().__init__(message)
        self.number = number
        self.record: Any = UNKNOWN


def field_types(type: TypeInformation) -> list[TypeInformation] | None:
    """The types of the columns that a record of this type becomes, or None for a single value."""
    if isinstance(type, TupleType | RowType):
        return list(type.fields)
    if isinstance(type, DataclassType):
        return type.field_types()
    return None


def arrow_schema(type: TypeInformation) -> pa.Schema | None:
    """The schema of a record batch of such records, or None when some column's type is only known from its values."""
    import pyarrow as pa

    names, types = type.field_names(), field_types(type)
    if names is None or types is None:
        names, types = [VALUE_COLUMN], [type]
    columns = [t.arrow_type() for t in types]
    return None if any(c is None for c in columns) else pa.schema(list(zip(names, columns, strict=True)))


def same(value: Any) -> Any:
    """Where nothing has to be converted."""
    return value
