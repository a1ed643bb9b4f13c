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


def restores_exactly(hint: Any, dataclasses_met: set[type]) -> bool:
    """Whether values that fit the annotation come back equal and of the same classes. Adds the dataclasses in it."""
    if hint in dataclasses_met or hint in _ATOMS:
        return True
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        dataclasses_met.add(hint)
        return _fields_restore(hint, dataclasses_met)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return all(type(member.value) in (int, str) for member in hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in _CONTAINERS or origin in (typing.Union, types.UnionType):
        return all(a is Ellipsis or restores_exactly(a, dataclasses_met) for a in arguments)
    return False


def _fields_restore(cls: type, dataclasses_met: set[type]) -> bool:
    if hasattr(cls, "__post_init__"):
        return False
    try:
        hints = typing.get_type_hints(cls)
    except Exception:  # names that exist only where the class was defined
        return False
    return all(restores_exactly(hints[field.name], dataclasses_met) for field in dataclasses.fields(cls))
