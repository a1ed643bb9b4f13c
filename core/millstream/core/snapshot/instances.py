"""Records from their fields' columns: tuples, rows, and dataclass instances with their fields as they were stored.

A dataclass with the constructor that `@dataclass` makes is called in bulk. One with `__post_init__`, or with fields
that its constructor does not take, is constructed and then gets the stored values of all fields, so that what its
constructor computes anew (an id, a time) does not replace what was stored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import repeat
from types import NoneType
from typing import Any

from millstream.core.row import Row
from millstream.core.snapshot.types_json import has_default, is_missing
from millstream.core.types import DataclassType, RowType, TypeInformation

_Columns = Sequence[list[Any] | None]
_class_of = type


def fill_from(type: TypeInformation) -> frozenset[str]:
    """The fields that have a value when a snapshot has none for them."""
    if not isinstance(type, DataclassType):
        return frozenset()
    return frozenset(f.name for f in dataclasses.fields(type.cls) if has_default(f))


def assemble(columns: _Columns, count: int, type: TypeInformation) -> list[Any]:
    """The records of a type with fields; a column that is None is a field that takes its default."""
    if isinstance(type, DataclassType):
        return _instances(type.cls, columns, count)
    present = [column for column in columns if column is not None]
    if isinstance(type, RowType):
        of_names, names = Row.of_names, type.names
        return [of_names(names, values) for values in zip(*present, strict=True)]
    return list(zip(*present, strict=True))


def check_classes(values: Sequence[Any], type: TypeInformation, keys: bool) -> None:
    """Refuses records that `assemble` would not make again.

    An instance of a subclass would lose what the subclass adds. Other classes with the type's fields are taken, but
    not as keys: a tuple does not equal the row that it would become, and nobody would find it again.
    """
    if not keys and not isinstance(type, DataclassType):
        return
    kinds = set(map(_class_of, values)) - {NoneType}
    if isinstance(type, DataclassType):
        others = [kind for kind in kinds if kind is not type.cls and (keys or issubclass(kind, type.cls))]
    elif isinstance(type, RowType):
        others = list(kinds - {Row})
        if not others and any(row is not None and row.names != type.names for row in values):
            raise TypeError("its fields have other names, so as a key it would not be found after a restore")
    else:
        others = [kind for kind in kinds if not issubclass(kind, tuple)]
    if others:
        lost = "as a key it would not be found" if keys else "it would lose its class"
        raise TypeError(f"it is a {others[0].__qualname__}, so {lost} after a restore")


def _instances(cls: type, columns: _Columns, count: int) -> list[Any]:
    fields = dataclasses.fields(cls)
    filled = [_defaults(f, count) if c is None else c for f, c in zip(fields, columns, strict=True)]
    generated = "__init__" in cls.__dict__ and getattr(cls, "__dataclass_params__").init  # noqa: B009  # not typed
    if generated and not hasattr(cls, "__post_init__") and all(f.init and not f.kw_only for f in fields):
        return list(map(cls, *filled))
    return [_restored(cls, fields, values) for values in zip(*filled, strict=True)]


def _defaults(field: dataclasses.Field[Any], count: int) -> list[Any]:
    if is_missing(field.default_factory):
        return list(repeat(field.default, count))
    make: Any = field.default_factory
    return [make() for _ in range(count)]


def _restored(cls: type, fields: tuple[dataclasses.Field[Any], ...], values: tuple[Any, ...]) -> Any:
    try:
        instance = cls(**{f.name: value for f, value in zip(fields, values, strict=True) if f.init})
    except TypeError:  # a constructor of its own, with other parameters
        instance = object.__new__(cls)
    for field, value in zip(fields, values, strict=True):
        object.__setattr__(instance, field.name, value)
    return instance
