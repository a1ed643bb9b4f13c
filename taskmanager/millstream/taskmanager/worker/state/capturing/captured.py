"""State as it was at one moment, and state that is handed back, whatever the backend.

A capture is made on the task's thread, quickly, and read on any other while the task continues. It shares what it can
with the live state: the backend copies before it would change anything that a capture holds. `release` ends that; a
capture must be released on every path, may be released on any thread, and holds nothing afterwards. It may be released
while another thread reads it, when its checkpoint is given up: what that thread gets then is not used, and it may get
an error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec import Struct

from millstream.core.records.types import LONG, PICKLED, TupleType, TypeInformation
from millstream.core.snapshot.metadata.model import StateKind, TtlSettings
from millstream.core.snapshot.tables.restore import Rows
from millstream.core.snapshot.tables.table import StateTypes

if TYPE_CHECKING:
    import pyarrow as pa

Work = Callable[[], AbstractContextManager[Any]]
"""Pauses work in steps between them, so that tasks get their turn."""


class StateDeclaration(Struct, frozen=True):
    """What is known of a state without its entries."""

    name: str
    kind: StateKind
    types: StateTypes
    ttl: TtlSettings | None = None

    @property
    def namespaced(self) -> bool:
        """Whether entries are pairs of key and namespace."""
        return self.types.namespace is not None

    @property
    def kept_type(self) -> TypeInformation:
        """What a backend keeps: values of the declared type; with a time-to-live, each in a pair behind its deadline.

        A backend of bytes finds the deadline in front, where a filter can read it.
        """
        value = self.types.value or PICKLED
        return value if self.ttl is None else TupleType((LONG, value))


class NativeFile(Struct, frozen=True):
    """A file on this host that holds rows of one state, until the capture is released.

    Its content never changes: a file of the same name that an earlier checkpoint stored is not stored again.
    """

    name: str
    path: str
    key_groups: range
    rows: int


class NativeFiles(Struct, frozen=True):
    """A state in its backend's own format, named after it: what the backend keeps is not decoded for a checkpoint."""

    format: str
    files: tuple[NativeFile, ...]


class CapturedTable(Protocol):
    """The entries of one keyed state at the moment of the capture."""

    @property
    def declaration(self) -> StateDeclaration:
        """What the state is."""

    @property
    def base(self) -> int | None:
        """The checkpoint that still holds every key group that is not in `dirty_groups`, or files of the same names.

        None: there is none.
        """

    @property
    def dirty_groups(self) -> frozenset[int] | None:
        """The key groups to hand over; None: all of them."""

    def table(self, key_groups: Collection[int] | None = None, work: Work = nullcontext) -> pa.Table:
        """The rows of some key groups, sorted by key group; without any given, of those to hand over.

        In the columns of the snapshot format. Called on the writer's thread; a backend that needs the interpreter lock
        for it does so in steps of some milliseconds, each inside of a `work()`.
        """

    def native_files(self) -> NativeFiles | None:
        """The same for a checkpoint, in all key groups; None: the table is all there is. Savepoints are tables."""

    def release(self) -> None:
        """Lets go of the entries; may be called twice."""


class CapturedKeyedState(Struct, frozen=True):
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


class CapturedOperatorState(Struct, frozen=True):
    """All operator state of one subtask.

    It shares nothing with the function: elements are often the function's own buffers, which it continues changing.
    """

    checkpoint_id: int
    states: list[CapturedContents]

    def release(self) -> None:
        """Lets go of everything; may be called twice."""
        self.states.clear()


class RestoredFile(Struct, frozen=True):
    """The content of a native file. It may hold rows of key groups that this subtask does not own."""

    where: str
    format: str
    data: Any  # a buffer


class RestoredState(Protocol):
    """A part of a state in a snapshot, such as a file of it: what it was declared as, and its rows."""

    @property
    def declaration(self) -> StateDeclaration:
        """As stored."""

    def rows(self, declared: StateTypes | None) -> Rows:
        """The rows as the types that the program declares now; None: as stored, for state that was not requested.

        As stored, a value that was pickled stays `Pickled`: its class may not exist any more.
        """

    def tables(self, declared: StateTypes) -> list[pa.Table]:
        """The rows in the columns of the snapshot format, of the types that the program declares now."""

    def native_files(self, declared: StateTypes | None) -> tuple[RestoredFile, ...]:
        """What is in a backend's own format, and not among the rows. The declared types have to be the stored ones."""
