"""Functions that fill state from rows, for what columns do not say."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeAlias

from millstream.datastream.functions import Function
from millstream.datastream.functions.checkpointed import CheckpointedFunction, FunctionSnapshotContext
from millstream.datastream.functions.contexts import KeyedContext


class KeyedStateBootstrapFunction(Function, ABC):
    """Fills the keyed state of one operator. Picklable: each task that writes has a copy of its own.

    `open` requests state as a `KeyedProcessFunction` does, `process_element` is called for each row with its key set,
    and `close` once all rows of the task's keys have been seen. State and timers are the runtime's own. Timers are only
    registered: they fire in the job that starts from the savepoint.
    """

    Context: TypeAlias = KeyedContext

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedContext) -> None:
        """Called for each row, a `Row` with the DataFrame's columns; those of one key come in the order given."""


class StateBootstrapFunction(Function, CheckpointedFunction, ABC):
    """Fills the operator state of one operator. Picklable: it runs in the one task that writes it.

    `open` and `initialize_state` are called first, of which the latter requests lists, union lists and broadcast state
    as in a job; then `process_element` for each row, in their order; then `snapshot_state` and `close`.
    """

    @abstractmethod
    def process_element(self, value: Any) -> None:
        """Called for each row, a `Row` with the DataFrame's columns."""

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Called once after all rows, for a function that has kept something until then."""
