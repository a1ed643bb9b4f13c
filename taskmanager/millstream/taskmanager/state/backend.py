"""The interface of keyed state.

A backend belongs to one subtask's keyed operator. State is asked for by name and used in batches: the operator hands
over a batch's records with the function that takes their keys, so that a backend can choose its own loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from millstream.core.types import TypeInformation


class ReducingTable(Protocol):
    """One value for each key, combined with every new record of the key."""

    def fold(
        self, records: Iterator[Any], key_of: Callable[[Any], Any], reduce: Callable[[Any, Any], Any]
    ) -> list[Any]:
        """Folds each record into its key's value, in order; answers the new value after each record."""


class KeyedStateBackend(Protocol):
    """The keyed state of one subtask."""

    def reducing_table(self, name: str, key_type: TypeInformation, value_type: TypeInformation) -> ReducingTable:
        """The state of this name; the same one each time."""
