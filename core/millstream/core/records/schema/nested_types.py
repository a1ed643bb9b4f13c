"""The types that are made of others, and the one that no part of a query can look into."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from millstream.core.records.schema.base import Nullability
from millstream.core.records.schema.errors import InvalidTypeError
from millstream.core.records.schema.lexical import check_text, is_space

if TYPE_CHECKING:
    from millstream.core.records.schema.logical_type import LogicalType


@dataclass(frozen=True, slots=True)
class ArrayOf(Nullability):
    """ARRAY<t>."""

    element: LogicalType


@dataclass(frozen=True, slots=True)
class MapOf(Nullability):
    """MAP<k, v>. To Flink a key may be NULL; a column of Arrow cannot hold such a key, whatever the key's type says."""

    key: LogicalType
    value: LogicalType


@dataclass(frozen=True, slots=True)
class MultisetOf(Nullability):
    """MULTISET<t>: elements with the number of times that each is there."""

    element: LogicalType


@dataclass(frozen=True, slots=True, init=False)
class Field:
    """A column of a schema or a field of a row. Whether it may be NULL is part of its type.

    `nullable` is for those that construct it: given, it overrides what the type says.
    """

    name: str
    type: LogicalType
    description: str | None

    def __init__(
        self, name: str, type: LogicalType, nullable: bool | None = None, description: str | None = None
    ) -> None:
        if not name or all(map(is_space, name)):
            raise InvalidTypeError("Field names must contain at least one non-whitespace character.")
        check_text(name, "The name of a field")
        check_text(description or "", f"The description of the field '{name}'")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "type", type if nullable is None else type.with_nullable(nullable))
        object.__setattr__(self, "description", description)

    @property
    def nullable(self) -> bool:
        """Whether a value may be NULL."""
        return self.type.nullable


@dataclass(frozen=True, slots=True)
class RowOf(Nullability):
    """ROW<name type 'description', ...>."""

    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))  # also of a list
        check_names(self.fields)


@dataclass(frozen=True, slots=True)
class RawType(Nullability):
    """RAW('class', 'serializer'): values that are bytes to all but their owner.

    Both are names, which nothing here loads or looks into. To Flink they are a class of the JVM and the snapshot of
    its serializer in Base64, and such a type is read and written as it is, its values unreadable. Values of Python
    have the class `object` and the serializer `pickle`.
    """

    class_name: str
    serializer: str

    def __post_init__(self) -> None:
        if not self.class_name:
            raise InvalidTypeError("The class of a RAW type must have a name.")
        check_text(self.class_name + self.serializer, "The name of a RAW type")


def pickled(*, nullable: bool = True) -> RawType:
    """The type of values that are pickled."""
    return RawType("object", "pickle", nullable=nullable)


def check_names(fields: tuple[Field, ...]) -> None:
    """Refuses two fields of one name."""
    duplicates = [name for name, count in Counter(f.name for f in fields).items() if count > 1]
    if duplicates:
        raise InvalidTypeError(f"Field names must be unique. Found duplicates: {', '.join(duplicates)}")
