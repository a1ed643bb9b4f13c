"""The canonical value of a key: keys that are equal in Python have the same canonical value.

It follows from the equality of a class. The equality of built-in types and of dataclasses is known, regardless of other
methods that a subclass overrides (`__str__`, `__iter__`, `__hash__`): so the value is read by the built-in type's own
methods, and for a dataclass from its compared fields. A class with a custom equality is rejected: which of its
instances are equal could only be found by comparing them all, and they may be on different machines.
"""

from __future__ import annotations

import copy
import datetime
import decimal
import enum
import uuid
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass, make_dataclass
from functools import cache
from types import NoneType
from typing import Any

from millstream.core.errors import MillstreamError
from millstream.core.row import Row, names_of, values_of

PLAIN = frozenset(
    {str, int, bool, bytes, NoneType, uuid.UUID, datetime.datetime, datetime.date, datetime.time, datetime.timedelta}
)
"""Types whose instances need no check as keys: never rejected, never NaN, and unable to contain one."""

NOT_A_NUMBER = float("nan")
"""The common key of all NaN keys, which would be different keys of a dictionary."""

_EPOCH = datetime.datetime(1970, 1, 1)
_TRUSTED = ("numpy", "pandas")  # their scalars are equal to Python's exactly when they hash alike


class UnhashableKeyError(MillstreamError):
    """The key's type has no hash that is the same in all processes."""


def _refusal(cls: type, why: str) -> UnhashableKeyError:
    return UnhashableKeyError(
        f"a key of type {cls.__qualname__} cannot be used: {why}. "
        "Use numbers, strings, bytes, dates, times, enums, or tuples, rows and dataclasses of them"
    )


def canonical_value(key: Any) -> Any:
    """Returns a plain value (int, float, str, bytes, None, or a tuple of keys) that is the same for equal keys."""
    return _by_type(type(key))(key)  # type: ignore[arg-type]  # every class can be hashed


@cache
def _by_type(cls: type) -> Callable[[Any], Any]:
    """Returns the conversion of instances of the class. Raises UnhashableKeyError if they cannot be keys."""
    for base, value in _PLAIN_VALUES.items():
        if issubclass(cls, base):
            own, known = cls.__eq__, base.__eq__
            if own is known or cls.__module__.partition(".")[0] in _TRUSTED:  # type: ignore[comparison-overlap]  # not so
                return value
            raise _refusal(cls, f"it compares in its own way (__eq__), so one that equals a {base.__name__} might be "
                                "sent elsewhere")  # fmt: skip
    numpy_base = next((base for base in cls.__mro__ if base.__module__ == "numpy"), None)
    if numpy_base is not None and numpy_base.__name__ in ("datetime64", "timedelta64"):
        return _numpy_time
    if numpy_base is not None and numpy_base is cls:
        return _numpy_scalar
    if is_dataclass(cls):
        names = compared_fields(cls)
        if names is None:
            raise _refusal(cls, "it is a dataclass that compares in its own way (__eq__), or not at all (eq=False), so "
                                "equal ones might be sent to different subtasks")  # fmt: skip
        return lambda key: tuple([getattr(key, name) for name in names])
    if issubclass(cls, enum.Enum) and cls.__eq__ is object.__eq__:
        return lambda key: key.value
    raise _refusal(cls, "it has no hash that is the same in every process")


def _datetime(key: datetime.datetime) -> int:
    if key != key:
        raise _refusal(type(key), "it is not equal to itself")
    # Like Python's own hash: datetimes of one time zone are equal regardless of their `fold`.
    offset = key.replace(fold=0).utcoffset()
    since = key.replace(tzinfo=None, fold=0) - _EPOCH
    return _microseconds(since if offset is None else since - offset)


def _date(key: datetime.date) -> int:
    return datetime.date.toordinal(key) - _EPOCH.toordinal()


def _time(key: datetime.time) -> int:
    offset = key.replace(fold=0).utcoffset() or datetime.timedelta()
    since = datetime.timedelta(0, key.second, key.microsecond, 0, key.minute, key.hour)
    return _microseconds(since - offset)


def _microseconds(key: datetime.timedelta) -> int:
    if key != key:
        raise _refusal(type(key), "it is not equal to itself")
    return (key.days * 86400 + key.seconds) * 1_000_000 + key.microseconds


