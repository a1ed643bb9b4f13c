"""Numbers that are read as a wider type than they were stored as: only where each of them stays what it is.

An integer may be read as a larger integer or as a floating-point number, and a single-precision number as a double. By
its type alone a large integer may not fit: 2**53 + 1 is no float. So the types are compared first, and then the values;
one that would change is refused, by a dry run as by the restore.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from millstream.core.records import types as t
from millstream.core.records.conversion import field_types
from millstream.core.snapshot.errors import IncompatibleStateError

if TYPE_CHECKING:
    import pyarrow as pa

_INTEGERS = (t.BYTE, t.SHORT, t.INT, t.LONG, t.BIG_INT)


def is_wider(stored: str, declared: str) -> bool:
    """Whether numbers of one basic type, by its name, may be read as the other, if their values fit."""
    order = [kind.name for kind in _INTEGERS]
    floats = (t.FLOAT.name, t.DOUBLE.name)
    if stored in order:
        return declared in floats or declared in order[order.index(stored) + 1 :]
    return (stored, declared) == floats


def widened(array: pa.Array, stored: t.TypeInformation, declared: t.TypeInformation, where: str) -> pa.Array:
    """The column with its numbers as wide as declared. Raises for the first value that would change."""
    check_exact(array, stored, declared, where)
    target = _target(array.type, stored, declared)
    return array if target == array.type else array.cast(target, safe=False)


def check_exact(array: pa.Array, stored: t.TypeInformation, declared: t.TypeInformation, where: str) -> None:
    """Raises for the first value that would change if it were read as declared."""
    for path, column, before, after in _widened_leaves(array, stored, declared, ""):
        _check(column, before, after, f"{where}{path}")


def _check(column: pa.Array, stored: t.BasicType, declared: t.BasicType, where: str) -> None:
    """Refuses a number that the declared type does not have."""
    import pyarrow as pa

    if declared not in (t.FLOAT, t.DOUBLE) or stored == t.FLOAT:
        return
    try:  # in one go, when all are small
        column.cast(pa.float32() if declared == t.FLOAT else pa.float64())
        if stored != t.BIG_INT:
            return
    except pa.ArrowException:
        pass
    for value in column.to_pylist():
        number = None if value is None else int(value)
        if number is not None and not _is_exact(number, declared):
            raise IncompatibleStateError(where, f"holds {number}, which {declared.name} cannot hold exactly")


def _is_exact(number: int, declared: t.BasicType) -> bool:
    try:
        as_float = float(number)
        if declared == t.FLOAT:
            (as_float,) = struct.unpack("f", struct.pack("f", as_float))
        return int(as_float) == number
    except OverflowError:
        return False


def _parts(
    stored: t.TypeInformation, declared: t.TypeInformation
) -> list[tuple[str, t.TypeInformation, t.TypeInformation]]:
    """The fields, elements or map values that both have, with their names."""
    if isinstance(stored, t.ListType) and isinstance(declared, t.ListType):
        return [("", stored.element, declared.element)]
    if isinstance(stored, t.MapType) and isinstance(declared, t.MapType):
        return [("", stored.value, declared.value)]
    sides = [(side.field_names(), field_types(side)) for side in (stored, declared)]
    if any(names is None or types is None for names, types in sides):
        return []
    before, after = (dict(zip(names or (), types or (), strict=True)) for names, types in sides)
    return [(name, kind, after[name]) for name, kind in before.items() if name in after]


def _widened_leaves(
    array: pa.Array, stored: t.TypeInformation, declared: t.TypeInformation, path: str
) -> Iterator[tuple[str, pa.Array, t.BasicType, t.BasicType]]:
    import pyarrow as pa

    if isinstance(stored, t.BasicType) and isinstance(declared, t.BasicType):
        if is_wider(stored.name, declared.name):
            yield path, array, stored, declared
        return
    for name, before, after in _parts(stored, declared):
        if isinstance(stored, t.ListType):
            yield from _widened_leaves(array.flatten(), before, after, f"{path}[]")
        elif isinstance(stored, t.MapType):
            yield from _widened_leaves(array.items, before, after, f"{path}{{}}")
        elif pa.types.is_struct(array.type) and array.type.get_field_index(name) >= 0:
            child = array.flatten()[array.type.get_field_index(name)]
            yield from _widened_leaves(child, before, after, f"{path}.{name}")


def _target(found: pa.DataType, stored: t.TypeInformation, declared: t.TypeInformation) -> Any:
    """The column's type with its numbers as wide as declared, and all else as it is."""
    import pyarrow as pa

    if isinstance(stored, t.BasicType) and isinstance(declared, t.BasicType):
        if not is_wider(stored.name, declared.name):
            return found
        return pa.string() if declared == t.BIG_INT else pa.float64() if declared == t.FLOAT else declared.arrow_type()
    parts = {name: (before, after) for name, before, after in _parts(stored, declared)}
    if isinstance(stored, t.ListType) and parts:
        return pa.list_(pa.field("item", _target(found.value_type, *parts[""])))
    if isinstance(stored, t.MapType) and parts:
        return pa.map_(found.key_type, _target(found.item_type, *parts[""]))
    if parts and pa.types.is_struct(found):
        fields = [found.field(i) for i in range(found.num_fields)]
        return pa.struct([(f.name, _target(f.type, *parts[f.name]) if f.name in parts else f.type) for f in fields])
    return found
