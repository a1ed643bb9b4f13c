"""Records from their fields' columns: tuples, rows, and dataclass instances with their fields as they were stored.

A dataclass with the constructor that `@dataclass` makes is called in bulk. One with `__post_init__`, or with fields
that its constructor does not take, is constructed and then gets the stored values of all fields, so that what its
constructor computes again (an id, a time) does not replace what was stored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from enum import Enum
from itertools import repeat
from types import NoneType
from typing import Any

from millstream.core.records.exact_values import InexactError
from millstream.core.records.types import DataclassType, RowType, TypeInformation
from millstream.core.row import Row, RowKind, kind_of, names_of
from millstream.core.snapshot.metadata.types_json import has_default


class Held(Enum):
    """What is required of values that come back from a column."""

    EXACTLY = "exactly"  # the same, down to classes and repr
    EXACTLY_AS_KEYS = "exactly as keys"  # the same, for the keys of maps
    AS_KEYS = "as keys"  # equal, which is how keys are found


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
        of_names, names = Row.of_names, type.row_names
        return [of_names(names, values) for values in zip(*present, strict=True)]
    return list(zip(*present, strict=True))


def check_classes(values: Sequence[Any], type: TypeInformation, held: Held) -> None:
    """Refuses records that `assemble` would not make again.

    Of keys, those are taken that equal what it makes: a named tuple is the tuple of its values.
    """
    kinds = set(map(_class_of, values)) - {NoneType}
    wanted = type.cls if isinstance(type, DataclassType) else Row if isinstance(type, RowType) else tuple
    others = kinds - {wanted}
    if held is Held.AS_KEYS and wanted is tuple:
        others = {kind for kind in kinds if not issubclass(kind, tuple)}
    if others:
        number, value = next((n, v) for n, v in enumerate(values) if v.__class__ in others)
        lost = "it would lose its class" if held is Held.EXACTLY else "as a key it would not be found"
        raise InexactError(number, value, f"it is a {value.__class__.__qualname__}, so {lost} after a restore")
    if isinstance(type, RowType):
        names = type.row_names
        for number, row in enumerate(values):
            if row is None:
                continue
            if names_of(row) != names:
                lost = "they would change" if held is Held.EXACTLY else "as a key it would not be found"
                raise InexactError(number, row, f"its fields have other names, so {lost} after a restore")
            if kind_of(row) is not RowKind.INSERT:
                raise InexactError(
                    number, row, f"it is of the kind {kind_of(row)}, which would be lost after a restore"
                )


def _instances(cls: type, columns: _Columns, count: int) -> list[Any]:
    fields = dataclasses.fields(cls)
    filled = [_defaults(f, count) if c is None else c for f, c in zip(fields, columns, strict=True)]
    generated = "__init__" in cls.__dict__ and getattr(cls, "__dataclass_params__").init  # noqa: B009  # not typed
    if generated and not hasattr(cls, "__post_init__") and all(f.init and not f.kw_only for f in fields):
        return list(map(cls, *filled))
    return [_restored(cls, fields, values) for values in zip(*filled, strict=True)]


def _defaults(field: dataclasses.Field[Any], count: int) -> list[Any]:
    make = field.default_factory
    return list(repeat(field.default, count)) if make is dataclasses.MISSING else [make() for _ in range(count)]


def _restored(cls: type, fields: tuple[dataclasses.Field[Any], ...], values: tuple[Any, ...]) -> Any:
    try:
        instance = cls(**{f.name: value for f, value in zip(fields, values, strict=True) if f.init})
    except TypeError:  # a constructor of its own, with other parameters
        instance = object.__new__(cls)
    for field, value in zip(fields, values, strict=True):
        object.__setattr__(instance, field.name, value)
    return instance
