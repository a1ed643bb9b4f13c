"""The interfaces of state: what operators, functions and checkpoints need of a backend.

A keyed backend belongs to one operator in one subtask. Operators set the current key before each record; functions
ask for state by descriptor; operators that work on whole batches ask for a table. All of it happens on the task's
thread, but for reading and releasing captures. `tests/taskmanager/state` holds the suite that every backend passes, and
a second backend, which keeps only bytes.

Whose a value is: what was handed to a state is the state's, and must not be changed any more; what a state returns may
be changed, and counts as changed only when it is written back (`update`, `put`). A backend need not copy, so no
function may rely on a change in place to be kept, nor to be lost. What a capture holds, such a change never reaches
while the record at hand is processed.

Keys, namespaces and the keys of maps are one when they are equal in Python (`1`, `1.0` and `True`), whatever their
classes, and all keys that are NaN are one. A backend that compares bytes has to encode them so, which plain pickles do
not, and has to hand keys of the declared type to a capture. The order of keys, and of the entries of a map, is the
backend's own.
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
from millstream.taskmanager.worker.state.key_group_index import KeyGroupIndex
from millstream.taskmanager.worker.state.table import ValueTable
from millstream.taskmanager.worker.state.timers import Timers

if TYPE_CHECKING:
    import pyarrow as pa


class KeyedStateBackend(Protocol):
    """The keyed state of one operator in one subtask."""

    def set_current_key(self, key: Any) -> None:
        """All keyed state is this key's from now on."""

    def get_current_key(self) -> Any:
        """The key that was set; an error when there is none."""

    def clear_current_key(self) -> None:
        """There is no key: using keyed state is an error."""

    def state(self, descriptor: StateDescriptor, namespace_type: TypeInformation | None = None) -> State:
        """The state of a descriptor; the same data each time. An error when the name means another kind or type.

        With a type of namespaces, such as windows, the state has entries for each key and namespace: `set_namespace`
        selects the namespace, and, for what can be merged (list, reducing and aggregating state),
        `merge_namespaces(target, sources)` makes one of several.
        """

    def table(
        self, name: str, value_type: TypeInformation, kind: StateKind = StateKind.REDUCING,
        namespace_type: TypeInformation | None = None, ttl: StateTtlConfig | None = None,
    ) -> ValueTable:  # fmt: skip
        """A state with one value for each entry, for operators that work in batches; the same data each time."""

    def columns(
        self, name: str, types: StateTypes, freeze: Freeze, kind: StateKind = StateKind.AGGREGATING
    ) -> list[pa.Table]:
        """A state that its operator keeps as Arrow columns; requested once. Returns what was restored of it.

        That is in tables of the snapshot format, whose keys are all of this subtask's key groups.

        `freeze` is called at each capture, on the task's thread: it takes hold of the columns as they are, which is
        cheap because columns never change, and returns what makes rows of them on the writer's thread.
        """

    def entries(self, name: str) -> list[Any]:
        """All keys that have something in a state, or pairs of key and namespace, at this moment; in any order.

        The state has been requested. What has expired may be among them.
        """

    def entry_counts(self) -> dict[str, int]:
        """How many entries each requested state has, or timers; those that are kept as columns are left out.

        For metrics: returns in less than a millisecond, by an estimate where counting takes longer.
        """

    def forget_all(self) -> None:
        """Removes all entries of all states, but for timers, and for those that are kept as columns."""

    def timers(self, name: str, namespace_type: TypeInformation | None = None) -> Timers:
        """The timers of this name; the same ones each time. Names are shared with states."""

    def capture(self, checkpoint_id: int, incremental: bool = False) -> CapturedKeyedState:
        """All state as it is now, in milliseconds. Later changes do not show in it. Release it when it is written.

        Incremental captures build upon the last one that was confirmed; others, such as savepoints, hold everything
        and are never built upon.
        """

    def confirm(self, checkpoint_id: int) -> None:
        """The checkpoint is complete: incremental ones can build upon it."""

    def restore(self, states: Iterable[RestoredState]) -> None:
        """Takes over state, before any is requested. Rows are read when the program requests the state.

        State that the program does not ask for is kept, and is part of later captures.
        """

    def close(self) -> None:
        """Frees what the backend holds; using state is an error from now on. May be called twice, and without use.

        The task calls it once its functions are closed, on every path. A capture that is not released yet stays whole
        until it is: another thread may be reading it.
        """


class OperatorStateBackend(Protocol):
    """The operator state of one operator in one subtask: on the heap, whatever keeps the keyed state."""

    @property
    def store(self) -> OperatorStateStore:
        """Where functions get their operator state."""

    def entry_counts(self) -> dict[str, int]:
        """How many elements each list has, and entries each map, of those that were requested."""

    def capture(self, checkpoint_id: int) -> CapturedOperatorState:
        """All state as it is now. Later changes do not show in it. Release it when it is written."""

    def restore(self, states: Iterable[RestoredState]) -> None:
        """Takes over state that was redistributed to this subtask, before any is requested."""


class StateBackend(Protocol):
    """Makes the backends of operators; one for each job in each slot worker."""

    def keyed_backend(
        self, operator_name: str, key_type: TypeInformation, index: KeyGroupIndex, clock: Clock
    ) -> KeyedStateBackend:
        """The keyed state of an operator in a subtask that owns the index's key groups."""

    def operator_backend(self, operator_name: str) -> OperatorStateBackend:
        """The operator state of an operator in a subtask."""
