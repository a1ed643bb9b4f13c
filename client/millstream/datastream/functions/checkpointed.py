"""Functions that take part in checkpoints themselves, with Flink's names.

Call order: `initialize_state` once before `open`, on a fresh start and on a restore alike; `snapshot_state` at each
checkpoint, between two records.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from millstream.datastream.state import KeyedStateStore, OperatorStateStore


class FunctionInitializationContext(ABC):
    """What a function can ask for when its state is set up."""

    @abstractmethod
    def is_restored(self) -> bool:
        """Whether state was restored from a snapshot, also when it held nothing for this function."""

    @abstractmethod
    def get_restored_checkpoint_id(self) -> int | None:
        """The id of the checkpoint or savepoint that state was restored from."""

    @abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore:
        """Where operator state comes from."""

    @abstractmethod
    def get_keyed_state_store(self) -> KeyedStateStore:
        """Where keyed state comes from; asking it for state is an error on a stream without keys."""


class FunctionSnapshotContext(ABC):
    """The checkpoint at hand."""

    @abstractmethod
    def get_checkpoint_id(self) -> int:
        """Its id; later checkpoints have higher ones."""

    @abstractmethod
    def get_checkpoint_timestamp(self) -> int:
        """When it was triggered, in milliseconds since the epoch."""


class CheckpointedFunction(ABC):
    """A function with operator state."""

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext, /) -> None:
        """Called once before `open`; gets state from `context` and reads what was restored."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext, /) -> None:
        """Called at each checkpoint, which `context` describes; updates the state that is part of it.

        It must not block.
        """
