"""`Types`: PyFlink's factory of type information.

Wherever a factory takes another type, a Python type hint or a dataclass does as well: `Types.LIST(int)`,
`Types.TUPLE([str, int])`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.core.errors import InvalidProgramError
from millstream.core.records import types
from millstream.core.records.types import (
    BasicType,
    DataclassType,
    ListType,
    MapType,
    PickledType,
    RowType,
    TupleType,
    TypeInformation,
    from_hint,
)

__all__ = [
    "BasicType",
    "BasicTypeInfo",
    "DataclassType",
    "ListType",
    "ListTypeInfo",
    "MapType",
    "MapTypeInfo",
    "PickledBytesTypeInfo",
    "PickledType",
    "RowType",
    "RowTypeInfo",
    "TupleType",
    "TupleTypeInfo",
    "TypeInformation",
    "Types",
]

BasicTypeInfo = BasicType
ListTypeInfo = ListType
MapTypeInfo = MapType
PickledBytesTypeInfo = PickledType
RowTypeInfo = RowType
TupleTypeInfo = TupleType
"""PyFlink's names of the types, for programs that ask which one they have: `isinstance(kind, RowTypeInfo)`."""

_CHAR = BasicType("Character", str, "string")


def _fields(factory: str, field_types: Sequence[Any]) -> tuple[TypeInformation, ...]:
    if isinstance(field_types, str) or not isinstance(field_types, Sequence):
        raise InvalidProgramError(f"Types.{factory}: expected a list of types, got {field_types!r}")
    return tuple(from_hint(field) for field in field_types)


class Types:
    """What records are, in PyFlink's words."""

    @staticmethod
    def STRING() -> TypeInformation:  # noqa: N802  # PyFlink's name
        """Text: str."""
        return types.STRING

    @staticmethod
    def BYTE() -> TypeInformation:  # noqa: N802  # PyFlink's name
        """A whole number of 8 bits: int."""
        return types.BYTE

    @staticmethod
    def BOOLEAN() -> TypeInformation:  # noqa: N802  # PyFlink's name
        """True or false: bool."""
        return types.BOOLEAN

    @staticmethod
    def SHORT() -> TypeInformation:  # noqa: N802  # PyFlink's name
        """A whole number of 16 bits: int."""
        return types.SHORT

    @staticmethod
    def INT() -> TypeInformation:  # noqa: N802  # PyFlink's name
        """A whole number of 32 bits: int."""
        return types.INT

    @staticmethod
    def LONG() -> TypeInformation:  # noqa: N802  # PyFlink's name
        """A whole number of 64 bits: int."""
        return types.LONG

    @staticmethod
    def FLOAT() -> TypeInformation:  # noqa: N802  # PyFlink's name
        """A floating-point number of 32 bits: float."""
        return types.FLOAT

    @staticmethod
    def DOUBLE() -> TypeInformation:  # noqa: N802  # PyFlink's name
        """A floating-point number of 64 bits: float."""
        return types.DOUBLE

    @staticmethod
    def CHAR() -> TypeInformation:  # noqa: N802  # PyFlink's name
        """A single character: str."""
        return _CHAR

    @staticmethod
    def BIG_INT() -> TypeInformation:  # noqa: N802  # PyFlink's name
        """A whole number of any size: int."""
        return types.BIG_INT

    @staticmethod
    def BIG_DEC() -> TypeInformation:  # noqa: N802  # PyFlink's name
        """A decimal number: decimal.Decimal."""
        return types.BIG_DEC

    @staticmethod
    def INSTANT() -> TypeInformation:  # noqa: N802  # PyFlink's name
        """A point in time: datetime.datetime."""
        return types.INSTANT

    @staticmethod
    def SQL_DATE() -> TypeInformation:  # noqa: N802  # PyFlink's name
        """A day: datetime.date."""
        return types.DATE

    @staticmethod
    def SQL_TIME() -> TypeInformation:  # noqa: N802  # PyFlink's name
        """A time of day: datetime.time."""
        return types.TIME

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation:  # noqa: N802  # PyFlink's name
        """A date and time: datetime.datetime."""
        return types.TIMESTAMP

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation:  # noqa: N802  # PyFlink's name
        """Any Python object, pickled on its way."""
        return types.PICKLED

    @staticmethod
    def ROW(field_types: Sequence[Any]) -> TypeInformation:  # noqa: N802  # PyFlink's name
        """A `Row` whose fields have these types."""
        return RowType(_fields("ROW", field_types))

    @staticmethod
    def ROW_NAMED(field_names: Sequence[str], field_types: Sequence[Any]) -> TypeInformation:  # noqa: N802  # PyFlink's name
        """A `Row` whose fields have these names and types."""
        fields, names = _fields("ROW_NAMED", field_types), tuple(field_names)
        if len(names) != len(fields):
            raise InvalidProgramError(f"Types.ROW_NAMED: {len(names)} names for {len(fields)} types")
        if len(set(names)) != len(names):
            raise InvalidProgramError(f"Types.ROW_NAMED: a name occurs twice in {list(names)}")
        return RowType(fields, names)

    @staticmethod
    def TUPLE(field_types: Sequence[Any]) -> TypeInformation:  # noqa: N802  # PyFlink's name
        """A tuple whose fields have these types."""
        return TupleType(_fields("TUPLE", field_types))

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: Any) -> TypeInformation:  # noqa: N802  # PyFlink's name
        """A list of numbers or booleans; of `Types.BYTE()`: bytes, as in PyFlink."""
        element = from_hint(element_type)
        return types.BYTES if element == types.BYTE else ListType(element, "PrimitiveArrayTypeInfo")

    @staticmethod
    def BASIC_ARRAY(element_type: Any) -> TypeInformation:  # noqa: N802  # PyFlink's name
        """A list of basic values, each of which may be None."""
        return ListType(from_hint(element_type), "BasicArrayTypeInfo")

    @staticmethod
    def OBJECT_ARRAY(element_type: Any) -> TypeInformation:  # noqa: N802  # PyFlink's name
        """A list of anything of one type."""
        return ListType(from_hint(element_type), "ObjectArrayTypeInfo")

    @staticmethod
    def MAP(key_type_info: Any, value_type_info: Any) -> TypeInformation:  # noqa: N802  # PyFlink's name
        """A dict from keys of one type to values of another."""
        return MapType(from_hint(key_type_info), from_hint(value_type_info))

    @staticmethod
    def LIST(element_type_info: Any) -> TypeInformation:  # noqa: N802  # PyFlink's name
        """A list of one element type."""
        return ListType(from_hint(element_type_info))
