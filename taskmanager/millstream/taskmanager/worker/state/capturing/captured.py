"""State as of one moment, and state that is restored, for any backend.

A capture is made on the task's thread, quickly, and read on any other while the task continues. It shares what it can
with the live state: the backend copies before it changes anything that a capture holds. `release` ends that; a capture
must be released on every path, may be released on any thread, and holds nothing afterwards. It may be released while
another thread reads it, if its checkpoint is aborted: what that thread reads then is not used, and it may get an error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
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
"""Pauses between the steps of a long operation, so that tasks can run."""


class StateDeclaration(Struct, frozen=True):
    """The description of a state, without its entries."""

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
        """The type of the stored values: the declared type; with a time-to-live, a pair of the deadline and the value.

        A backend of bytes has the deadline first, where a filter can read it.
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
    """A state in its backend's own format, whose name it carries: a checkpoint stores it without decoding."""

    format: str
    files: tuple[NativeFile, ...]


class CapturedTable(Protocol):
    """The entries of one keyed state at the moment of the capture."""

    @property
    def declaration(self) -> StateDeclaration:
        """What the state is."""

    @property
    def base(self) -> int | None:
        """The checkpoint that contains every key group not in `dirty_groups`, or files of the same names, if any."""

    @property
    def dirty_groups(self) -> frozenset[int] | None:
        """The key groups to write; None: all of them."""

    def parts(self, key_groups: Collection[int] | None = None, work: Work = nullcontext) -> Iterator[pa.Table]:
        """The rows of some key groups, in parts that together are sorted by key group; at least one part.

        Without an argument, of those to write. In the columns of the snapshot format, whose types may differ between
        parts where a type can be stored in several ways. A part has a bounded size: it is made when it is taken, and
        not kept. Called on the writer's thread, as often as needed; a backend that needs the interpreter lock for it
        works in steps of some milliseconds, each inside of a `work()`.
        """

    def entries(self, key_groups: Collection[int], work: Work = nullcontext) -> int:
        """How many entries some key groups have, or about so many: a checkpoint is divided into files by it."""

    def native_files(self) -> NativeFiles | None:
        """The native files for a checkpoint, of all key groups; None: the parts are everything.

        Savepoints are tables.
        """

    def release(self) -> None:
        """Releases the entries; may be called twice."""


class CapturedKeyedState(Struct, frozen=True):
    """All keyed state of one operator's subtask."""

    checkpoint_id: int
    max_parallelism: int
    key_groups: range
    states: tuple[CapturedTable, ...]

    def release(self) -> None:
        """Releases everything; may be called twice."""
        for state in self.states:
            state.release()


class CapturedContents(NamedTuple):
    """The contents of one operator state: its list of elements, or its map."""

    declaration: StateDeclaration
    contents: Any


class CapturedOperatorState(Struct, frozen=True):
    """All operator state of one subtask.

    It shares nothing with the function: elements are often the function's own buffers, which it continues changing.
    """

    checkpoint_id: int
    states: list[CapturedContents]

    def release(self) -> None:
        """Releases everything; may be called twice."""
        self.states.clear()


class RestoredFile(Struct, frozen=True):
    """The content of a native file. It may contain rows of key groups that this subtask does not own."""

    where: str
    format: str
    data: Any  # a buffer


class RestoredState(Protocol):
    """A part of a state in a snapshot, such as one of its files: the stored declaration, and the rows."""

    @property
    def declaration(self) -> StateDeclaration:
        """The stored declaration."""

    def rows(self, declared: StateTypes | None) -> Iterator[Rows]:
        """The rows as the types that the program declares now; None: as stored, for state that was not requested.

        In parts of a bounded size, each read when it is taken. As stored, a pickled value stays `Pickled`: its class
        may not exist any more.
        """

    def tables(self, declared: StateTypes) -> Iterable[pa.Table]:
        """The rows in the columns of the snapshot format, of the types that the program declares now."""

    def native_files(self, declared: StateTypes | None) -> Iterator[RestoredFile]:
        """The parts in a backend's own format, which are not among the rows; each is read when it is taken.

        The declared types must be the stored ones.
        """

    def hold(self) -> None:
        """Reads everything into memory, where it stays: the snapshot may be deleted before it is taken."""
