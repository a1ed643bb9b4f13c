"""`Types`: PyFlink's factory of type information.

Methods that have a type as a parameter accept a Python type hint or a dataclass too: `Types.LIST(int)`,
`Types.TUPLE([str, int])`.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Sequence
from typing import Any, TypeVar, overload

from millstream.core.errors import InvalidProgramError
from millstream.core.records import types
from millstream.core.records.types import (
    AnyType,
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
from millstream.core.row import Row

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
"""PyFlink's names of the types, for `isinstance` checks: `isinstance(kind, RowTypeInfo)`."""

_CHAR: BasicType[str] = BasicType("Character", str, "string")


def _fields(factory: str, field_types: Sequence[Any]) -> tuple[TypeInformation, ...]:
    if isinstance(field_types, str) or not isinstance(field_types, Sequence):
        raise InvalidProgramError(f"Types.{factory}: expected a list of types, got {field_types!r}")
    return tuple(from_hint(field) for field in field_types)


T = TypeVar("T")
KEY = TypeVar("KEY")
VALUE = TypeVar("VALUE")


class Types:
    """Type information under PyFlink's names, for `output_type`, `type_info`, keys and state.

    Each method returns a type. Example:
    `stream.map(lambda line: (line, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))`.
    """

    @staticmethod
    def STRING() -> TypeInformation[str]:  # noqa: N802  # PyFlink's name
        """Returns the type of text: str."""
        return types.STRING

    @staticmethod
    def BYTE() -> TypeInformation[int]:  # noqa: N802  # PyFlink's name
        """Returns the type of 8-bit integers: int."""
        return types.BYTE

    @staticmethod
    def BOOLEAN() -> TypeInformation[bool]:  # noqa: N802  # PyFlink's name
        """Returns the type of booleans: bool."""
        return types.BOOLEAN

    @staticmethod
    def SHORT() -> TypeInformation[int]:  # noqa: N802  # PyFlink's name
        """Returns the type of 16-bit integers: int."""
        return types.SHORT

    @staticmethod
    def INT() -> TypeInformation[int]:  # noqa: N802  # PyFlink's name
        """Returns the type of 32-bit integers: int."""
        return types.INT

    @staticmethod
    def LONG() -> TypeInformation[int]:  # noqa: N802  # PyFlink's name
        """Returns the type of 64-bit integers: int."""
        return types.LONG

    @staticmethod
    def FLOAT() -> TypeInformation[float]:  # noqa: N802  # PyFlink's name
        """Returns the type of 32-bit floating-point numbers: float."""
        return types.FLOAT

    @staticmethod
    def DOUBLE() -> TypeInformation[float]:  # noqa: N802  # PyFlink's name
        """Returns the type of 64-bit floating-point numbers: float."""
        return types.DOUBLE

    @staticmethod
    def CHAR() -> TypeInformation[str]:  # noqa: N802  # PyFlink's name
        """Returns the type of single characters: str."""
        return _CHAR

    @staticmethod
    def BIG_INT() -> TypeInformation[int]:  # noqa: N802  # PyFlink's name
        """Returns the type of integers of any size: int."""
        return types.BIG_INT

    @staticmethod
    def BIG_DEC() -> TypeInformation[decimal.Decimal]:  # noqa: N802  # PyFlink's name
        """Returns the type of decimal numbers: decimal.Decimal."""
        return types.BIG_DEC

    @staticmethod
    def INSTANT() -> TypeInformation[datetime.datetime]:  # noqa: N802  # PyFlink's name
        """Returns the type of points in time: datetime.datetime."""
        return types.INSTANT

    @staticmethod
    def SQL_DATE() -> TypeInformation[datetime.date]:  # noqa: N802  # PyFlink's name
        """Returns the type of dates: datetime.date."""
        return types.DATE

    @staticmethod
    def SQL_TIME() -> TypeInformation[datetime.time]:  # noqa: N802  # PyFlink's name
        """Returns the type of times of day: datetime.time."""
        return types.TIME

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation[datetime.datetime]:  # noqa: N802  # PyFlink's name
        """Returns the type of dates with a time of day: datetime.datetime."""
        return types.TIMESTAMP

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation[Any]:  # noqa: N802  # PyFlink's name
        """Returns the type of any Python object. Values are pickled, which is slower than a declared type."""
        return types.PICKLED

    @staticmethod
    def ROW(field_types: Sequence[Any]) -> TypeInformation[Row]:  # noqa: N802  # PyFlink's name
        """Returns the type of a `Row` whose fields have the types `field_types` and the names f0, f1, and so on.

        Raises `InvalidProgramError` if the argument is not a list of types.
        """
        return RowType(_fields("ROW", field_types))

    @staticmethod
    def ROW_NAMED(field_names: Sequence[str], field_types: Sequence[Any]) -> TypeInformation[Row]:  # noqa: N802  # PyFlink's name
        """Returns the type of a `Row` whose fields have the names `field_names` and the types `field_types`.

        Raises `InvalidProgramError` if the lengths differ or a name occurs twice.

            Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
        """
        fields, names = _fields("ROW_NAMED", field_types), tuple(field_names)
        if len(names) != len(fields):
            raise InvalidProgramError(f"Types.ROW_NAMED: {len(names)} names for {len(fields)} types")
        if len(set(names)) != len(names):
            raise InvalidProgramError(f"Types.ROW_NAMED: a name occurs twice in {list(names)}")
        return RowType(fields, names)

    @staticmethod
    def TUPLE(field_types: Sequence[Any]) -> TypeInformation[tuple[Any, ...]]:  # noqa: N802  # PyFlink's name
        """Returns the type of a tuple whose fields have the types `field_types`.

        Example: `Types.TUPLE([Types.STRING(), Types.INT()])`.

        Raises `InvalidProgramError` if the argument is not a list of types.
        """
        return TupleType(_fields("TUPLE", field_types))

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: Any) -> TypeInformation[Any]:  # noqa: N802  # PyFlink's name
        """Returns the type of a list of numbers or booleans of `element_type`; with `Types.BYTE()`, of bytes."""
        element = from_hint(element_type)
        return types.BYTES if element == types.BYTE else ListType(element, "PrimitiveArrayTypeInfo")

    @overload
    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation[T] | type[T]) -> TypeInformation[list[T]]: ...

    @overload
    @staticmethod
    def BASIC_ARRAY(element_type: AnyType) -> TypeInformation[list[object]]: ...

    @overload
    @staticmethod
    def BASIC_ARRAY(element_type: object) -> TypeInformation[list[Any]]: ...

    @staticmethod
    def BASIC_ARRAY(element_type: Any) -> TypeInformation[list[Any]]:  # noqa: N802  # PyFlink's name
        """Returns the type of a list of basic values of `element_type`, each of which can be None."""
        return ListType(from_hint(element_type), "BasicArrayTypeInfo")

    @overload
    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation[T] | type[T]) -> TypeInformation[list[T]]: ...

    @overload
    @staticmethod
    def OBJECT_ARRAY(element_type: AnyType) -> TypeInformation[list[object]]: ...

    @overload
    @staticmethod
    def OBJECT_ARRAY(element_type: object) -> TypeInformation[list[Any]]: ...

    @staticmethod
    def OBJECT_ARRAY(element_type: Any) -> TypeInformation[list[Any]]:  # noqa: N802  # PyFlink's name
        """Returns the type of a list of values of any `element_type`."""
        return ListType(from_hint(element_type), "ObjectArrayTypeInfo")

    @overload
    @staticmethod
    def MAP(
        key_type_info: TypeInformation[KEY] | type[KEY], value_type_info: TypeInformation[VALUE] | type[VALUE]
    ) -> TypeInformation[dict[KEY, VALUE]]: ...

    @overload
    @staticmethod
    def MAP(
        key_type_info: AnyType, value_type_info: AnyType
    ) -> TypeInformation[dict[object, object]]: ...

    @overload
    @staticmethod
    def MAP(key_type_info: object, value_type_info: object) -> TypeInformation[dict[Any, Any]]: ...

    @staticmethod
    def MAP(key_type_info: Any, value_type_info: Any) -> TypeInformation[dict[Any, Any]]:  # noqa: N802  # PyFlink's name
        """Returns the type of a dict with keys of `key_type_info` and values of `value_type_info`.

        `Types.MAP(Types.STRING(), Types.LONG())` is a dict from text to integers.
        """
        return MapType(from_hint(key_type_info), from_hint(value_type_info))

    @overload
    @staticmethod
    def LIST(element_type_info: TypeInformation[T] | type[T]) -> TypeInformation[list[T]]: ...

    @overload
    @staticmethod
    def LIST(element_type_info: AnyType) -> TypeInformation[list[object]]: ...

    @overload
    @staticmethod
    def LIST(element_type_info: object) -> TypeInformation[list[Any]]: ...

    @staticmethod
    def LIST(element_type_info: Any) -> TypeInformation[list[Any]]:  # noqa: N802  # PyFlink's name
        """Returns the type of a list with elements of `element_type_info`: `Types.LIST(Types.DOUBLE())`."""
        return ListType(from_hint(element_type_info))
