"""The type of Python's values: from hints, dataclasses and `TypeInformation`.

A hint is NOT NULL unless it allows None. What a hint cannot say, a logical type in `Annotated` does:

    amount: Annotated[Decimal, DecimalType(10, 2)]
    name: Annotated[str, VarCharType(20)] | None

Whether the annotated value may be NULL is still the hint's. Without one, a type has room for all that Python's class
holds, as columns do: TIMESTAMP(6), STRING, DECIMAL(38, 18). What has no columns is pickled, as `types.from_hint` does:
several classes, named tuples, and a dataclass inside itself.

A `TypeInformation` does not say what may be None, so all of it may be, but the keys of maps, which no column holds.
A tuple and a dataclass become a ROW; their class is not part of it. `Types.BIG_INT`, which has no bound, becomes
DECIMAL(38, 0).
"""

from __future__ import annotations

import datetime
import decimal
import typing
from collections import Counter
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Union

from millstream.core.records import types as t
from millstream.core.records.schema import atomic_types as a
from millstream.core.records.schema.errors import InvalidTypeError
from millstream.core.records.schema.interval_types import (
    DayTimeIntervalType,
    DayTimeResolution,
    YearMonthIntervalType,
)
from millstream.core.records.schema.logical_type import BYTES, STRING, LogicalType
from millstream.core.records.schema.nested_types import ArrayOf, Field, MapOf, MultisetOf, RawType, RowOf, pickled
from millstream.core.records.schema.schema import Schema

_OF_CLASS: dict[Any, LogicalType] = {
    str: STRING,
    bool: a.BooleanType(),
    int: a.BigIntType(),
    float: a.DoubleType(),
    bytes: BYTES,
    decimal.Decimal: a.DecimalType(38, 18),
    datetime.datetime: a.TimestampType(6),
    datetime.date: a.DateType(),
    datetime.time: a.TimeType(6),
    datetime.timedelta: DayTimeIntervalType(DayTimeResolution.DAY_TO_SECOND, 6, 6),
}

_ALSO: dict[Any, tuple[type[LogicalType], ...]] = {
    str: (a.CharType,),
    int: (a.TinyIntType, a.SmallIntType, a.IntType, YearMonthIntervalType),
    float: (a.FloatType,),
    bytes: (a.BinaryType,),
    datetime.datetime: (a.LocalZonedTimestampType, a.ZonedTimestampType),
    list: (ArrayOf,),
    dict: (MapOf, MultisetOf),
    Counter: (MultisetOf,),
    tuple: (RowOf,),
}

_OF_INFORMATION: dict[t.TypeInformation, LogicalType] = {
    t.STRING: STRING,
    t.BOOLEAN: a.BooleanType(),
    t.BYTE: a.TinyIntType(),
    t.SHORT: a.SmallIntType(),
    t.INT: a.IntType(),
    t.LONG: a.BigIntType(),
    t.FLOAT: a.FloatType(),
    t.DOUBLE: a.DoubleType(),
    t.BIG_INT: a.DecimalType(38, 0),
    t.BIG_DEC: a.DecimalType(38, 18),
    t.BYTES: BYTES,
    t.INSTANT: a.LocalZonedTimestampType(6),
    t.DATE: a.DateType(),
    t.TIME: a.TimeType(6),
    t.TIMESTAMP: a.TimestampType(6),
    t.PICKLED: pickled(),
}


def logical_type_of(hint: Any) -> LogicalType:
    """Returns the type of the values that a Python annotation declares."""
    return _of_hint(hint, ())


def schema_of(cls: type) -> Schema:
    """Returns the columns of a dataclass."""
    if not is_dataclass(cls):
        raise InvalidTypeError(f"{cls!r:.200} is not a dataclass, so no columns are known of it")
    return Schema.of_row(_of_dataclass(cls, ()))


