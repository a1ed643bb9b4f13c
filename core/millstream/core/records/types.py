"""Type information: the type of records, which determines their encoding and their columns.

A type holds three things: which Python type MessagePack decodes it to (None: it has to be pickled), which Arrow
type a column of it has (None: no columns), and how it is written: for people by `describe`, as Flink does, and as a
Python object as PyFlink does, since programs print and compare that. It never reads a record.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import typing
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, Optional, TypeAlias, Union
from weakref import WeakKeyDictionary

from millstream.core.overriding import override
from millstream.core.records.type_variables import T_co


class TypeInformation(Generic[T_co]):
    """The type of the records of a stream or of the values of a state: `TypeInformation[str]` for text.

    Programs get it from `Types`, or use a type hint or a dataclass instead.
    """

    def wire_type(self) -> Any | None:
        """The type for msgspec's decoder, or None when records have to be pickled."""
        return None

    def arrow_type(self) -> Any | None:
        """The pyarrow type of a column, or None."""
        return None

    def field_names(self) -> list[str] | None:
        """The names of the columns that a record of this type becomes, or None for a single value."""
        return None

    def describe(self) -> str:
        """Returns the type's description, as in `Tuple<String, Long>`."""
        raise NotImplementedError

    def need_conversion(self) -> bool:
        """Whether values need a conversion inside the engine: never, they are Python objects everywhere."""
        return False

    def to_internal_type(self, obj: Any) -> Any:
        """Returns the engine's form of the value `obj`; the same object unless a type overrides this."""
        return obj

    def from_internal_type(self, obj: Any) -> Any:
        """Returns the value of `obj`, which is the engine's form of it.

        The same object unless a type overrides this.
        """
        return obj

    def __repr__(self) -> str:
        return self.describe()

    def __str__(self) -> str:
        return repr(self)


class _NoType:
    """No value is of this class: it only makes `AnyType` wider than a type with a parameter, as mypy asks for."""


AnyType: TypeAlias = TypeInformation[object] | type[object] | _NoType
"""For the overloads that mypy selects when a declared type is not the one that the caller expects.

Without them it would select the overloads for hints that it does not know, whose results are `Any`, and report nothing:
`count: ValueState[str] = context.get_state("count", int)`.
"""


@dataclass(frozen=True, repr=False)
class BasicType(TypeInformation[T_co]):
    """A primitive: its name in Flink, its Python type, and the name of pyarrow's factory."""

    name: str
    python_type: type
    arrow_factory: str | None

    def wire_type(self) -> Any | None:
        """MessagePack reads it as its Python type, or None inside a nullable field."""
        return self.python_type | None if self.python_type is not NoneType else None

    def arrow_type(self) -> Any | None:
        """By pyarrow's factory."""
        import pyarrow as pa

        if self.arrow_factory is None:
            return None
        if self.arrow_factory == "timestamp":
            return pa.timestamp("us")
        if self.arrow_factory == "moment":
            return pa.timestamp("us", "UTC")
        if self.arrow_factory == "decimal128":
            return pa.decimal128(38, 18)
        if self.arrow_factory == "time64":
            return pa.time64("us")
        return getattr(pa, self.arrow_factory)()

    def describe(self) -> str:
        """Its name in Flink."""
        return self.name

    def __repr__(self) -> str:
        return _PYFLINKS_NAMES.get(self.name, self.name)


_PYFLINKS_NAMES = {
    "Character": "Char", "Bytes": "PrimitiveArrayTypeInfo<Byte>", "Date": "DateTypeInfo", "Time": "TimeTypeInfo",
    "Timestamp": "TimestampTypeInfo",
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class PickledType(TypeInformation):
    """Any type: pickled, never inspected."""

    def describe(self) -> str:
        """PyFlink's name."""
        return "PickledByteArray"

    def __repr__(self) -> str:
        return "PickledByteArrayTypeInfo"


@dataclass(frozen=True, repr=False)
class TupleType(TypeInformation[tuple[Any, ...]]):
    """A tuple of known types. Its fields have names only as columns."""

    fields: tuple[TypeInformation, ...]
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))  # PyFlink's programs give lists

    def get_field_types(self) -> list[TypeInformation]:
        """PyFlink's accessor."""
        return list(self.fields)

    def wire_type(self) -> Any | None:
        """A fixed tuple."""
        inner = [nullable(f.wire_type()) for f in self.fields]
        return None if any(t is None for t in inner) else tuple[tuple(inner)]  # type: ignore[misc]  # built at run time

    def arrow_type(self) -> Any | None:
        """A struct of its fields."""
        return _struct(self.field_names(), self.fields)

    def field_names(self) -> list[str]:
        """Its names, else Flink's for tuple fields."""
        return list(self.names) if self.names is not None else [f"f{i}" for i in range(len(self.fields))]

    def describe(self) -> str:
        """As Flink writes it."""
        return f"Tuple{len(self.fields)}<{', '.join(f.describe() for f in self.fields)}>"

    def __repr__(self) -> str:
        return f"TupleTypeInfo({', '.join(map(repr, self.fields))})"


