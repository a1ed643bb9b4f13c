"""Determines which records survive a round trip through MessagePack unchanged, including their classes and `repr`.

MessagePack has no classes: the reader's annotations determine what is decoded. So records are only encoded with it if
every value in them is exactly what decoding by the annotations returns. All records of a buffer are checked, not a
sample: the set of classes in each column, at every depth. Any other record is pickled.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import types
import typing
import uuid
from collections.abc import Callable, Iterable
from itertools import chain
from operator import attrgetter, itemgetter
from types import NoneType
from typing import Any

from millstream.core.records.types import BasicType, ListType, MapType, TupleType, TypeInformation

Check = Callable[[Iterable[Any]], bool]
"""Whether all values of an iterable are decoded exactly; iterates once."""
_Content = Callable[[list[Any]], bool]

_PLAIN = frozenset({str, int, float, bool, bytes})
_LISTS = frozenset({list, set, frozenset})
_ATTRIBUTES = attrgetter("__dict__")


def is_plain(type: TypeInformation) -> bool:
    """Whether records consist of text, numbers, bytes and containers of these: no class that a pickle has to name."""
    match type:
        case BasicType():
            return type.python_type in _PLAIN
        case TupleType(fields):
            return all(map(is_plain, fields))
        case ListType(element):
            return is_plain(element)
        case MapType(key, value):
            return is_plain(key) and is_plain(value)
    return False


def exact_check(hint: Any) -> Check | None:
    """Returns a check whether values decoded by the annotation equal the encoded ones; None: they never do."""
    try:
        return _compiled(hint, {})
    except (TypeError, NameError, AttributeError):  # annotations that exist only where their class was defined
        return None


def _compiled(hint: Any, known: dict[type, list[_Content]]) -> Check | None:
    nullable = False
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        members = typing.get_args(hint)
        concrete = [member for member in members if member is not NoneType]
        if len(concrete) != 1:
            return _of_classes(frozenset(members)) if _PLAIN.issuperset(concrete) else None
        hint, nullable = concrete[0], NoneType in members
    if hint in _PLAIN or hint is datetime.date or hint is datetime.timedelta or hint is decimal.Decimal:
        return _of_classes(frozenset({hint, NoneType} if nullable else {hint}))
    found = _class_and_content(hint, known)
    return None if found is None else _nested(*found, nullable)


def _of_classes(allowed: frozenset[type]) -> Check:
    return lambda values: set(map(type, values)) <= allowed


def _nested(kind: type, content: _Content, nullable: bool) -> Check:
    allowed = frozenset({kind, NoneType} if nullable else {kind})

    def check(column: Iterable[Any]) -> bool:
        values = column if isinstance(column, list) else list(column)
        kinds = set(map(type, values))
        if not kinds <= allowed:
            return False
        return content([v for v in values if v is not None] if NoneType in kinds else values)

    return check


def _class_and_content(hint: Any, known: dict[type, list[_Content]]) -> tuple[type, _Content] | None:
    """The only class that values of the annotation have, and a check of their contents."""
    if hint is datetime.datetime:
        return hint, _are_local_or_utc
    if hint is datetime.time:
        return hint, _are_local
    if hint is uuid.UUID:
        return hint, _are_ordinary
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        by_value = not issubclass(hint, enum.Flag) and all(type(member.value) in (int, str) for member in hint)
        return (hint, lambda values: True) if by_value else None
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        content = _dataclass(hint, known)
        return None if content is None else (hint, content)
    return _container(typing.get_origin(hint), typing.get_args(hint), known)


def _container(origin: Any, arguments: Any, known: dict[type, list[_Content]]) -> tuple[type, _Content] | None:
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        origin, arguments = tuple, arguments[:1]
    elif origin is tuple:
        inner = [_compiled(argument, known) for argument in arguments]
        return None if None in inner else (tuple, _fixed_tuples([check for check in inner if check is not None]))
    elif origin is dict and len(arguments) == 2:
        key, value = _compiled(arguments[0], known), _compiled(arguments[1], known)
        if key is None or value is None:
            return None
        return (
            dict,
            lambda values: key(chain.from_iterable(values)) and value(chain.from_iterable(v.values() for v in values)),
        )
    elif origin not in _LISTS or len(arguments) != 1:
        return None
    element = _compiled(arguments[0], known)
    return None if element is None else (origin, lambda values: element(chain.from_iterable(values)))


def _fixed_tuples(fields: list[Check]) -> _Content:
    getters = [itemgetter(i) for i in range(len(fields))]

    def check(values: list[Any]) -> bool:
        if not set(map(len, values)) <= {len(fields)}:
            return False
        return all(field(map(get, values)) for get, field in zip(getters, fields, strict=True))

    return check


def _dataclass(cls: type, known: dict[type, list[_Content]]) -> _Content | None:
    """Checks instances that consist of their fields and nothing else. `__post_init__` would run a second time."""
    if cls in known:
        content = known[cls]  # it contains itself: filled in by the caller
        return lambda values: not values or content[0](values)
    names = [field.name for field in dataclasses.fields(cls)]
    if not names or hasattr(cls, "__post_init__") or "__new__" in _own(cls) or not _slots(cls) <= {*names}:
        return None
    known[cls] = []
    hints = typing.get_type_hints(cls, include_extras=True)
    checks = [_compiled(hints[name], known) for name in names]
    if None in checks:
        return None
    fields = [(name, check) for name, check in zip(names, checks, strict=True) if check is not None]
    known[cls].append(_slotted(fields) if cls.__dictoffset__ == 0 else _with_attributes(fields))
    return known[cls][0]


def _own(cls: type) -> set[str]:
    """The names that the class and its bases define in addition to those of every object."""
    return {name for base in cls.__mro__[:-1] for name in vars(base)}


def _slots(cls: type) -> set[str]:
    own = (vars(base).get("__slots__", ()) for base in cls.__mro__)
    return set(chain.from_iterable((s,) if isinstance(s, str) else s for s in own)) - {"__dict__", "__weakref__"}


def _with_attributes(fields: list[tuple[str, Check]]) -> _Content:
    getters = [(itemgetter(name), check) for name, check in fields]

    def check(values: list[Any]) -> bool:
        attributes = list(map(_ATTRIBUTES, values))
        if not set(map(len, attributes)) <= {len(fields)}:
            return False  # with attributes that are not fields
        try:
            return all(field(map(get, attributes)) for get, field in getters)
        except KeyError:
            return False  # a field that was deleted

    return check


def _slotted(fields: list[tuple[str, Check]]) -> _Content:
    getters = [(attrgetter(name), check) for name, check in fields]

    def check(values: list[Any]) -> bool:
        try:
            return all(field(map(get, values)) for get, field in getters)
        except AttributeError:
            return False  # a field that was deleted

    return check


def _are_local_or_utc(values: list[Any]) -> bool:
    """An aware time is decoded in UTC, and the second of two equal hours as the first."""
    aware = [at for at in values if at.tzinfo is not None or at.fold]
    return not aware or all(at.tzinfo is datetime.UTC and not at.fold for at in aware)


def _are_local(values: list[Any]) -> bool:
    return not any(at.tzinfo is not None or at.fold for at in values)


def _are_ordinary(values: list[Any]) -> bool:
    return all(value.is_safe is uuid.SafeUUID.unknown for value in values)
