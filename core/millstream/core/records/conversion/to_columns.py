"""From records to columns.

The parts of values are checked before Arrow sees it, which would make other numbers and times of some: a column
holds the values that went in, or they are refused (`exact_values`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from itertools import chain
from typing import TYPE_CHECKING, Any

from millstream.core.records.conversion.fields import columns_of, fields_of, names_in
from millstream.core.records.conversion.schemas import VALUE_COLUMN, ConversionError, Converter, field_types, same
from millstream.core.records.exact_values import InexactError, exact_values, moments, narrowed_column, refuse_zones
from millstream.core.records.instant import Instant
from millstream.core.records.types import (
    BIG_INT,
    FLOAT,
    INSTANT,
    PICKLED,
    BasicType,
    ListType,
    MapType,
    TypeInformation,
)

if TYPE_CHECKING:
    import pyarrow as pa

_ATOMS = frozenset({type(None), bool, int, float, str, bytes})


def rows_to_record_batch(rows: list[Any], type: TypeInformation, only: Sequence[str] | None = None) -> pa.RecordBatch:
    """The records as columns. Records may be dicts, rows, tuples or dataclasses with the declared type's fields.

    With `only`, as some of the columns of a declared type.
    """
    try:
        return _to_record_batch(rows, type, only)
    except ConversionError as error:
        if error.number is not None:
            error.record = rows[error.number]
        raise


def _to_record_batch(rows: list[Any], type: TypeInformation, only: Sequence[str] | None) -> pa.RecordBatch:
    import pyarrow as pa

    names, types = type.field_names(), field_types(type)
    if names is None or types is None:
        inferred = names_in(rows) if type == PICKLED else None
        if inferred is None:
            return pa.RecordBatch.from_arrays([_to_array(rows, type, VALUE_COLUMN)], names=[VALUE_COLUMN])
        names, types = inferred, [PICKLED] * len(inferred)
    columns = columns_of(rows, names)
    arrays = [
        _to_array(values, t, name)
        for values, t, name in zip(columns, types, names, strict=True)
        if only is None or name in only
    ]
    names = names if only is None else [name for name in names if name in only]
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _to_array(values: Sequence[Any], type: TypeInformation, name: str) -> pa.Array:
    import pyarrow as pa

    try:
        return _array(values, type)
    except (
        pa.ArrowException, OverflowError, TypeError, ValueError, AttributeError, KeyError, ConversionError,
    ) as error:  # fmt: skip
        raise _misfit(values, type, name, error) from error


def _array(values: Sequence[Any], type: TypeInformation) -> pa.Array:
    import pyarrow as pa

    if isinstance(type, BasicType):
        return pa.array(_held(values, type), type.arrow_type())
    _look_inside(values, type)
    encode = _encoder(type)
    if encode is not None and (type != PICKLED or not {v.__class__ for v in values} <= _ATOMS):
        values = [encode(v) for v in values]
    return pa.array(values, type.arrow_type())


def _look_inside(values: Iterable[Any], type: TypeInformation) -> None:
    """Refuses what is inside of values, at any depth, and would be changed by its column."""
    present = [v for v in values if v is not None]
    names, types = type.field_names(), field_types(type)
    if names is not None and types is not None:
        for name, inner, column in zip(names, types, columns_of(present, names), strict=True):
            _look_at(column, inner, f".{name}")
    elif isinstance(type, ListType):
        for number, value in enumerate(present):
            if not isinstance(value, list | tuple) and value.__class__.__module__ != "numpy":
                raise InexactError(number, value, "it is not a list")
        _look_at(chain.from_iterable(present), type.element, "[]")
    elif isinstance(type, MapType):
        _look_at(chain.from_iterable(present), type.key, "{key}")
        _look_at(chain.from_iterable(v.values() for v in present), type.value, "{}")
    elif isinstance(type, BasicType):
        _held(present, type)


def _held(values: Sequence[Any], type: BasicType) -> Sequence[Any]:
    if type == INSTANT:
        values = moments(values)
    values = exact_values(values, type, numpy=True)
    refuse_zones(values, type)
    return narrowed_column(values) if type == FLOAT else values


def _look_at(values: Iterable[Any], type: TypeInformation, step: str) -> None:
    try:
        _look_inside(values, type)
    except InexactError as error:
        raise error.inside(step, type) from None


def _misfit(values: Sequence[Any], type: TypeInformation, name: str, error: Exception) -> ConversionError:
    inferred = type.arrow_type() is None and type != BIG_INT
    for number, value in enumerate(values):
        try:
            _array([value], type)
        except InexactError as inexact:
            where, declared = name + inexact.path, inexact.declared or type.describe()
            return ConversionError(
                f"column '{where}', row {number}: {inexact.value!r:.200} is not a {declared}: {inexact.reason}", number
            )
        except Exception as single:
            if not inferred:
                return ConversionError(
                    f"column '{name}', row {number}: {value!r:.200} is not a {type.describe()}: {_told(single)}", number
                )
    if inferred:
        return ConversionError(
            f"column '{name}': its values do not share a type that Arrow knows ({_told(error)}); declare their type"
        )
    return ConversionError(f"column '{name}' does not fit {type.describe()}: {_told(error)}")


def _told(error: Exception) -> str:
    return " ".join(str(error).split())


def _encoder(type: TypeInformation) -> Converter | None:
    """What makes pyarrow understand a value of the type, or None when it does already."""
    names, types = type.field_names(), field_types(type)
    if names is not None and types is not None:
        return _struct_encoder(names, [_encoder(t) for t in types])
    if isinstance(type, ListType):
        inner = _encoder(type.element)
        return None if inner is None else lambda v: None if v is None else [inner(item) for item in v]
    if isinstance(type, MapType):
        key, value = _encoder(type.key) or same, _encoder(type.value) or same
        return lambda v: None if v is None else [(key(k), value(item)) for k, item in v.items()]
    if type == INSTANT:
        return _as_datetime
    if isinstance(type, BasicType):
        return _as_float if type.python_type is float else None
    return _plain


def _as_float(value: Any) -> Any:
    return float(value) if value.__class__ is int else value  # Arrow takes large ones only as floats


def _as_datetime(value: Any) -> Any:
    return value.to_datetime() if value.__class__ is Instant else value


def _struct_encoder(names: list[str], encoders: list[Converter | None]) -> Converter:
    def encode(value: Any) -> dict[str, Any] | None:
        if value is None:
            return None
        fields = fields_of(value, names, 0)
        if len(fields) != len(names):
            raise ValueError(f"{len(fields)} fields, expected {len(names)}")
        return {
            name: field if inner is None else inner(field)
            for name, field, inner in zip(names, fields, encoders, strict=True)
        }

    return encode


def _plain(value: Any) -> Any:
    """A value of an unknown type as pyarrow infers it best."""
    if value.__class__ in _ATOMS:
        return value
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | set | frozenset):
        return [_plain(item) for item in value]
    names = names_in([value])
    if names is None:
        return value
    return {name: _plain(field) for name, field in zip(names, fields_of(value, names, 0), strict=True)}
