"""One column: Python values of a declared type to an Arrow array and back, without loss.

Nested types are built column by column, never value by value. A value without a declared type is pickled bytes, at
any depth. Where Arrow's own type would lose something, the column is wider than the declared type: `Float` is
float64, `BigInteger` and `BigDecimal` are text with all their digits, times with a zone have it beside them.

A value comes back as it was, down to its class and those inside of it, or it is refused: see `exact_values`. Of keys
it is enough that they equal what comes back, for that is how they are found.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import pickle
from array import array
from collections.abc import Callable, Sequence
from itertools import chain, pairwise
from numbers import Number
from operator import itemgetter
from types import NoneType
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from millstream.core.errors import MillstreamError
from millstream.core.pickling import reading_state, to_bytes
from millstream.core.records import types as t
from millstream.core.records.conversion import ConversionError, columns_of, field_types
from millstream.core.records.exact_values import InexactError, exact_values, refuse_zones
from millstream.core.snapshot.errors import IncompatibleStateError, SnapshotError, one_line
from millstream.core.snapshot.tables.instances import Held, assemble, check_classes, fill_from
from millstream.core.snapshot.tables.times import times_array, times_of, zoned_type

if TYPE_CHECKING:
    import pyarrow as pa

Dumps = Callable[[Any], bytes]

_UNPICKLABLE = (pickle.PicklingError, AttributeError, TypeError)
_TEXT_NUMBERS = {t.BIG_INT.name: int, t.BIG_DEC.name: decimal.Decimal}
_class_of = type


class Pickled(Struct, frozen=True):
    """A value that was pickled, as its bytes: what a reader gets that did not ask to run the pickle.

    Written again, it is the same bytes.
    """

    data: bytes


class OversizedColumnError(MillstreamError):
    """More than 2 GiB of text or bytes, which Arrow cannot address in one column: fewer rows are possible."""


def dumps(value: Any) -> bytes:
    """Pickles a value: by reference where its classes can be imported, else by value."""
    try:
        return pickle.dumps(value, 5)
    except _UNPICKLABLE:
        return to_bytes(value)


def is_array(values: Any) -> bool:
    """Whether the values are an Arrow column already."""
    import pyarrow as pa

    return isinstance(values, pa.Array | pa.ChunkedArray)


# Values to arrays


def to_array(
    values: Sequence[Any] | pa.Array, type: t.TypeInformation, name: str, pickler: Dumps = dumps,
    held: Held = Held.EXACTLY,
) -> pa.Array:  # fmt: skip
    """The values as a column of the type; an Arrow array is taken as it is when its type fits."""
    import pyarrow as pa

    if is_array(values):
        array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        return conform(array, type, name)
    try:
        return _to_array(values, type, pickler, held)
    except _misfits() as error:
        raise _misfit(values, type, name, pickler, held, error) from error


def _misfits() -> tuple[type[Exception], ...]:
    """What values that are not of their declared type make pyarrow, or us, raise."""
    import pyarrow as pa

    return (
        pa.ArrowException, OverflowError, TypeError, ValueError, AttributeError, KeyError, ArithmeticError,
        ConversionError,
    )  # fmt: skip


def _misfit(
    values: Sequence[Any], type: t.TypeInformation, name: str, pickler: Dumps, held: Held, error: Exception
) -> ConversionError:
    for number, value in enumerate(values):
        try:
            _to_array([value], type, pickler, held)
        except InexactError as inexact:
            detail = f"{inexact.value!r:.200} is not a {inexact.declared or type.describe()} ({inexact.reason})"
            return ConversionError(f"column '{name}{inexact.path}', row {number}: {detail}", number)
        except _misfits() as single:
            return ConversionError(
                f"column '{name}', row {number}: {value!r:.200} is not a {type.describe()} ({one_line(single)})", number
            )
    return ConversionError(f"column '{name}' does not fit {type.describe()}: {one_line(error)}")


def _to_array(values: Sequence[Any], type: t.TypeInformation, pickler: Dumps, held: Held) -> pa.Array:
    import pyarrow as pa

    if isinstance(type, t.BasicType):
        return _basic_array(values, type, held)
    names, types = type.field_names(), field_types(type)
    if names is not None and types is not None:
        check_classes(values, type, held)
        return _struct_array(values, names, types, pickler, held)
    if isinstance(type, t.ListType):
        _check_class(values, list)
        offsets = _offsets(values)
        items = list(chain.from_iterable(v for v in values if v is not None))
        return pa.ListArray.from_arrays(offsets, _inside(items, type.element, pickler, held, "[]"))
    if isinstance(type, t.MapType):
        _check_class(values, dict)
        offsets = _offsets(values)
        map_keys = list(chain.from_iterable(v for v in values if v is not None))
        inner = list(chain.from_iterable(v.values() for v in values if v is not None))
        return pa.MapArray.from_arrays(
            offsets,
            _inside(map_keys, type.key, pickler, Held.EXACTLY_AS_KEYS, "{key}"),
            _inside(inner, type.value, pickler, held, "{}"),
        )
    return _in_one_piece(pa.array(_pickled(values, pickler), _pickled_type()))


def _inside(values: Sequence[Any], type: t.TypeInformation, pickler: Dumps, held: Held, step: str) -> pa.Array:
    try:
        return _to_array(values, type, pickler, held)
    except InexactError as error:
        raise error.inside(step, type) from None


def _check_class(values: Sequence[Any], kind: type) -> None:
    if not set(map(_class_of, values)) <= {kind, NoneType}:
        for number, value in enumerate(values):
            if value is not None and value.__class__ is not kind:
                raise InexactError(number, value, f"it is a {value.__class__.__qualname__}, not {kind.__qualname__}")


def _in_one_piece(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        raise OversizedColumnError(f"{len(column)} values have more than 2 GiB of text or bytes")
    return column


def _pickled(values: Sequence[Any], pickler: Dumps) -> list[bytes]:
    if Pickled in set(map(_class_of, values)):
        return [value.data if isinstance(value, Pickled) else pickler(value) for value in values]
    if pickler is dumps:
        plain = pickle.dumps
        try:
            return [plain(value, 5) for value in values]  # half the time of going through the function each time
        except _UNPICKLABLE:
            pass
    return list(map(pickler, values))


def _basic_array(values: Sequence[Any], type: t.BasicType, held: Held) -> pa.Array:
    """Returns the column, unless its values would differ: pyarrow silently converts 1.5 to 1, and text to bytes."""
    import pyarrow as pa

    values = _equal_keys(values, type) if held is Held.AS_KEYS else exact_values(values, type, numpy=False)
    if type == t.LONG:
        with contextlib.suppress(TypeError, OverflowError):  # numbers of 64 bits only, in half the time
            return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(array("q", values))])
    if type == t.TIME:
        refuse_zones(values, type)
    return _in_one_piece(_converted(values, type))


def _equal_keys(values: Sequence[Any], type: t.BasicType) -> Sequence[Any]:
    """Converts keys to equal values of their declared class, as `1`, `1.0` and `True` are the same key."""
    kind = type.python_type
    if set(map(_class_of, values)) <= {kind, NoneType}:
        return values
    return [v if v is None or v.__class__ is kind else _equal_key(n, v, kind) for n, v in enumerate(values)]


def _equal_key(number: int, key: Any, kind: type) -> Any:
    made = kind(key) if isinstance(key, (Number, kind)) else None
    if made != key and key == key:
        detail = "it would not be found" if made is None else f"it would become {made!r:.100}"
        raise InexactError(number, key, f"it is a {key.__class__.__qualname__}, and as a key {detail} after a restore")
    return made


def _converted(values: Sequence[Any], type: t.BasicType) -> pa.Array:
    import pyarrow as pa

    if type.name in _TEXT_NUMBERS:
        return pa.array([None if v is None else str(v) for v in values], pa.string())
    if type.python_type is datetime.datetime:
        return times_array(values)
    if type.name == t.FLOAT.name:
        return pa.array(values, pa.float64())
    return pa.array(values, type.arrow_type())


def _struct_array(
    values: Sequence[Any], names: list[str], types: list[t.TypeInformation], pickler: Dumps, held: Held
) -> pa.Array:
    import pyarrow as pa

    mask = None
    rows = values if isinstance(values, list) else list(values)
    kinds = set(map(_class_of, rows))
    if kinds == {tuple} and set(map(len, rows)) == {len(names)}:
        # A getter for each field: 30 ms for a million pairs, where transposing with zip takes 400 ms.
        columns: list[Sequence[Any]] = [list(map(itemgetter(i), rows)) for i in range(len(names))]
    elif NoneType in kinds:
        mask = pa.array([row is None for row in rows], pa.bool_())
        columns = _with_gaps(rows, names)
    else:
        columns = columns_of(rows, names)
    arrays = [
        _inside(column, inner, pickler, held, f".{name}")
        for name, column, inner in zip(names, columns, types, strict=True)
    ]
    fields = [pa.field(name, array.type) for name, array in zip(names, arrays, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=mask)


def _with_gaps(rows: list[Any], names: list[str]) -> list[Sequence[Any]]:
    """The fields' values, with None in every field of a row that is None."""
    present = columns_of([row for row in rows if row is not None], names)
    result: list[Sequence[Any]] = []
    for column in present:
        items = iter(column)
        result.append([None if row is None else next(items) for row in rows])
    return result


