"""Which types MessagePack gives back as they were.

Inside a dataclass, MessagePack decodes by the annotations. Under one that says little (`Any`, a bare `list`, a class of
the user's own) a tuple would come back as a list and a dataclass as a dict; `__post_init__` would run a second time.
Records that may hold such fields are pickled.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import types
import typing
import uuid
from typing import Any

_ATOMS = frozenset({
    str, int, float, bool, bytes, decimal.Decimal, datetime.datetime, datetime.date, datetime.time, datetime.timedelta,
    uuid.UUID, types.NoneType, None,
})  # fmt: skip
_CONTAINERS = frozenset({tuple, list, dict, set, frozenset})


def restores_exactly(hint: Any, inside: set[type]) -> bool:
    """Whether values that fit the annotation come back equal and of the same classes. Adds the dataclasses in it."""
    if hint in inside or hint in _ATOMS:
        return True
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        inside.add(hint)
        return fields_restore_exactly(hint, inside)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return all(type(member.value) in (int, str) for member in hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in _CONTAINERS or origin in (typing.Union, types.UnionType):
        return all(a is Ellipsis or restores_exactly(a, inside) for a in arguments)
    return False


def fields_restore_exactly(cls: type, inside: set[type]) -> bool:
    """The same for the fields of a dataclass; the class itself is added only when it occurs in them again."""
    if hasattr(cls, "__post_init__"):
        return False
    try:
        hints = typing.get_type_hints(cls)
    except Exception:  # names that exist only where the class was defined
        return False
    return all(restores_exactly(hints[field.name], inside) for field in dataclasses.fields(cls))
