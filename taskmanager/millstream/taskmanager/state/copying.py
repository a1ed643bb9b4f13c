"""What can be shared between live state and a capture of it, and copies of what cannot.

A value that nobody can change is shared. Any other is copied when it is handed out while a capture still needs it.
"""

from __future__ import annotations

import copy
import datetime
import decimal
import enum
import uuid
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any

from millstream.core.row import Row
from millstream.core.types import BasicType, DataclassType, TupleType, TypeInformation

ATOMIC = frozenset(
    {
        int, float, complex, bool, str, bytes, NoneType, range, type, decimal.Decimal, uuid.UUID,
        datetime.datetime, datetime.date, datetime.time, datetime.timedelta, datetime.timezone,
    }
)  # fmt: skip
"""Types whose instances have no parts that could be changed."""


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
            return _is_frozen(cls) and all(_is_immutable_type(f, (*inside, cls)) for f in kind.field_types())
    return False


def is_immutable(value: Any) -> bool:
    """Whether neither the value nor anything inside of it can be changed in place."""
    kind = type(value)
    if kind in ATOMIC:
        return True
    if kind is tuple or kind is frozenset:
        return ATOMIC.issuperset(map(type, value)) or all(map(is_immutable, value))
    if isinstance(value, enum.Enum):
        return True
    if isinstance(value, tuple):  # named tuples have no attributes of their own
        return not hasattr(value, "__dict__") and all(map(is_immutable, value))
    if is_dataclass(kind) and _is_frozen(kind):
        return all(is_immutable(getattr(value, field.name)) for field in fields(kind))
    return False


def private_copy(value: Any) -> Any:
    """A copy that shares nothing with the value that could be changed."""
    kind = type(value)
    plain = _is_plain(kind)  # type: ignore[arg-type]  # every class can be hashed
    if plain and ATOMIC.issuperset(map(type, value.__dict__.values())):
        copied = object.__new__(kind)
        copied.__dict__.update(value.__dict__)
        return copied
    if kind is list and all(map(is_immutable, value)):
        return value.copy()
    if kind is dict and all(map(is_immutable, value.values())) and all(map(is_immutable, value)):
        return value.copy()
    if kind is Row and ATOMIC.issuperset(map(type, value)):
        return Row.of_names(value.names, value.values)
    return value if is_immutable(value) else copy.deepcopy(value)


@cache
def _is_plain(cls: type) -> bool:
    """Whether this is a dataclass whose instances are their attributes: copying those is five times faster."""
    if not is_dataclass(cls) or _is_frozen(cls) or cls.__new__ is not object.__new__:
        return False
    own = {"__slots__", "__copy__", "__deepcopy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__"}
    return all(own.isdisjoint(vars(base)) for base in cls.__mro__ if base is not object)


def _is_frozen(cls: type) -> bool:
    return bool(cls.__dataclass_params__.frozen)  # type: ignore[attr-defined]  # every dataclass has them