def _decimal(key: decimal.Decimal) -> Any:
    """Returns the int or float that it equals, otherwise its digits, which do not depend on the decimal context."""
    if key.is_finite() and key == key.to_integral_value():
        return int(key)
    number = NOT_A_NUMBER if key.is_nan() else float(key)
    return number if key.is_nan() or number == key else format(key, "f").rstrip("0")


def _numpy_time(key: Any) -> int:
    """Returns microseconds, for any unit except months and years, which have no fixed length."""
    if key != key:
        raise _refusal(type(key), "it is not equal to itself")
    name = type(key).__name__
    if name == "timedelta64" and key.dtype.str.endswith(("[M]", "[Y]")):
        raise _refusal(type(key), "months and years have no fixed length")
    return int(key.astype(f"{name}[us]").astype("int64"))


def _numpy_scalar(key: Any) -> Any:
    value = key.item()
    if type(value).__module__ == "numpy":
        raise _refusal(type(key), "it has no hash that is the same in every process")
    return value


_PLAIN_VALUES: dict[type, Callable[[Any], Any]] = {
    int: int.__index__,
    float: float.__float__,
    str: str.__str__,
    bytes: lambda key: bytes(memoryview(key)),
    bytearray: bytes,
    memoryview: bytes,
    tuple: lambda key: tuple(tuple.__iter__(key)),
    datetime.datetime: _datetime,
    datetime.date: _date,
    datetime.time: _time,
    datetime.timedelta: _microseconds,
    decimal.Decimal: _decimal,
    uuid.UUID: lambda key: key.bytes,
}


@cache
def compared_fields(cls: type) -> tuple[str, ...] | None:
    """Returns the compared fields of a dataclass; None if its equality is not the generated one."""
    owner = next(base for base in cls.__mro__ if "__eq__" in vars(base))
    if "__dataclass_fields__" not in vars(owner):
        return None
    names = tuple(field.name for field in fields(owner) if field.compare)
    generated = vars(make_dataclass("Generated", names))["__eq__"].__code__
    own = getattr(vars(owner)["__eq__"], "__code__", None)
    parts = ("co_code", "co_names", "co_consts")
    return names if own and all(getattr(own, part) == getattr(generated, part) for part in parts) else None


def is_all_its_fields(cls: type) -> bool:
    """Whether equal instances of a dataclass are those whose fields are all equal, as columns compare."""
    return compared_fields(cls) == tuple(field.name for field in fields(cls))


def hashable(key: Any) -> Any:
    """Returns the key with every list in it replaced by a tuple, since lists are not hashable."""
    if isinstance(key, list):
        return tuple(map(hashable, key))
    if type(key) is tuple:
        return tuple(map(hashable, key))
    return Row.of_names(names_of(key), list(map(hashable, key))) if type(key) is Row else key


def without_nan(key: Any) -> Any:
    """Returns the hashable key with every NaN in it replaced by the same NaN object."""
    kind = type(key)
    if kind in PLAIN or isinstance(key, enum.Enum):
        return key
    if isinstance(key, tuple):
        parts = tuple(map(without_nan, tuple.__iter__(key)))
        return key if _is_made_of(parts, tuple.__iter__(key)) else tuple.__new__(kind, parts)
    if kind is Row:
        parts = tuple(map(without_nan, values_of(key)))
        return key if _is_made_of(parts, values_of(key)) else Row.of_names(names_of(key), parts)
    if is_dataclass(kind):
        return _dataclass_without_nan(key)
    return NOT_A_NUMBER if key != key else key


def _dataclass_without_nan(key: Any) -> Any:
    names = compared_fields(type(key)) or ()  # type: ignore[arg-type]  # every class can be hashed
    values = [getattr(key, name) for name in names]
    parts = tuple(map(without_nan, values))
    if _is_made_of(parts, values):
        return key
    changed = copy.copy(key)
    for name, part in zip(names, parts, strict=True):
        object.__setattr__(changed, name, part)  # it may be frozen
    if changed != copy.copy(changed):  # Python 3.13 compares field by field
        raise _refusal(type(key), "it contains a NaN, with which it is not equal to itself")
    return changed


def _is_made_of(parts: Iterable[Any], values: Iterable[Any]) -> bool:
    return all(part is value for part, value in zip(parts, values, strict=True))
