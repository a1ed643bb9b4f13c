"""Reads JSON of unknown origin: errors name the place in the document that is not valid."""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import Enum
from typing import Any, TypeVar

from msgspec import Struct

from millstream.core.logs.printable import printable
from millstream.core.snapshot.errors import SnapshotError, UnusableFileError

E = TypeVar("E", bound=Enum)

_NAMES = {dict: "an object", list: "a list", str: "a string", int: "an integer", bool: "true or false"}


def parsed(data: bytes, file: str) -> Any:
    """The value of a JSON document; `file` is its name in errors. Raises UnusableFileError."""
    try:
        return json.loads(data)
    except RecursionError as error:
        raise UnusableFileError(file, "is not JSON: it is nested too deeply") from error
    except ValueError as error:
        raise UnusableFileError(file, f"is not JSON: {error}") from error


class JsonNode(Struct, frozen=True):
    """A value in the document `file`, at the place `where` (as in `operators[0].name`)."""

    value: Any
    file: str
    where: str = ""

    def error(self, reason: str) -> SnapshotError:
        """An error about this value."""
        return SnapshotError(self.file, printable(f"{self.where or 'the document'} {reason}"))

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
            entry = self.field(name)
            if not _is_text(name):
                raise entry.error("has a name that is no text: it has a half of a surrogate pair in it")
            yield name, entry

    def is_null(self) -> bool:
        """Whether there is no value."""
        return self.value is None

    def text(self, *, empty: bool = False) -> str:
        """A string."""
        value: str = self._as(str)
        if not value and not empty:
            raise self.error("is empty")
        if not _is_text(value):
            raise self.error("is no text: it has a half of a surrogate pair in it")
        return value

    def integer(self, lowest: int | None = None) -> int:
        """An integer of 64 bits, not below the lowest."""
        value: int = self._as(int)
        if not -(2**63) <= value < 2**63:
            raise self.error("has more than 64 bits")
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
            return kind(self.text(empty=True))
        except ValueError:
            known = ", ".join(str(member.value) for member in kind)
            raise self.error(f"is '{self.value:.100}', and must be one of {known}") from None

    def _as(self, kind: type) -> Any:
        if type(self.value) is kind:
            return self.value
        if not isinstance(self.value, kind) or (kind is int and isinstance(self.value, bool)):
            raise self.error(f"is {_shown(self.value)}, and must be {_NAMES[kind]}")
        return self.value


def _is_text(value: str) -> bool:
    """Whether it can be written: escapes in JSON make strings that no encoding has."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: Any) -> str:
    try:
        return repr(value)[:100]
    except RecursionError:
        return "nested too deeply"
