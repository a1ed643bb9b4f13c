"""From columns to records: plain Python objects of the declared type, never NumPy scalars or pandas timestamps."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from millstream.core.records.conversion.arrow_kinds import in_microseconds, keeps_values, value_kind
from millstream.core.records.conversion.schemas import ConversionError, Converter, field_types, same
from millstream.core.records.exact_values import InexactError, narrowed
from millstream.core.records.types import (
    FLOAT,
    INSTANT,
    PICKLED,
    BasicType,
    DataclassType,
    ListType,
    MapType,
    RowType,
    TupleType,
    TypeInformation,
)
from millstream.core.row import Row

if TYPE_CHECKING:
    import pyarrow as pa


def record_batch_to_rows(batch: pa.RecordBatch, type: TypeInformation) -> list[Any]:
    """The columns as records of the declared type; a `Row` with the columns' names when the type is unknown."""
    names, types = type.field_names(), field_types(type)
    if names is not None and types is not None:
        by_position = isinstance(type, TupleType) or (isinstance(type, RowType) and type.names is None)
        columns = [
            _to_values(column, t, name)
            for column, t, name in zip(_select(batch, names, by_position, type), types, names, strict=True)
        ]
        return _assemble(columns, batch.num_rows, type)
    if isinstance(type, BasicType | ListType | MapType):
        if batch.num_columns != 1:
            raise ConversionError(
                f"a batch of columns {', '.join(batch.schema.names)} cannot become records of the single value "
                f"{type.describe()}: declare a row, tuple or dataclass type, or return one column"
            )
        return _to_values(batch.column(0), type, batch.schema.names[0])
    of_names, own = Row.of_names, tuple(batch.schema.names)
    columns = [_to_values(column, PICKLED, name) for column, name in zip(batch.columns, own, strict=True)]
    return [of_names(own, values) for values in _zipped(columns, batch.num_rows)]


def _select(batch: pa.RecordBatch, names: list[str], by_position: bool, type: TypeInformation) -> list[Any]:
    present = batch.schema.names
    if all(present.count(name) == 1 for name in names):
        return [batch.column(name) for name in names]
    if by_position and len(present) == len(names):
        return list(batch.columns)
    missing = [name for name in names if present.count(name) != 1] or names
    raise ConversionError(
        f"a batch of columns {', '.join(present) or '(none)'} cannot become {type.describe()}: "
        f"it needs exactly one column for each of {', '.join(missing)}"
    )


def _assemble(columns: list[list[Any]], count: int, type: TypeInformation) -> list[Any]:
    if isinstance(type, RowType):
        of_names, names = Row.of_names, type.row_names
        return [of_names(names, values) for values in _zipped(columns, count)]
    if isinstance(type, DataclassType):
        return _instances(type.cls, columns, count)
    return list(_zipped(columns, count))


def _zipped(columns: list[list[Any]], count: int) -> Iterable[tuple[Any, ...]]:
    return zip(*columns, strict=True) if columns else [()] * count


def _instances(cls: type, columns: list[list[Any]], count: int) -> list[Any]:
    fields = dataclasses.fields(cls)
    if columns and not any(f.kw_only or not f.init for f in fields):
        return list(map(cls, *columns))
    accepted = [(i, f.name) for i, f in enumerate(fields) if f.init]
    return [cls(**{name: values[i] for i, name in accepted}) for values in _zipped(columns, count)]


def _to_values(column: pa.Array, type: TypeInformation, name: str) -> list[Any]:
    """A column's values as Python objects of the declared type."""
    import pyarrow as pa

    wanted = type.arrow_type()
    if wanted is not None and value_kind(wanted) not in (None, value_kind(column.type)):
        try:
            kinds = {value_kind(wanted), value_kind(column.type)}
            if kinds != {"int", "float"} and not keeps_values(column.type, wanted):
                raise pa.ArrowInvalid("its values are of another kind")
            column = column.cast(wanted)  # numbers as long as they are the same ones
        except pa.ArrowException as error:
            raise ConversionError(
                f"column '{name}' of {column.type} does not fit {type.describe()}: {' '.join(str(error).split())}"
            ) from error
    values: list[Any] = in_microseconds(column).to_pylist()
    decode = _decoder(type) or _arrow_decoder(column.type)
    try:
        return values if decode is None else [decode(v) for v in values]
    except InexactError as error:
        raise ConversionError(
            f"column '{name}' of {column.type} does not fit {type.describe()}: {error.value!r:.200}: {error.reason}"
        ) from None


def _decoder(type: TypeInformation) -> Converter | None:
    """What makes a declared value from pyarrow's Python object, or None when it is the same."""
    names, types = type.field_names(), field_types(type)
    if names is not None and types is not None:
        return _struct_decoder(names, [_decoder(t) or same for t in types], type)
    if isinstance(type, ListType):
        inner = _decoder(type.element)
        return None if inner is None else lambda v: None if v is None else [inner(item) for item in v]
    if isinstance(type, MapType):
        key, value = _decoder(type.key) or same, _decoder(type.value) or same
        return lambda v: None if v is None else {key(k): value(item) for k, item in _pairs(v)}
    if type == FLOAT:
        return lambda v: None if v is None else narrowed(v)
    return _in_utc if type == INSTANT else None


def _in_utc(value: Any) -> Any:
    """Arrow has names of time zones only, which become Python's own object for UTC or one that means the same."""
    return value if value is None or value.tzinfo is None else value.astimezone(datetime.UTC)


def _struct_decoder(names: list[str], decoders: list[Converter], type: TypeInformation) -> Converter:
    def decode(value: dict[str, Any] | None) -> Any:
        if value is None:
            return None
        fields = [[inner(value.get(name))] for name, inner in zip(names, decoders, strict=True)]
        return _assemble(fields, 1, type)[0]

    return decode


def _pairs(value: Any) -> Iterable[tuple[Any, Any]]:
    return value.items() if isinstance(value, dict) else value


def _arrow_decoder(arrow_type: Any) -> Converter | None:
    """For undeclared types: maps as dicts, at any depth; everything else as pyarrow has it."""
    import pyarrow as pa

    types = pa.types
    if types.is_map(arrow_type):
        key, value = _arrow_decoder(arrow_type.key_type) or same, _arrow_decoder(arrow_type.item_type) or same
        return lambda v: None if v is None else {key(k): value(item) for k, item in _pairs(v)}
    if types.is_struct(arrow_type):
        inner = {f.name: _arrow_decoder(f.type) for f in arrow_type}
        if not any(inner.values()):
            return None
        return lambda v: None if v is None else {n: (inner[n] or same)(item) for n, item in v.items()}
    if types.is_list(arrow_type) or types.is_large_list(arrow_type) or types.is_fixed_size_list(arrow_type):
        element = _arrow_decoder(arrow_type.value_type)
        return None if element is None else lambda v: None if v is None else [element(item) for item in v]
    return None
