"""Reading JSON that others may have written: each access names the place in the document when it does not fit."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any, TypeVar

from msgspec import Struct

from millstream.core.snapshot.errors import SnapshotError

E = TypeVar("E", bound=Enum)

_NAMES = {dict: "an object", list: "a list", str: "a string", int: "an integer", bool: "true or false"}


class JsonNode(Struct, frozen=True):
    """A value in the document `file`, at the place `where` (as in `operators[0].name`)."""

    value: Any
    file: str
    where: str = ""

    def error(self, reason: str) -> SnapshotError:
        """An error about this value."""
        return SnapshotError(self.file, f"{self.where or 'the document'} {reason}")

    def fields(self, *required: str, optional: tuple[str, ...] = ()) -> None:
        """Checks that this is an object with exactly these fields."""
        value = self._as(dict)
        missing = [name for name in required if name not in value]
        if missing:
            raise self.error(f"lacks the field '{missing[0]}'")
        unknown = [name for name in value if name not in required and name not in optional]
        if unknown:
            known = ", ".join((*required, *optional))
            raise self.error(f"has the unknown field '{unknown[0]}': the fields are {known}")

    def field(self, name: str) -> JsonNode:
        """A field of an object whose fields were checked; null when an optional one is absent."""
        return JsonNode(self._as(dict).get(name), self.file, f"{self.where}.{name}" if self.where else name)

    def items(self) -> Iterator[JsonNode]:
        """The items of a list."""
        for number, item in enumerate(self._as(list)):
            yield JsonNode(item, self.file, f"{self.where}[{number}]")

    def entries(self) -> Iterator[tuple[str, JsonNode]]:
        """The entries of an object used as a map."""
        for name in self._as(dict):
            yield name, self.field(name)

    def is_null(self) -> bool:
        """Whether there is no value."""
        return self.value is None

    def text(self, *, empty: bool = False) -> str:
        """A string."""
        value: str = self._as(str)
        if not value and not empty:
            raise self.error("is empty")
        return value

    def integer(self, lowest: int | None = None) -> int:
        """An integer, not below the lowest."""
        value: int = self._as(int)
        if lowest is not None and value < lowest:
            raise self.error(f"is {value}, and must be at least {lowest}")
        return value

    def boolean(self) -> bool:
        """True or false."""
        value: bool = self._as(bool)
        return value

    def enum(self, kind: type[E]) -> E:
        """A value of an enumeration."""
        try:
            return kind(self._as(str))
        except ValueError:
            known = ", ".join(str(member.value) for member in kind)
            raise self.error(f"is '{self.value:.100}', and must be one of {known}") from None

    def _as(self, kind: type) -> Any:
        if not isinstance(self.value, kind) or (kind is int and isinstance(self.value, bool)):
            raise self.error(f"is {repr(self.value)[:100]}, and must be {_NAMES[kind]}")
        return self.value
