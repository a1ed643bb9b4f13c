"""Checks that a column of a declared type holds values exactly; other values are rejected, never changed.

A column does not store Python classes: values that are read from it have the declared type. So a value is accepted if
its class is the declared one. `Instant`, PyFlink's class for a point in time, is accepted where a reader of columns
gets a `datetime`, if that can represent it (`moments`). Two kinds of numbers are accepted if they are equal: an
`int` in a column of floats, as Python's type hints allow, and, where the reader of a column expects no classes of
Python's either, NumPy's numbers.

`Types.FLOAT()` is single precision: `narrowed` is what it makes of a number, wherever one gets that type.
"""

from __future__ import annotations

import datetime
import math
import struct
from array import array
from collections.abc import Sequence
from types import NoneType
from typing import Any

from millstream.core.records.instant import Instant
from millstream.core.records.types import INSTANT, BasicType, TypeInformation

_class_of = type
_SINGLE = struct.Struct("<f")  # of a native one, a number that is too large is infinite
_ZONED = (datetime.datetime, datetime.time)


class InexactError(TypeError):
    """A column of its declared type would change the value; `number` is its position."""

    def __init__(self, number: int, value: Any, reason: str) -> None:
        super().__init__(f"{value!r:.200}: {reason}")
        self.number = number
        self.value = value
        self.reason = reason
        self.path = ""  # of the field that contains it, below the column's name
        self.declared = ""  # the field's type

    def inside(self, step: str, type: TypeInformation) -> InexactError:
        """Returns the error for a value that contains this one."""
        self.path = step + self.path
        self.declared = self.declared or type.describe()
        return self


def exact_values(values: Sequence[Any], type: BasicType, *, numpy: bool) -> Sequence[Any]:
    """Returns the values for a column of the type: the same, or equal numbers of the declared class."""
    wanted = type.python_type
    others = set(map(_class_of, values)) - {wanted, NoneType}
    if others:
        values = [
            v if v is None or v.__class__ is wanted else _number(number, v, type, numpy)
            for number, v in enumerate(values)
        ]
    return values


def _number(number: int, value: Any, type: BasicType, numpy: bool) -> Any:
    """Converts a number to an equal one of the declared class."""
    plain = value
    if numpy and value.__class__.__module__ == "numpy" and hasattr(value, "item"):
        plain = value.item()
    if type.python_type is float and plain.__class__ is int:
        try:
            plain = float(plain)
        except OverflowError:
            plain = math.inf
        if plain != value:
            raise InexactError(number, value, "it has more digits than a float")
    if plain.__class__ is not type.python_type:
        wanted = type.python_type.__qualname__
        advice = f": make one of it with {wanted}(...)" if value.__class__.__module__ == "numpy" else ""
        raise InexactError(number, value, f"it is a {_named(value.__class__)}, not {wanted}{advice}")
    return plain


def _named(cls: type) -> str:
    return cls.__qualname__ if cls.__module__ in ("builtins", "__main__") else f"{cls.__module__}.{cls.__qualname__}"


def moments(values: Sequence[Any]) -> Sequence[Any]:
    """Returns the values with Instants replaced by datetimes; rejects an Instant with nanoseconds."""
    if Instant not in set(map(_class_of, values)):
        return values
    return [_moment(number, v) if v.__class__ is Instant else v for number, v in enumerate(values)]


def _moment(number: int, value: Instant) -> datetime.datetime:
    try:
        return value.to_datetime()
    except (ValueError, OverflowError) as error:
        raise InexactError(number, value, f"a column holds microseconds of years from 1 to 9999: {error}") from None


def refuse_zones(values: Sequence[Any], type: BasicType) -> None:
    """Rejects times that a column of times without a zone, or in UTC, would change."""
    if type.python_type not in _ZONED:
        return
    zone = datetime.UTC if type == INSTANT else None
    if all(v is None or (v.tzinfo is zone and not v.fold) for v in values):
        return
    for number, value in enumerate(values):
        if value is None or (value.tzinfo is zone and not value.fold):
            continue
        if value.fold:
            reason = "it is the second of two equal times (fold=1), and a column holds none"
        elif zone is not None:
            reason = "its time zone is not datetime.UTC: use .astimezone(datetime.UTC)"
        else:
            reason = (
                "it has a time zone, and a column of this type holds none: remove it, or declare Types.INSTANT() "
                "for datetimes in UTC"
            )
        raise InexactError(number, value, reason)


def narrowed(value: float) -> float:
    """Returns the nearest number of single precision; rejects one that is too large."""
    try:
        return _SINGLE.unpack(_SINGLE.pack(value))[0]  # type: ignore[no-any-return]  # of the format
    except OverflowError:
        raise InexactError(0, value, "it is too large for single precision, which Types.FLOAT() is") from None


def narrowed_column(values: Sequence[Any]) -> Sequence[Any]:
    """Narrows floats, which may contain None."""
    if NoneType in set(map(_class_of, values)):
        return [None if v is None else _narrowed_at(n, v) for n, v in enumerate(values)]
    narrow: list[float] = array("f", values).tolist()
    if not all(map(math.isfinite, narrow)):
        return [_narrowed_at(n, v) for n, v in enumerate(values)]
    return narrow


def _narrowed_at(number: int, value: float) -> float:
    try:
        return narrowed(value)
    except InexactError as error:
        raise InexactError(number, value, error.reason) from None
