"""Decides which values are immutable and can be shared, and copies all others.

Values that cannot be changed in place at any depth are shared between state and captures, and between operators. Others
are deep-copied: by plain loops for built-in containers, rows and dataclasses, which take a fifth of the time
of `copy.deepcopy`, and by that for everything else. As there, parts that are one object stay one in the copy.
"""

from __future__ import annotations

import copy
import datetime
import decimal
import enum
import uuid
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from types import BuiltinFunctionType, FunctionType, NoneType
from typing import Any

from millstream.core.records.types import BasicType, DataclassType, TupleType, TypeInformation
from millstream.core.row import Row, RowKind, kind_of, names_of, values_of

ATOMIC = frozenset(
    {
        int, float, complex, bool, str, bytes, NoneType, range, type, decimal.Decimal, uuid.UUID,
        datetime.datetime, datetime.date, datetime.time, datetime.timedelta, datetime.timezone,
        FunctionType, BuiltinFunctionType,
    }
)  # fmt: skip
"""Types whose instances have no mutable parts, or none that count as parts of a record."""

_NUMPY_SCALAR, _NUMPY_RECORD = ("numpy", "generic"), ("numpy", "void")
_ARROW = {("pyarrow.lib", name) for name in ("_PandasConvertible", "Scalar", "DataType", "Schema", "Field")}


def is_plain_type(kind: TypeInformation) -> bool:
    """Whether such records have no parts that can be changed, and are of no class of the user's."""
    match kind:
        case BasicType():
            return True
        case TupleType(inner):
            return all(map(is_plain_type, inner))
    return False


def is_immutable_type(kind: TypeInformation) -> bool:
    """Whether no value of the type can be changed in place."""
    return _is_immutable_type(kind, ())


def _is_immutable_type(kind: TypeInformation, inside: tuple[type, ...]) -> bool:
    match kind:
        case BasicType():
            return True
        case TupleType(inner):
            return all(_is_immutable_type(field, inside) for field in inner)
        case DataclassType(cls):
            if cls in inside:
                return True
            if not _is_frozen(cls):
                return False
            try:
                types = kind.field_types()
            except Exception:  # annotations with names that exist only where the class was defined
                return False
            return all(_is_immutable_type(inner, (*inside, cls)) for inner in types)
    return False


def is_plain(value: Any) -> bool:
    """Whether the value is atomic, or a tuple of atomic values."""
    return type(value) in ATOMIC or (type(value) is tuple and ATOMIC.issuperset(map(type, value)))


def is_immutable(value: Any) -> bool:
    """Whether neither the value nor anything inside of it can be changed in place."""
    kind = type(value)
    if kind in ATOMIC:
        return True
    if kind is tuple or kind is frozenset:
        return ATOMIC.issuperset(map(type, value)) or all(map(is_immutable, value))
    parts = _immutable_parts(kind)  # type: ignore[arg-type]  # every class can be hashed
    return parts is not None and all(map(is_immutable, parts(value)))


@cache
def _immutable_parts(cls: type) -> Callable[[Any], Any] | None:
    """Returns how to read the parts of the class's instances if only these may be mutable; None if it is mutable."""
    names = {(base.__module__, base.__name__) for base in cls.__mro__}
    if issubclass(cls, enum.Enum) or issubclass(cls, type) or names & _ARROW:
        return _no_parts
    if _NUMPY_SCALAR in names and _NUMPY_RECORD not in names and cls.__module__ == "numpy":
        return _no_parts
    if issubclass(cls, tuple) and not cls.__dictoffset__ and _has_no_slots(cls):  # named tuples
        return tuple.__iter__
    if is_dataclass(cls) and _is_frozen(cls):
        if _has_no_slots(cls):  # what `cached_property` keeps beside the fields counts too
            return lambda value: value.__dict__.values()
        if not cls.__dictoffset__:
            names_of_parts = [field.name for field in fields(cls)]
            return lambda value: [getattr(value, name, None) for name in names_of_parts]
    return None


def _no_parts(value: Any) -> tuple[Any, ...]:
    return ()


def _has_no_slots(cls: type) -> bool:
    return not any(vars(base).get("__slots__") for base in cls.__mro__)


def private_copy(value: Any, uncopied: list[Any] | None = None) -> Any:
    """Returns the value if it is immutable, otherwise a copy that shares no mutable parts with it.

    Objects inside of it that cannot be copied are shared, and added to `uncopied`; without such a list, they raise.
    """
    if type(value) is dict:  # a loop takes three quarters of the time of `ATOMIC.issuperset(map(type, ...))`
        atomic = ATOMIC
        for key, item in value.items():
            if type(item) not in atomic or type(key) not in atomic:
                break
        else:
            return value.copy()
    if type(value) is Row and kind_of(value) is RowKind.INSERT:
        values = values_of(value)
        for item in values:
            if type(item) not in ATOMIC:
                break
        else:  # two thirds of the time
            return Row.of_names(names_of(value), values)
    return _copied(value, {}, uncopied)


