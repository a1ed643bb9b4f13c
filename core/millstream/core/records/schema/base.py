"""What all logical types share: whether a value may be NULL."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

from millstream.core.records.schema.errors import InvalidTypeError


@dataclass(frozen=True, slots=True)
class Nullability:
    """The base of all logical types. A type is a value: two of the same parameters and nullability are equal."""

    nullable: bool = field(default=True, kw_only=True)

    def with_nullable(self, nullable: bool) -> Self:
        """Returns the type that allows NULL, or the one that does not."""
        return self if nullable == self.nullable else replace(self, nullable=nullable)

    def not_null(self) -> Self:
        """Returns the type without NULL."""
        return self.with_nullable(False)


def check_range(value: int, lowest: int, highest: int, what: str) -> None:
    """Refuses a parameter out of its bounds, in Flink's words."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidTypeError(f"{what} must be an integer, not {value!r:.100}.")
    if not lowest <= value <= highest:
        raise InvalidTypeError(f"{what} must be between {lowest} and {highest} (both inclusive), not {value}.")
