"""Keyed state on the heap: a dictionary for each state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from millstream.core.types import TypeInformation


class HeapReducingTable:
    """A dictionary from key to value."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[Any, Any] = {}

    def fold(
        self, records: Iterator[Any], key_of: Callable[[Any], Any], reduce: Callable[[Any, Any], Any]
    ) -> list[Any]:
        """Folds each record into its key's value, in order; answers the new value after each record."""
        values = self._values
        results: list[Any] = []
        append = results.append
        for record in records:
            key = key_of(record)
            if key in values:
                record = reduce(values[key], record)
            values[key] = record
            append(record)
        return results


class HeapStateBackend:
    """All keyed state of one subtask, in this process's memory."""

    def __init__(self) -> None:
        self._reducing: dict[str, HeapReducingTable] = {}

    def reducing_table(self, name: str, key_type: TypeInformation, value_type: TypeInformation) -> HeapReducingTable:
        """The state of this name; the same one each time."""
        return self._reducing.setdefault(name, HeapReducingTable())