def private_columns(columns: Any) -> Any:
    """Returns the result of a vectorised function in new memory: Arrow would share that of a NumPy array."""
    if isinstance(columns, dict):
        return {name: private_columns(column) for name, column in columns.items()}
    is_numbers = type(columns).__module__.partition(".")[0] in ("numpy", "pandas")
    return columns.copy() if is_numbers and hasattr(columns, "copy") else columns


def _copied(value: Any, memo: dict[int, Any], uncopied: list[Any] | None) -> Any:
    kind = type(value)
    if kind in ATOMIC:
        return value
    if id(value) in memo:
        return memo[id(value)]
    copier = _COPIERS.get(kind)
    if copier is not None:
        return copier(value, memo, uncopied)
    if is_immutable(value):
        return value
    if _is_plain(kind):  # type: ignore[arg-type]  # every class can be hashed
        copied = memo[id(value)] = object.__new__(kind)
        for name, part in value.__dict__.items():
            copied.__dict__[name] = _copied(part, memo, uncopied)
        return copied
    if uncopied is None:
        return copy.deepcopy(value, memo)
    before = memo.copy()
    try:
        return copy.deepcopy(value, memo)
    except Exception:  # user classes may raise any error
        memo.clear()  # drops incomplete copies
        memo.update(before)
        memo[id(value)] = value
        uncopied.append(value)
        return value


def _copied_list(value: list[Any], memo: dict[int, Any], uncopied: list[Any] | None) -> list[Any]:
    copied = memo[id(value)] = value.copy()
    for position, item in enumerate(value):
        if type(item) not in ATOMIC:
            copied[position] = _copied(item, memo, uncopied)
    return copied


def _copied_dict(value: dict[Any, Any], memo: dict[int, Any], uncopied: list[Any] | None) -> dict[Any, Any]:
    copied = memo[id(value)] = value.copy()
    if not ATOMIC.issuperset(map(type, value)):
        copied.clear()
        for key, item in value.items():
            copied[_copied(key, memo, uncopied)] = _copied(item, memo, uncopied)
    else:
        for key, item in value.items():
            if type(item) not in ATOMIC:
                copied[key] = _copied(item, memo, uncopied)
    return copied


def _copied_set(value: set[Any], memo: dict[int, Any], uncopied: list[Any] | None) -> set[Any]:
    copied = memo[id(value)] = value.copy()
    if not ATOMIC.issuperset(map(type, value)):
        copied.clear()
        copied.update([_copied(item, memo, uncopied) for item in value])
    return copied


def _copied_tuple(value: tuple[Any, ...], memo: dict[int, Any], uncopied: list[Any] | None) -> tuple[Any, ...]:
    if ATOMIC.issuperset(map(type, value)):
        return value
    parts = [_copied(item, memo, uncopied) for item in value]
    if id(value) in memo:  # it contains itself
        return memo[id(value)]  # type: ignore[no-any-return]  # the copy of a tuple
    if all(part is item for part, item in zip(parts, value, strict=True)):
        return value
    copied = memo[id(value)] = tuple(parts)
    return copied


def _copied_row(value: Row, memo: dict[int, Any], uncopied: list[Any] | None) -> Row:
    values = values_of(value)
    copied = memo[id(value)] = Row.of_names(names_of(value), values)
    if kind_of(value) is not RowKind.INSERT:
        copied.set_row_kind(kind_of(value))
    if not ATOMIC.issuperset(map(type, values)):
        for position, item in enumerate(values):
            copied[position] = _copied(item, memo, uncopied)
    return copied


_COPIERS: dict[type, Callable[[Any, dict[int, Any], list[Any] | None], Any]] = {
    list: _copied_list,
    dict: _copied_dict,
    set: _copied_set,
    tuple: _copied_tuple,
    Row: _copied_row,
    bytearray: lambda value, memo, uncopied: memo.setdefault(id(value), value.copy()),
}


@cache
def _is_plain(cls: type) -> bool:
    """Whether this is a dataclass whose instances are their attributes: copying those is five times faster."""
    if not is_dataclass(cls) or cls.__new__ is not object.__new__:
        return False
    own = {"__slots__", "__copy__", "__deepcopy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__"}
    return all(own.isdisjoint(vars(base)) for base in cls.__mro__ if base is not object)


def _is_frozen(cls: type) -> bool:
    """Whether the dataclass itself is frozen: a plain subclass of a frozen one has attributes that can be set."""
    parameters = vars(cls).get("__dataclass_params__")
    return parameters is not None and bool(parameters.frozen)
