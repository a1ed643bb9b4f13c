"""The schema of a stream or table: its columns with their types."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from millstream.core.records.schema.errors import InvalidTypeError
from millstream.core.records.schema.nested_types import Field, RowOf, check_names


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns, in their order. No two have one name; names are case sensitive."""

    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))
        check_names(self.fields)

    @classmethod
    def of_row(cls, row: RowOf) -> Schema:
        """The schema of a table whose rows have this type."""
        return cls(row.fields)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(field.name for field in self.fields)

    def field(self, name: str) -> Field:
        """The column of this name."""
        for field in self.fields:
            if field.name == name:
                return field
        raise InvalidTypeError(f"There is no column '{name}': the columns are {', '.join(self.names) or '(none)'}")

    def row(self) -> RowOf:
        """The type of a row, which is never NULL itself."""
        return RowOf(self.fields, nullable=False)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)