def _offsets(values: Sequence[Any]) -> pa.Array:
    """Where each list begins; a null offset makes a null list."""
    import pyarrow as pa

    position, offsets = 0, []
    for value in values:
        offsets.append(None if value is None else position)
        position += 0 if value is None else len(value)
    offsets.append(position)
    return pa.array(offsets, pa.int32())


# Arrays to values


def from_array(
    array: pa.Array, type: t.TypeInformation, name: str, *, unpickle: bool = False, new_fields: bool = False
) -> list[Any]:
    """The values of a column, as the program declares their type.

    With `new_fields`, a dataclass field that the column lacks gets its default, and a tuple, row or dataclass may have
    been pickled. Pickled values stay `Pickled` unless the caller requests them, because loading a pickle can run any
    code.
    """
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    array = conform(array, type, name, new_fields)
    try:
        return _from_array(array, type, unpickle)
    except SnapshotError:
        raise
    except Exception as error:
        reason = f"holds a value that is no {type.describe()}: {one_line(error)}"
        raise IncompatibleStateError(name, reason) from error


def _from_array(array: pa.Array, type: t.TypeInformation, unpickle: bool) -> list[Any]:
    if isinstance(type, t.BasicType):
        return _basic_values(array, type)
    names, types = type.field_names(), field_types(type)
    if names is not None and types is not None:
        if array.type == _pickled_type():
            array = _declared_since(_from_array(array, t.PICKLED, unpickle), type)
        return _struct_values(array, names, types, type, unpickle)
    if isinstance(type, t.ListType):
        return _sliced(array, _from_array(array.values, type.element, unpickle), list)
    if isinstance(type, t.MapType):
        keys, items = _from_array(array.keys, type.key, unpickle), _from_array(array.items, type.value, unpickle)
        return _sliced(array, list(zip(keys, items, strict=True)), dict)
    data = array.to_pylist()
    if unpickle:
        with reading_state():
            return [None if item is None else pickle.loads(item) for item in data]
    return [None if item is None else Pickled(item) for item in data]