@dataclass(frozen=True, repr=False)
class RowType(TypeInformation):
    """A `Row`, with or without names."""

    fields: tuple[TypeInformation, ...]
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))  # PyFlink's programs give lists
        object.__setattr__(self, "names", None if self.names is None else tuple(self.names))

    def arrow_type(self) -> Any | None:
        """A struct of its fields."""
        return _struct(self.field_names() or [], self.fields)

    @property
    def row_names(self) -> tuple[str, ...]:
        """The names that its rows have: its own, else f0, f1, ..."""
        return self.names if self.names is not None else tuple(f"f{i}" for i in range(len(self.fields)))

    def field_names(self) -> list[str] | None:
        """The names that its rows have."""
        return list(self.row_names)

    def get_field_names(self) -> list[str] | None:
        """PyFlink's accessor."""
        return self.field_names()

    def get_field_types(self) -> list[TypeInformation]:
        """PyFlink's accessor."""
        return list(self.fields)

    def get_field_index(self, field_name: str) -> int:
        """The position of a field; -1 when there is none of the name."""
        return self.row_names.index(field_name) if field_name in self.row_names else -1

    def describe(self) -> str:
        """As Flink writes it."""
        inner = ", ".join(f"{n}: {f.describe()}" for n, f in zip(self.field_names() or [], self.fields, strict=True))
        return f"Row({inner})"

    def __repr__(self) -> str:
        if self.names is None:
            return f"RowTypeInfo({', '.join(map(repr, self.fields))})"
        return f"RowTypeInfo({', '.join(f'{n}: {f!r}' for n, f in zip(self.names, self.fields, strict=True))})"


@dataclass(frozen=True, repr=False)
class ListType(TypeInformation[list[Any]]):
    """A list of one element type; arrays are lists too, and only written in another way."""

    element: TypeInformation
    written: str = dataclasses.field(default="ListTypeInfo", compare=False)
    """PyFlink's name of such lists."""

    @override
    def wire_type(self) -> Any | None:
        inner = nullable(self.element.wire_type())
        return None if inner is None else list[inner] | None  # type: ignore[valid-type]  # built at run time

    @override
    def arrow_type(self) -> Any | None:
        import pyarrow as pa

        inner = self.element.arrow_type()
        return None if inner is None else pa.list_(inner)

    def describe(self) -> str:
        """As Flink writes it."""
        return f"List<{self.element.describe()}>"

    def __repr__(self) -> str:
        return f"{self.written}<{self.element!r}>"


@dataclass(frozen=True, repr=False)
class MapType(TypeInformation[dict[Any, Any]]):
    """A dict of one key and one value type."""

    key: TypeInformation
    value: TypeInformation

    @override
    def wire_type(self) -> Any | None:
        key, value = nullable(self.key.wire_type()), nullable(self.value.wire_type())
        return None if key is None or value is None else dict[key, value] | None  # type: ignore[valid-type]  # built at run time

    @override
    def arrow_type(self) -> Any | None:
        import pyarrow as pa

        key, value = self.key.arrow_type(), self.value.arrow_type()
        return None if key is None or value is None else pa.map_(key, value)

    def describe(self) -> str:
        """As Flink writes it."""
        return f"Map<{self.key.describe()}, {self.value.describe()}>"

    def __repr__(self) -> str:
        return f"MapTypeInfo<{self.key!r}, {self.value!r}>"


@dataclass(frozen=True, repr=False)
class DataclassType(TypeInformation):
    """Instances of exactly one dataclass."""

    cls: type

    def wire_type(self) -> Any | None:
        """The class itself: msgspec writes and reads dataclasses."""
        return self.cls

    def field_types(self) -> list[TypeInformation]:
        """Its fields' types, from their annotations."""
        hints = self._hints()
        return [from_hint(hints[f.name]) for f in dataclasses.fields(self.cls)]

    def required_fields(self) -> set[str]:
        """The names of the fields that are never None, by their annotations."""
        hints = self._hints()
        return {f.name for f in dataclasses.fields(self.cls) if not _allows_none(hints[f.name])}

    def _hints(self) -> dict[str, Any]:
        try:
            return typing.get_type_hints(self.cls)
        except NameError as error:
            raise TypeError(
                f"the annotations of {self.cls.__qualname__} cannot be resolved: {error}; define or import the name at "
                "the top level of the module of the dataclass, and not only for type checking"
            ) from error

    def arrow_type(self) -> Any | None:
        """A struct of its fields; a class that contains itself has no column."""
        return None if self._contains_itself() else _struct(self.field_names() or [], self.field_types())

    @override
    def field_names(self) -> list[str] | None:
        return [f.name for f in dataclasses.fields(self.cls)]

    def describe(self) -> str:
        """The class's name and fields; only the name when it contains itself."""
        if self._contains_itself():
            return self.cls.__qualname__
        inner = ", ".join(
            f"{n}: {t.describe()}" for n, t in zip(self.field_names() or [], self.field_types(), strict=True)
        )
        return f"{self.cls.__qualname__}({inner})"

    def _contains_itself(self) -> bool:
        seen: set[type] = set()
        pending = self.field_types()
        while pending:
            match pending.pop():
                case DataclassType(cls) as inner if cls not in seen:
                    seen.add(cls)
                    pending += inner.field_types()
                case TupleType(fields) | RowType(fields):
                    pending += fields
                case ListType(element):
                    pending.append(element)
                case MapType(key, value):
                    pending += (key, value)
        return self.cls in seen