def from_type_information(information: t.TypeInformation) -> LogicalType:
    """Returns the type of a stream's records or of a state's values, which may be NULL."""
    match information:
        case t.TupleType(fields=types) | t.RowType(fields=types):
            names = information.field_names() or []
            return RowOf(tuple(Field(n, from_type_information(i)) for n, i in zip(names, types, strict=True)))
        case t.DataclassType(cls=cls):
            return _of_dataclass(cls, ()).with_nullable(True)
        case t.ListType(element=element):
            return ArrayOf(from_type_information(element))
        case t.MapType(key=key, value=value):
            return MapOf(from_type_information(key).not_null(), from_type_information(value))
        case t.BasicType(name="Character"):
            return a.CharType(1)
    known = _OF_INFORMATION.get(information)
    if known is None:
        raise InvalidTypeError(f"No logical type stands for {information.describe()}")
    return known


def _of_hint(hint: Any, inside: tuple[type, ...]) -> LogicalType:
    while isinstance(hint, typing.NewType):
        hint = hint.__supertype__
    if isinstance(hint, t.TypeInformation):
        return from_type_information(hint)
    if hint in (None, NoneType):
        return a.NullType()
    if isinstance(hint, type) and hint in _OF_CLASS:
        return _OF_CLASS[hint].not_null()
    if isinstance(hint, type) and is_dataclass(hint):
        return pickled(nullable=False) if hint in inside else _of_dataclass(hint, inside)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _of_annotated(arguments[0], arguments[1:], inside)
    if origin in (Union, UnionType):
        concrete = [argument for argument in arguments if argument is not NoneType]
        of_one = _of_hint(concrete[0], inside) if len(concrete) == 1 else pickled(nullable=False)
        return of_one.with_nullable(True) if len(concrete) < len(arguments) else of_one
    if origin in (list, dict, Counter, tuple) and arguments and arguments[-1] is not Ellipsis:
        inner = [_of_hint(argument, inside) for argument in arguments]
        if origin is tuple:
            return RowOf(tuple(Field(f"f{i}", type) for i, type in enumerate(inner)), nullable=False)
        nested = ArrayOf if origin is list else MapOf if origin is dict else MultisetOf
        return nested(*inner, nullable=False)
    return pickled(nullable=hint in (Any, object) or isinstance(hint, typing.TypeVar))


def _of_annotated(hint: Any, annotations: tuple[Any, ...], inside: tuple[type, ...]) -> LogicalType:
    by_itself = _of_hint(hint, inside)
    declared = [annotation for annotation in annotations if isinstance(annotation, LogicalType)]
    if not declared:
        return by_itself
    if len(declared) > 1 or not _fits(declared[0], hint):
        raise InvalidTypeError(f"The values of {hint!r} are not of the type {' and '.join(map(repr, declared))}")
    return declared[0].with_nullable(by_itself.nullable)


def _fits(type: LogicalType, hint: Any) -> bool:
    """Whether values of the annotation can be of the type."""
    while isinstance(hint, typing.NewType):
        hint = hint.__supertype__
    origin = typing.get_origin(hint) or hint
    if origin in (Union, UnionType):
        return any(_fits(type, argument) for argument in typing.get_args(hint) if argument is not NoneType)
    if isinstance(type, RawType):
        return True
    if is_dataclass(origin):
        return isinstance(type, RowOf)
    own = (_OF_CLASS[origin].__class__,) if origin in _OF_CLASS else ()
    return isinstance(type, own + _ALSO.get(origin, ()))


def _of_dataclass(cls: type, inside: tuple[type, ...]) -> RowOf:
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        raise InvalidTypeError(
            f"The annotations of {cls.__qualname__} cannot be resolved: {error}; define or import the names at the top "
            "level of the module of the dataclass, and not only for type checking"
        ) from error
    columns = []
    for field in fields(cls):
        try:
            columns.append(Field(field.name, _of_hint(hints[field.name], (*inside, cls))))
        except InvalidTypeError as error:
            raise InvalidTypeError(f"The field '{field.name}' of {cls.__qualname__}: {error}") from error
    return RowOf(tuple(columns), nullable=False)