def _declared_since(values: list[Any], type: t.TypeInformation) -> pa.Array:
    """The column of values that were pickled when they were stored: they have to be of the type declared since."""
    try:
        return to_array(values, type, "pickled")
    except ConversionError as error:
        raise ValueError(f"{error}; Types.PICKLED_BYTE_ARRAY() takes it as it is") from error


def _pickled_type() -> pa.DataType:
    import pyarrow as pa

    return pa.binary()


def _basic_values(array: pa.Array, type: t.BasicType) -> list[Any]:
    if type.name in _TEXT_NUMBERS:
        kind = _TEXT_NUMBERS[type.name]
        return [None if text is None else kind(text) for text in array.to_pylist()]
    if type.python_type is datetime.datetime:
        return times_of(array)
    if type.python_type in (int, float, bool) and array.null_count == 0:
        values: list[Any] = array.to_numpy(zero_copy_only=False).tolist()
        return values
    plain: list[Any] = array.to_pylist()
    return plain


def _struct_values(
    array: pa.Array, names: list[str], types: list[t.TypeInformation], type: t.TypeInformation, unpickle: bool
) -> list[Any]:
    present = [array.type.get_field_index(name) for name in names]
    children = array.flatten()
    if array.null_count:
        valid = array.is_valid()
        children = [child.filter(valid) for child in children]
    columns = [
        None if index < 0 else _from_array(children[index], inner, unpickle)
        for index, inner in zip(present, types, strict=True)
    ]
    count = len(array) - array.null_count
    values = assemble(columns, count, type)
    if not array.null_count:
        return values
    items = iter(values)
    return [next(items) if there else None for there in valid.to_pylist()]


