"""Between Python records and Arrow record batches, by the records' declared type.

A record with fields (tuple, `Row`, dataclass) becomes a column for each field; any other record becomes one column
named `value`. Without a declared type the fields are taken from the records themselves. Converted values are plain
Python objects, never NumPy scalars or pandas timestamps.

Columns have no classes: which kind of record, list or map held the values is not kept, only that all of a record's
fields have a column. The values themselves are those that went in, or refused: see `exact_values`.
"""

from __future__ import annotations

import dataclasses
import datetime
import operator
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from itertools import chain
from typing import TYPE_CHECKING, Any

from millstream.core.errors import MillstreamError
from millstream.core.records.exact_values import (
    InexactError,
    exact_values,
    moments,
    narrowed,
    narrowed_column,
    refuse_zones,
)
from millstream.core.records.instant import Instant
from millstream.core.records.types import (
    BIG_INT,
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
from millstream.core.row import Row, RowKind, kind_of, names_of, values_of

if TYPE_CHECKING:
    import pyarrow as pa

VALUE_COLUMN = "value"

UNKNOWN = object()

_Converter = Callable[[Any], Any]
_ATOMS = frozenset({type(None), bool, int, float, str, bytes})


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


# Records to columns


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
        inferred = _names_of(rows) if type == PICKLED else None
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


def _names_of(rows: list[Any]) -> list[str] | None:
    """The field names that records of an unknown type have, or None when they are single values."""
    if not rows:
        return None
    if all(isinstance(row, dict) for row in rows):
        return [str(name) for name in dict.fromkeys(name for row in rows for name in row)]
    first = rows[0]
    if isinstance(first, Row):
        return first.get_fields_names() or [f"f{i}" for i in range(len(first))]
    if isinstance(first, tuple):
        return list(getattr(first, "_fields", ())) or [f"f{i}" for i in range(len(first))]
    if dataclasses.is_dataclass(first):
        return [f.name for f in dataclasses.fields(first)]
    return None


def columns_of(rows: list[Any], names: Sequence[str]) -> list[Sequence[Any]]:
    """The values of each named field, in the order of the names. A key that a dict lacks is None."""
    if not rows:
        return [() for _ in names]
    kinds = {row.__class__ for row in rows}
    kind = kinds.pop()
    if kinds:
        return _transposed([_values_of(row, names, number) for number, row in enumerate(rows)], len(names))
    if kind is tuple:
        return _transposed(rows, len(names))
    if kind is Row and set(map(names_of, rows)) <= {None, tuple(names)} and set(map(kind_of, rows)) == {RowKind.INSERT}:
        return _transposed(list(map(values_of, rows)), len(names))
    if dataclasses.is_dataclass(kind) and {f.name for f in dataclasses.fields(kind)} == set(names):
        return [list(map(operator.attrgetter(name), rows)) for name in names]
    return _transposed([_values_of(row, names, number) for number, row in enumerate(rows)], len(names))


def _transposed(rows: list[Any], width: int) -> list[Sequence[Any]]:
    try:
        columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
    except ValueError:
        columns = []
    if len(columns) != width:
        number, row = next((n, r) for n, r in enumerate(rows) if len(r) != width)
        raise ConversionError(f"row {number} has {len(row)} fields, expected {width}: {row!r:.200}", number)
    return columns


def _values_of(row: Any, names: Sequence[str], number: int) -> Sequence[Any]:
    """One record's fields, in the order of the names; a record that has others would lose them."""
    if isinstance(row, tuple | list):
        return row
    if isinstance(row, Row):
        if kind_of(row) is not RowKind.INSERT:
            raise ConversionError(
                f"row {number} is of the kind {kind_of(row)}, which columns do not hold: {row!r:.200}", number
            )
        own = names_of(row)
        if own is None or own == tuple(names):
            return values_of(row)  # type: ignore[no-any-return]  # a row's
        values: dict[str, Any] = row.as_dict()
    elif isinstance(row, dict):
        values = row
    elif dataclasses.is_dataclass(row) and not isinstance(row, type):
        values = {f.name: getattr(row, f.name) for f in dataclasses.fields(row) if hasattr(row, f.name)}
    else:
        values = {}
    if not isinstance(row, dict) and not values.keys() >= set(names):
        raise ConversionError(f"row {number} does not have the fields {', '.join(names)}: {row!r:.200}", number)
    if further := [str(name) for name in values if name not in names]:
        raise ConversionError(
            f"row {number} has further fields, {', '.join(further)}, which would be lost: {row!r:.200}", number
        )
    return [values.get(name) for name in names]


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


def _encoder(type: TypeInformation) -> _Converter | None:
    """What makes pyarrow understand a value of the type, or None when it does already."""
    names, types = type.field_names(), field_types(type)
    if names is not None and types is not None:
        return _struct_encoder(names, [_encoder(t) for t in types])
    if isinstance(type, ListType):
        inner = _encoder(type.element)
        return None if inner is None else lambda v: None if v is None else [inner(item) for item in v]
    if isinstance(type, MapType):
        key, value = _encoder(type.key) or _same, _encoder(type.value) or _same
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


def _struct_encoder(names: list[str], encoders: list[_Converter | None]) -> _Converter:
    def encode(value: Any) -> dict[str, Any] | None:
        if value is None:
            return None
        fields = _values_of(value, names, 0)
        if len(fields) != len(names):
            raise ValueError(f"{len(fields)} fields, expected {len(names)}")
        return {
            name: field if inner is None else inner(field)
            for name, field, inner in zip(names, fields, encoders, strict=True)
        }

    return encode


def _same(value: Any) -> Any:
    return value


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
    names = _names_of([value])
    if names is None:
        return value
    return {name: _plain(field) for name, field in zip(names, _values_of(value, names, 0), strict=True)}


# Columns to records


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
                f"{type.describe()}: declare a row, tuple or dataclass type, or answer one column"
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
    if wanted is not None and _kind(wanted) not in (None, _kind(column.type)):
        try:
            if {_kind(wanted), _kind(column.type)} != {"int", "float"} and not keeps_values(column.type, wanted):
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


def in_microseconds(column: pa.Array) -> pa.Array:
    """The column without the nanoseconds of times, which Python's own classes cannot hold."""
    import pyarrow as pa

    kind = column.type
    if getattr(kind, "unit", None) != "ns":
        return column
    if pa.types.is_timestamp(kind):
        coarser = pa.timestamp("us", kind.tz)
    else:
        coarser = pa.duration("us") if pa.types.is_duration(kind) else pa.time64("us")
    return column.cast(coarser, safe=False)


def _kind(arrow_type: Any) -> str | None:
    """Which Python class the values have; None for nested types, which are never cast."""
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(arrow_type):
        return _kind(arrow_type.value_type)
    for name, test in (
        ("bool", types.is_boolean), ("int", types.is_integer), ("float", types.is_floating),
        ("decimal", types.is_decimal), ("timestamp", types.is_timestamp), ("date", types.is_date),
        ("time", types.is_time), ("duration", types.is_duration), ("null", types.is_null),
    ):  # fmt: skip
        if test(arrow_type):
            return name
    text = ("string", "large_string", "string_view")
    binary = ("binary", "large_binary", "binary_view")
    return "str" if str(arrow_type) in text else "bytes" if str(arrow_type) in binary else None


def keeps_values(found: Any, wanted: Any, *, zones: bool = True) -> bool:
    """Whether a column cast from one Arrow type to another still holds the same values, if the cast succeeds.

    Without `zones`, another time zone of the same moments counts as the same.
    """
    import pyarrow as pa

    types = pa.types
    kind, other = _kind(found), _kind(wanted)
    if types.is_timestamp(found) and types.is_timestamp(wanted):
        return found.tz == wanted.tz or (not zones and None not in (found.tz, wanted.tz))
    if kind is not None or other is not None:
        return kind == "null" or kind == other or (kind == "int" and other in ("float", "decimal"))
    if types.is_struct(found) and types.is_struct(wanted):
        names = {field.name for field in found}
        return all(f.name not in names or keeps_values(found.field(f.name).type, f.type, zones=zones) for f in wanted)
    if types.is_map(found) and types.is_map(wanted):
        return keeps_values(found.key_type, wanted.key_type, zones=zones) and keeps_values(
            found.item_type, wanted.item_type, zones=zones
        )
    if hasattr(found, "value_type") and hasattr(wanted, "value_type"):
        return keeps_values(found.value_type, wanted.value_type, zones=zones)
    return True


def _decoder(type: TypeInformation) -> _Converter | None:
    """What makes a declared value from pyarrow's Python object, or None when it is the same."""
    names, types = type.field_names(), field_types(type)
    if names is not None and types is not None:
        return _struct_decoder(names, [_decoder(t) or _same for t in types], type)
    if isinstance(type, ListType):
        inner = _decoder(type.element)
        return None if inner is None else lambda v: None if v is None else [inner(item) for item in v]
    if isinstance(type, MapType):
        key, value = _decoder(type.key) or _same, _decoder(type.value) or _same
        return lambda v: None if v is None else {key(k): value(item) for k, item in _pairs(v)}
    if type == FLOAT:
        return lambda v: None if v is None else narrowed(v)
    return _in_utc if type == INSTANT else None


def _in_utc(value: Any) -> Any:
    """Arrow has names of time zones only, which become Python's own object for UTC or one that means the same."""
    return value if value is None or value.tzinfo is None else value.astimezone(datetime.UTC)


def _struct_decoder(names: list[str], decoders: list[_Converter], type: TypeInformation) -> _Converter:
    def decode(value: dict[str, Any] | None) -> Any:
        if value is None:
            return None
        fields = [[inner(value.get(name))] for name, inner in zip(names, decoders, strict=True)]
        return _assemble(fields, 1, type)[0]

    return decode


def _pairs(value: Any) -> Iterable[tuple[Any, Any]]:
    return value.items() if isinstance(value, dict) else value


def _arrow_decoder(arrow_type: Any) -> _Converter | None:
    """For undeclared types: maps as dicts, at any depth; everything else as pyarrow has it."""
    import pyarrow as pa

    types = pa.types
    if types.is_map(arrow_type):
        key, value = _arrow_decoder(arrow_type.key_type) or _same, _arrow_decoder(arrow_type.item_type) or _same
        return lambda v: None if v is None else {key(k): value(item) for k, item in _pairs(v)}
    if types.is_struct(arrow_type):
        inner = {f.name: _arrow_decoder(f.type) for f in arrow_type}
        if not any(inner.values()):
            return None
        return lambda v: None if v is None else {n: (inner[n] or _same)(item) for n, item in v.items()}
    if types.is_list(arrow_type) or types.is_large_list(arrow_type) or types.is_fixed_size_list(arrow_type):
        element = _arrow_decoder(arrow_type.value_type)
        return None if element is None else lambda v: None if v is None else [element(item) for item in v]
    return None


# Anything columnar to a record batch


def to_record_batch(result: Any) -> pa.RecordBatch:
    """What a vectorised function answered: a record batch, a table, a pandas DataFrame, or a dict of columns."""
    import pyarrow as pa

    if isinstance(result, pa.RecordBatch):
        return result
    try:
        if isinstance(result, pa.Table):
            return _one_batch(result)
        if isinstance(result, dict):
            return pa.RecordBatch.from_pydict(
                {name: c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for name, c in result.items()}
            )
        if result.__class__.__module__.partition(".")[0] == "pandas" and hasattr(result, "columns"):
            return pa.RecordBatch.from_pandas(result, preserve_index=False)
        if hasattr(result, "__arrow_c_stream__") and not isinstance(result, pa.ChunkedArray):
            return _one_batch(pa.table(result))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise ConversionError(f"the result cannot become a record batch: {' '.join(str(error).split())}") from error
    raise ConversionError(
        f"expected a pyarrow RecordBatch or Table, a pandas DataFrame or a dict of columns, "
        f"got {type(result).__qualname__}: {result!r:.200}"
    )


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    import pyarrow as pa

    batches = table.combine_chunks().to_batches()
    if len(batches) == 1:
        return batches[0]
    if batches:
        return pa.concat_batches(batches)
    return pa.RecordBatch.from_pylist([], schema=table.schema)
