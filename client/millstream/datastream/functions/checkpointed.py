"""Functions that take part in checkpoints themselves, with Flink's names.

Call order: `initialize_state` once before `open`, on a fresh start and on a restore alike; `snapshot_state` at each
checkpoint, between two records.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from millstream.datastream.functions.checkpoint_listener import CheckpointListener
from millstream.datastream.state import KeyedStateStore, OperatorStateStore


class FunctionInitializationContext(ABC):
    """The context in which a function gets its state."""

    @abstractmethod
    def is_restored(self) -> bool:
        """Returns whether state was restored from a snapshot, also when it had nothing for this function."""

    @abstractmethod
    def get_restored_checkpoint_id(self) -> int | None:
        """Returns the id of the checkpoint or savepoint that state was restored from, or None."""

    @abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore:
        """Returns the store of operator state."""

    @abstractmethod
    def get_keyed_state_store(self) -> KeyedStateStore:
        """Returns the store of keyed state; its methods raise an error on a stream without keys."""


class FunctionSnapshotContext(ABC):
    """The current checkpoint."""

    @abstractmethod
    def get_checkpoint_id(self) -> int:
        """Returns the id of the checkpoint; later checkpoints have higher ones."""

    @abstractmethod
    def get_checkpoint_timestamp(self) -> int:
        """Returns the time when it was triggered, in milliseconds since the Unix epoch."""


class CheckpointedFunction(CheckpointListener, ABC):
    """A function with operator state.

    For example:

        class Buffered(SinkFunction, CheckpointedFunction):
            def initialize_state(self, context: FunctionInitializationContext) -> None:
                self.state = context.get_operator_state_store().get_list_state("buffered", str)
                self.lines = list(self.state.get())

            def snapshot_state(self, context: FunctionSnapshotContext) -> None:
                self.state.update(self.lines)

            def invoke(self, value: str, context: SinkContext) -> None:
                self.lines.append(value)
    """

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext, /) -> None:
        """Called once before `open`; gets state from `context` and reads what was restored."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext, /) -> None:
        """Called at each checkpoint, which `context` describes; updates the state that is part of it.

        It must not block.
        """