def _sliced(array: pa.Array, items: list[Any], kind: Callable[[list[Any]], Any]) -> list[Any]:
    ends = array.offsets.to_pylist()
    slices = [kind(items[start:end]) for start, end in pairwise(ends)]
    if not array.null_count:
        return slices
    return [item if there else None for item, there in zip(slices, array.is_valid().to_pylist(), strict=True)]


# Checking a column against a type


def conform(array: pa.Array, type: t.TypeInformation, name: str, new_fields: bool = False) -> pa.Array:
    """The column in the type that we would have written, or an error: other tools may have written it."""
    import pyarrow as pa

    wanted = _wanted(array.type, type, name, new_fields)
    if wanted == array.type:
        return array
    try:
        return array.cast(wanted)
    except pa.ArrowException as error:
        raise SnapshotError(name, f"holds {array.type}, which does not fit {wanted}: {one_line(error)}") from error


def _wanted(found: pa.DataType, type: t.TypeInformation, name: str, new_fields: bool) -> pa.DataType:
    """The Arrow type for a column of the type that was found as another; refuses what means something else."""
    import pyarrow as pa

    kinds = pa.types
    names, types = type.field_names(), field_types(type)
    if names is not None and types is not None:
        if new_fields and found == _pickled_type():
            return found  # declared since
        if not kinds.is_struct(found):
            raise SnapshotError(name, f"holds {found}, and must hold a struct of {', '.join(names)}")
        have = [found.field(i).name for i in range(found.num_fields)]
        filled = fill_from(type) if new_fields else frozenset()
        missing = [n for n in names if n not in have and n not in filled]
        extra = [] if new_fields else [n for n in have if n not in names]
        if missing or extra or len(set(have)) != len(have):
            raise SnapshotError(name, f"holds a struct of {', '.join(have)}, and must hold one of {', '.join(names)}")
        inner = dict(zip(names, types, strict=True))
        fields = [(n, found.field(n).type) for n in have]
        return pa.struct(
            [(n, _wanted(kind, inner[n], f"{name}.{n}", new_fields) if n in inner else kind) for n, kind in fields]
        )
    if isinstance(type, t.ListType):
        if not (kinds.is_list(found) or kinds.is_large_list(found)):
            raise SnapshotError(name, f"holds {found}, and must hold a list")
        return pa.list_(pa.field("item", _wanted(found.value_type, type.element, f"{name}[]", new_fields)))
    if isinstance(type, t.MapType):
        if not kinds.is_map(found):
            raise SnapshotError(name, f"holds {found}, and must hold a map")
        key = _wanted(found.key_type, type.key, f"{name}{{key}}", new_fields)
        return pa.map_(key, _wanted(found.item_type, type.value, f"{name}{{}}", new_fields))
    return _wanted_leaf(found, type, name)


def _wanted_leaf(found: pa.DataType, type: t.TypeInformation, name: str) -> pa.DataType:
    import pyarrow as pa

    kinds = pa.types
    plain = found.value_type if kinds.is_dictionary(found) else found
    if isinstance(type, t.BasicType) and type.python_type is datetime.datetime:
        zoned = zoned_type()
        wanted = zoned if plain == zoned else pa.timestamp("us", plain.tz if kinds.is_timestamp(plain) else None)
    elif isinstance(type, t.BasicType) and type.name in _TEXT_NUMBERS:
        wanted = pa.string()
    elif isinstance(type, t.BasicType):
        wanted = pa.float64() if type.name == t.FLOAT.name else type.arrow_type()
    else:
        wanted = _pickled_type()
    if kinds.is_null(plain) or _family(plain) == _family(wanted):
        return wanted
    raise SnapshotError(name, f"holds {found}, and must hold {wanted} for {type.describe()}")


def _family(kind: pa.DataType) -> str:
    """Types among which a checked cast does not change the meaning."""
    import pyarrow as pa

    kinds = pa.types
    if kinds.is_integer(kind) or kinds.is_floating(kind):
        return "number"
    if kinds.is_large_string(kind) or kinds.is_string_view(kind):
        return "string"
    if kinds.is_large_binary(kind) or kinds.is_binary_view(kind) or kinds.is_fixed_size_binary(kind):
        return "binary"
    for family, test in (("timestamp", kinds.is_timestamp), ("date", kinds.is_date), ("time", kinds.is_time)):
        if test(kind):
            return family
    return str(kind)
