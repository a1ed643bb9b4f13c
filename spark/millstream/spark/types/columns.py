"""Columns of state files as Spark takes them, and columns of Spark as state files hold them.

Whole columns at a time, by Arrow's kernels. What is read comes back when it is written again: the same values, in the
same declared type. Pickled values pass as bytes.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from millstream.core.records import types as t
from millstream.core.records.conversion import field_types
from millstream.core.snapshot.errors import SnapshotError, one_line
from millstream.core.snapshot.tables.columns import conform
from millstream.core.snapshot.tables.times import zoned_type
from millstream.spark.types.schemas import is_time, parts

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

_UTC = "Z"
_DIGITS = {t.BIG_INT.name: r"^[+-]?[0-9]+$", t.BIG_DEC.name: r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"}
_NOT_FINITE = r"^[+-]?(Infinity|s?NaN[0-9]*)$"


def to_spark(array: pa.Array, type: t.TypeInformation, target: pa.DataType) -> pa.Array:
    """A stored column, which fits its declared type, in the Arrow type of its Spark column."""
    if array.type == target:
        return array
    if not _is_nested(type):
        return _leaf_to_spark(array, type, target)

    def inner(child: pa.Array, kind: t.TypeInformation, at: str) -> pa.Array:
        if isinstance(type, t.ListType):
            return to_spark(child, kind, target.value_type)
        if isinstance(type, t.MapType):
            return to_spark(child, kind, target.key_type if at == "{key}" else target.item_type)
        return to_spark(child, kind, target.field(at.removeprefix(".")).type)

    made = _rebuilt(array, type, inner)
    return made if made.type == target else made.cast(target)


def to_stored(array: pa.Array, type: t.TypeInformation, name: str) -> pa.Array:
    """A column of Spark's as a state file holds it, of the declared type; one that does not fit it is refused."""
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if not _is_nested(type):
        return conform(_leaf_to_stored(array, type, name), type, name)
    fits = {t.ListType: pa.types.is_list, t.MapType: pa.types.is_map}.get(type.__class__, pa.types.is_struct)
    if not fits(array.type):
        raise SnapshotError(name, f"holds {array.type}, which does not fit {type.describe()}")
    return _rebuilt(array, type, lambda child, kind, at: to_stored(child, kind, f"{name}{at}"))


def _is_nested(type: t.TypeInformation) -> bool:
    return bool(parts(type))


def _rebuilt(
    array: pa.Array, type: t.TypeInformation, convert: Callable[[pa.Array, t.TypeInformation, str], pa.Array]
) -> pa.Array:
    """The nested column with what is inside of it converted."""
    import pyarrow as pa

    match type:
        case t.ListType(element):
            offsets, array = _offsets(array)
            return pa.ListArray.from_arrays(offsets, convert(array.values, element, "[]"))
        case t.MapType(key, value):
            offsets, array = _offsets(array)
            keys, items = convert(array.keys, key, "{key}"), convert(array.items, value, "{}")
            return pa.MapArray.from_arrays(offsets, keys, items)
    names, types = type.field_names() or [], field_types(type) or []
    have = [field.name for field in array.type]
    if sorted(have) != sorted(names):
        raise SnapshotError("struct", f"has the fields {', '.join(have)}, and must have {', '.join(names)}")
    children = dict(zip(have, array.flatten(), strict=True))
    made = [convert(children[name], inner, f".{name}") for name, inner in zip(names, types, strict=True)]
    fields = [pa.field(name, column.type) for name, column in zip(names, made, strict=True)]
    return pa.StructArray.from_arrays(made, fields=fields, mask=array.is_null() if array.null_count else None)


def _offsets(array: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Where each list begins, null where there is none; and the lists, without what lies under null ones."""
    import numpy as np
    import pyarrow as pa

    if not array.null_count:
        return array.offsets, array
    array = array.take(pa.array(np.arange(len(array))))
    absent = np.append(array.is_null().to_numpy(zero_copy_only=False), False)
    return pa.array(array.offsets.to_numpy(), pa.int32(), mask=absent), array


def _leaf_to_spark(array: pa.Array, type: t.TypeInformation, target: pa.DataType) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not is_time(type) or pa.types.is_null(array.type):
        return array.cast(target)
    if not pa.types.is_struct(target):
        if pa.types.is_struct(array.type) or (array.type.tz is None) != (target.tz is None):
            raise SnapshotError("column", f"holds times as {array.type}, where {target} was expected")
        return array.cast(target)
    if pa.types.is_struct(array.type):
        return array.cast(target)
    zone = array.type.tz
    clock = (array if zone is None else pc.local_timestamp(array)).cast(pa.timestamp("us"))
    named = pa.scalar(_UTC if zone == "UTC" else zone, pa.string())
    zones, folds = pa.repeat(named, len(array)), pa.repeat(pa.scalar(False), len(array))
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays([clock, zones, folds], fields=list(zoned_type()), mask=mask).cast(target)


def _leaf_to_stored(array: pa.Array, type: t.TypeInformation, name: str) -> pa.Array:
    import pyarrow as pa

    kinds = pa.types
    try:
        if is_time(type):
            if kinds.is_struct(array.type):
                return array.cast(zoned_type())
            zoned = kinds.is_timestamp(array.type) and array.type.tz is not None
            return array.cast(pa.timestamp("us", "UTC")) if zoned else array
        if type == t.TIME:
            if _is_text(array.type):
                values = [None if text is None else datetime.time.fromisoformat(text) for text in array.to_pylist()]
                return pa.array(values, pa.time64("us"))
            return array.cast(pa.time64("us")) if kinds.is_time(array.type) else array
        if isinstance(type, t.BasicType) and type.name in _DIGITS:
            return _digits(array, type, name)
    except (pa.ArrowException, ValueError) as error:
        raise SnapshotError(name, f"holds what is no {type.describe()}: {one_line(error)}") from error
    return array


def _digits(array: pa.Array, type: t.BasicType, name: str) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = pa.types.is_integer(array.type)
    exact = whole or (pa.types.is_decimal(array.type) and (type == t.BIG_DEC or array.type.scale == 0))
    text = array.cast(pa.string()) if exact else array
    if not _is_text(text.type):
        return array  # which is refused for its type
    wrong = text.filter(pc.invert(pc.match_substring_regex(text, _DIGITS[type.name])))
    if type == t.BIG_DEC:
        wrong = wrong.filter(pc.invert(pc.match_substring_regex(wrong, _NOT_FINITE)))
    if len(wrong):
        raise SnapshotError(name, f"holds {wrong[0].as_py()!r:.100}, which is no {type.describe()}")
    return text


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
