"""The interfaces of state: what operators, functions and checkpoints require of a backend.

A keyed backend belongs to one operator in one subtask. Operators set the current key before each record; functions
request state by descriptor; operators that process whole batches request a table. All of it happens on the task's
thread, except for reading and releasing captures. `tests/taskmanager/state` holds the suite that every backend passes,
and a second backend, which keeps only bytes.

Ownership of values: a value that was passed to a state belongs to the state, and must not be changed any more; a value
that a state returns may be changed, but the change only takes effect when it is written back (`update`, `put`). A
backend need not copy, so no function may rely on a change in place to be kept, nor to be lost. Such a change never
affects a capture while the current record is processed.

Keys, namespaces and the keys of maps are identical if they are equal in Python (`1`, `1.0` and `True`), whatever their
classes, and all NaN keys are identical. A backend that compares bytes has to encode them accordingly, which plain
pickles do not, and has to return keys of the declared type to a capture. The order of keys, and of the entries of a
map, is unspecified.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from millstream.core.clock import Clock
from millstream.core.records.types import TypeInformation
from millstream.core.snapshot.metadata.model import StateKind
from millstream.core.snapshot.tables.table import StateTypes
from millstream.datastream.state import OperatorStateStore, State
from millstream.datastream.state.descriptors import StateDescriptor
from millstream.datastream.state.ttl import StateTtlConfig
from millstream.taskmanager.worker.state.capturing.captured import (
    CapturedKeyedState,
    CapturedOperatorState,
    RestoredState,
)
from millstream.taskmanager.worker.state.column_state import Freeze
from millstream.taskmanager.worker.state.column_table import ColumnTable, RowLayout
from millstream.taskmanager.worker.state.key_group_index import KeyGroupIndex
from millstream.taskmanager.worker.state.table import ValueTable
from millstream.taskmanager.worker.state.timers import Timers

if TYPE_CHECKING:
    import pyarrow as pa


class KeyedStateBackend(Protocol):
    """The keyed state of one operator in one subtask."""

    def set_current_key(self, key: Any) -> None:
        """Sets the key to which all keyed state is scoped."""

    def get_current_key(self) -> Any:
        """The current key; raises if there is none."""

    def clear_current_key(self) -> None:
        """Clears the current key: using keyed state raises."""

    def state(self, descriptor: StateDescriptor, namespace_type: TypeInformation | None = None) -> State:
        """The state of a descriptor, with the same data for each call.

        Raises if the name is in use for another kind or type.

        With a namespace type, such as windows, the state has entries for each key and namespace: `set_namespace`
        selects the namespace, and, for mergeable state (list, reducing and aggregating state),
        `merge_namespaces(target, sources)` merges several.
        """

    def table(
        self, name: str, value_type: TypeInformation, kind: StateKind = StateKind.REDUCING,
        namespace_type: TypeInformation | None = None, ttl: StateTtlConfig | None = None,
    ) -> ValueTable:  # fmt: skip
        """A state with one value per entry, for operators that process batches, with the same data for each call."""

    def columns(
        self, name: str, types: StateTypes, freeze: Freeze, kind: StateKind = StateKind.AGGREGATING
    ) -> list[pa.Table]:
        """A state that its operator keeps as Arrow columns; requested once. Returns its restored contents.

        They are tables in the snapshot format, with the keys of this subtask's key groups.

        `freeze` is called at each capture, on the task's thread: it keeps a reference to the current columns, which is
        cheap because columns are immutable, and returns a function that converts them to rows on the writer's thread.
        """

    def column_table(
        self, name: str, types: StateTypes, layout: RowLayout, kind: StateKind = StateKind.AGGREGATING,
        ttl: StateTtlConfig | None = None,
    ) -> ColumnTable:  # fmt: skip
        """A state whose rows are columns, for operators that process whole batches; requested once.

        With a sub-key it is map state, which the kind has to say.
        """

    def entries(self, name: str) -> list[Any]:
        """All keys that have an entry in a state, or pairs of key and namespace, at this moment; in any order.

        The state has been requested. Expired entries may be included.
        """

    def entry_counts(self) -> dict[str, int]:
        """The number of entries of each requested state, or of timers; states that are kept as columns are left out.

        For metrics: returns in less than a millisecond, with an estimate where counting takes longer.
        """

    def forget_all(self) -> None:
        """Removes all entries of all states, except timers and states that are kept as columns."""

    def timers(self, name: str, namespace_type: TypeInformation | None = None) -> Timers:
        """The timers of this name, the same for each call. Names are shared with states."""

    def capture(self, checkpoint_id: int, incremental: bool = False) -> CapturedKeyedState:
        """Captures all state, in milliseconds. Later changes do not affect the capture.

        Release it after it was written.

        Incremental captures build upon the last one that was confirmed; others, such as savepoints, contain everything
        and are never built upon.
        """

    def confirm(self, checkpoint_id: int) -> None:
        """The checkpoint has completed: incremental ones can build upon it."""

    def restore(self, states: Iterable[RestoredState]) -> None:
        """Adds restored state, before any is requested. It is read when the program requests it.

        State that the program does not request is kept, and is part of later captures.
        """

    def hold_restored(self) -> None:
        """Reads the restored state that was not requested so far: its files may be deleted from now on.

        The task calls it when its functions are open, before the first record.
        """

    def close(self) -> None:
        """Releases the backend's resources; using state raises from then on. May be called twice, and without use.

        The task calls it after its functions are closed, on every path. A capture that is not released yet remains
        valid: another thread may be reading it.
        """


class OperatorStateBackend(Protocol):
    """The operator state of one operator in one subtask: on the heap, whichever backend keeps the keyed state."""

    @property
    def store(self) -> OperatorStateStore:
        """The store from which functions get their operator state."""

    def entry_counts(self) -> dict[str, int]:
        """The number of elements of each requested list, and of entries of each requested map."""

    def capture(self, checkpoint_id: int) -> CapturedOperatorState:
        """Captures all state. Later changes do not affect the capture. Release it after it was written."""

    def restore(self, states: Iterable[RestoredState]) -> None:
        """Adds state that was redistributed to this subtask, before any is requested."""


class StateBackend(Protocol):
    """Creates the backends of operators; one per job in each slot worker."""

    def keyed_backend(
        self, operator_name: str, key_type: TypeInformation, index: KeyGroupIndex, clock: Clock
    ) -> KeyedStateBackend:
        """The keyed state of an operator in a subtask that owns the index's key groups."""

    def operator_backend(self, operator_name: str) -> OperatorStateBackend:
        """The operator state of an operator in a subtask."""
