"""State as it was at one moment, and state that is handed back: plain Python, whatever the backend.

A capture is made on the task's thread, quickly, and read on any other while the task goes on. It shares what it can
with the live state: the backend copies before it would change anything that a capture holds. `release` ends that; a
capture must be released on every path, may be released on any thread, and holds nothing afterwards. It may be released
while another thread reads it, when its checkpoint is given up: what that thread gets then is not used, and it may get
an error.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from millstream.core.snapshot.model import StateKind, TtlSettings
from millstream.core.snapshot.restore import Rows
from millstream.core.snapshot.table import StateTypes


@dataclass(frozen=True, slots=True)
class StateDeclaration:
    """What is known of a state without its entries."""

    name: str
    kind: StateKind
    types: StateTypes
    ttl: TtlSettings | None = None

    @property
    def namespaced(self) -> bool:
        """Whether entries are pairs of key and namespace."""
        return self.types.namespace is not None


@dataclass(frozen=True, slots=True)
class StateRows:
    """Entries as parallel columns. A value is the value, or the list, or the map of its key and namespace.

    `expires_at` runs parallel to `values`: one number for each value, a list of them for a list or a map. None where
    the state has no namespaces, no time-to-live, no key groups.
    """

    values: list[Any]
    keys: list[Any] = field(default_factory=list)
    namespaces: list[Any] | None = None
    expires_at: list[Any] | None = None
    key_groups: Any = None  # an int32 array

    def __len__(self) -> int:
        return len(self.values)

    def part(self, start: int, end: int) -> StateRows:
        """Some of the entries."""
        cut = slice(start, end)
        return StateRows(
            self.values[cut],
            self.keys[cut],
            None if self.namespaces is None else self.namespaces[cut],
            None if self.expires_at is None else self.expires_at[cut],
            None if self.key_groups is None else self.key_groups[cut],
        )


class CapturedTable(Protocol):
    """The entries of one keyed state at the moment of the capture."""

    @property
    def declaration(self) -> StateDeclaration:
        """What the state is."""

    @property
    def base(self) -> int | None:
        """The checkpoint that still holds every key group that is not in `dirty_groups`; None: there is none."""

    @property
    def dirty_groups(self) -> frozenset[int] | None:
        """The key groups to hand over; None: all of them."""

    def rows(self, key_groups: Collection[int] | None = None) -> StateRows:
        """The entries of some key groups; without any given, of those to hand over. For the writer's thread."""

    def release(self) -> None:
        """Lets go of the entries; may be called twice."""


@dataclass(frozen=True, slots=True)
class CapturedKeyedState:
    """All keyed state of one operator's subtask."""

    checkpoint_id: int
    max_parallelism: int
    key_groups: range
    states: tuple[CapturedTable, ...]

    def release(self) -> None:
        """Lets go of everything; may be called twice."""
        for state in self.states:
            state.release()


class CapturedContents(NamedTuple):
    """One operator state: its list of elements, or its map."""

    declaration: StateDeclaration
    contents: Any


@dataclass(frozen=True, slots=True)
class CapturedOperatorState:
    """All operator state of one subtask.

    It shares nothing with the function: elements are often the function's own buffers, which it goes on changing.
    """

    checkpoint_id: int
    states: list[CapturedContents]

    def release(self) -> None:
        """Lets go of everything; may be called twice."""
        self.states.clear()


class RestoredState(Protocol):
    """A part of a state in a snapshot, such as a file of it: what it was declared as, and its rows."""

    @property
    def declaration(self) -> StateDeclaration:
        """As stored."""

    def rows(self, declared: StateTypes | None) -> Rows:
        """The rows as the types that the program declares now; None: as stored, for state that nobody asked for.

        As stored, a value that was pickled stays `Pickled`: its class may not exist any more.
        """