def nullable(wire_type: Any | None) -> Any | None:
    """Returns the MessagePack type of a value that is part of another and may be None."""
    return None if wire_type is None else Optional[wire_type]  # noqa: UP045  # the class of a class may have an operator of its own


def _struct(names: list[str], fields: typing.Iterable[TypeInformation]) -> Any | None:
    import pyarrow as pa

    inner = [f.arrow_type() for f in fields]
    return None if any(t is None for t in inner) else pa.struct(list(zip(names, inner, strict=True)))


STRING: BasicType[str] = BasicType("String", str, "string")
BOOLEAN: BasicType[bool] = BasicType("Boolean", bool, "bool_")
BYTE: BasicType[int] = BasicType("Byte", int, "int8")
SHORT: BasicType[int] = BasicType("Short", int, "int16")
INT: BasicType[int] = BasicType("Integer", int, "int32")
LONG: BasicType[int] = BasicType("Long", int, "int64")
FLOAT: BasicType[float] = BasicType("Float", float, "float32")
DOUBLE: BasicType[float] = BasicType("Double", float, "float64")
BIG_INT: BasicType[int] = BasicType("BigInteger", int, None)
BIG_DEC: BasicType[decimal.Decimal] = BasicType("BigDecimal", decimal.Decimal, "decimal128")
BYTES: BasicType[bytes] = BasicType("Bytes", bytes, "binary")
INSTANT: BasicType[datetime.datetime] = BasicType("Instant", datetime.datetime, "moment")
DATE: BasicType[datetime.date] = BasicType("Date", datetime.date, "date32")
TIME: BasicType[datetime.time] = BasicType("Time", datetime.time, "time64")
TIMESTAMP: BasicType[datetime.datetime] = BasicType("Timestamp", datetime.datetime, "timestamp")
PICKLED = PickledType()

_FROM_PYTHON: dict[Any, TypeInformation] = {
    str: STRING, bool: BOOLEAN, int: LONG, float: DOUBLE, bytes: BYTES, decimal.Decimal: BIG_DEC,
    datetime.datetime: TIMESTAMP, datetime.date: DATE, datetime.time: TIME,
}  # fmt: skip


def from_hint(hint: Any) -> TypeInformation:
    """Returns the type that a Python annotation declares; types that cannot be derived are pickled."""
    while isinstance(hint, typing.NewType):
        hint = hint.__supertype__
    if isinstance(hint, TypeInformation):
        return hint
    if isinstance(hint, type) and hint in _FROM_PYTHON:
        return _FROM_PYTHON[hint]
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return DataclassType(hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return from_hint(arguments[0])
    if origin is tuple and arguments and arguments[-1] is not Ellipsis:
        return TupleType(tuple(from_hint(a) for a in arguments))
    if origin is list and len(arguments) == 1:
        return ListType(from_hint(arguments[0]))
    if origin is dict and len(arguments) == 2:
        return MapType(from_hint(arguments[0]), from_hint(arguments[1]))
    if origin in (Union, UnionType):
        concrete = [a for a in arguments if a is not NoneType]
        inner = from_hint(concrete[0]) if len(concrete) == 1 else PICKLED
        return PICKLED if isinstance(inner, TupleType | DataclassType) and not _has_columns(concrete[0], ()) else inner
    return PICKLED


def _allows_none(hint: Any) -> bool:
    while isinstance(hint, typing.NewType):
        hint = hint.__supertype__
    if typing.get_origin(hint) in (Union, UnionType):
        return any(map(_allows_none, typing.get_args(hint)))
    return hint in (Any, object, None, NoneType) or isinstance(hint, TypeInformation | typing.TypeVar)


_HAVE_COLUMNS: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


def _has_columns(hint: Any, inside: tuple[type, ...]) -> bool:
    """Whether no dataclass that the annotation names leads back to itself, is empty or cannot be resolved.

    As an optional value such a one is pickled, as the rest of a linked list is: the class around it keeps its columns.
    """
    if isinstance(hint, typing.NewType):
        return _has_columns(hint.__supertype__, inside)
    if not isinstance(hint, type) or not dataclasses.is_dataclass(hint):
        return all(_has_columns(argument, inside) for argument in typing.get_args(hint))
    if inside:
        return hint not in inside and _have_columns(hint, inside)
    if hint not in _HAVE_COLUMNS:  # it is needed for each batch, and resolving annotations takes 30 us a class
        _HAVE_COLUMNS[hint] = _have_columns(hint, ())
    return _HAVE_COLUMNS[hint]


def _have_columns(cls: type, inside: tuple[type, ...]) -> bool:
    try:
        hints = typing.get_type_hints(cls)
    except Exception:  # whatever annotations raise that do not resolve
        return False
    fields = dataclasses.fields(cls)
    return bool(fields) and all(_has_columns(hints[f.name], (*inside, cls)) for f in fields)
