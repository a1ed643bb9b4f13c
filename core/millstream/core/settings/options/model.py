"""The definition of an option, and the typed key with which code reads its value."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Generic, TypeVar

from msgspec import Struct

T_co = TypeVar("T_co", covariant=True)


class OptionKey(str, Generic[T_co]):
    """The key of an option whose values have the type `T_co`: what `Configuration.get` takes, and text elsewhere."""

    __slots__ = ()


class OptionType(StrEnum):
    """The type of a value: how it is written and parsed."""

    STRING = "string"
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    DURATION = "duration"  # seconds, as a float
    MEMORY = "memory"  # bytes, as an int
    ENUM = "enum"
    MAP = "map"  # `name:value,name:value`, as a dict


class JobMay(StrEnum):
    """The effect of a job's value for an option on a cluster, where services have values of their own."""

    SET = "yes"
    LOWER = "lower"  # the smaller of both counts; 0 is no limit
    NOT = "no"


class Option(Struct, frozen=True):
    """One row of the table."""

    key: str
    type: OptionType
    default: Any
    description: str
    choices: tuple[str, ...] = ()
    at_least: float | None = None
    at_most: float | None = None
    job_may: JobMay = JobMay.NOT


class Rows:
    """The rows of one part of the table, in order. Each method adds one, and returns its key."""

    def __init__(self) -> None:
        self._rows: list[Option] = []

    def __iter__(self) -> Iterator[Option]:
        return iter(self._rows)

    def text(self, key: str, default: str, description: str) -> OptionKey[str]:
        """Adds an option that is any text."""
        return self._add(key, OptionType.STRING, default, description)

    def choice(self, key: str, default: str, description: str, choices: tuple[str, ...]) -> OptionKey[str]:
        """Adds an option that is one of some words."""
        return self._add(key, OptionType.ENUM, default, description, choices)

    def mapping(
        self, key: str, default: dict[str, str], description: str, choices: tuple[str, ...]
    ) -> OptionKey[dict[str, str]]:
        """Adds an option that has one of some words for each name."""
        return self._add(key, OptionType.MAP, default, description, choices)

    def integer(self, key: str, default: int, description: str) -> OptionKey[int]:
        """Adds an option that is a whole number."""
        return self._add(key, OptionType.INT, default, description)

    def number(self, key: str, default: float, description: str) -> OptionKey[float]:
        """Adds an option that is a number."""
        return self._add(key, OptionType.FLOAT, default, description)

    def boolean(self, key: str, default: bool, description: str) -> OptionKey[bool]:
        """Adds an option that is true or false."""
        return self._add(key, OptionType.BOOL, default, description)

    def duration(self, key: str, default: float, description: str) -> OptionKey[float]:
        """Adds an option that is a time in seconds."""
        return self._add(key, OptionType.DURATION, default, description)

    def memory(self, key: str, default: int, description: str) -> OptionKey[int]:
        """Adds an option that is a size in bytes."""
        return self._add(key, OptionType.MEMORY, default, description)

    def _add(
        self, key: str, kind: OptionType, default: Any, description: str, choices: tuple[str, ...] = ()
    ) -> OptionKey[Any]:
        self._rows.append(Option(key, kind, default, description, choices))
        return OptionKey(key)
