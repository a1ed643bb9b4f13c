"""What functions that take part in checkpoints are handed."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.datastream.functions.checkpointed import FunctionInitializationContext, FunctionSnapshotContext
from millstream.datastream.state import KeyedStateStore, OperatorStateStore


@dataclass(frozen=True, slots=True)
class TaskInitializationContext(FunctionInitializationContext):
    """The stores of one operator, and the snapshot that they were restored from."""

    operator_state: OperatorStateStore
    keyed_state: KeyedStateStore
    restored_checkpoint_id: int | None = None

    def is_restored(self) -> bool:
        """Whether state was restored from a snapshot."""
        return self.restored_checkpoint_id is not None

    def get_restored_checkpoint_id(self) -> int | None:
        """The id of the snapshot that state was restored from."""
        return self.restored_checkpoint_id

    def get_operator_state_store(self) -> OperatorStateStore:
        """Where operator state comes from."""
        return self.operator_state

    def get_keyed_state_store(self) -> KeyedStateStore:
        """Where keyed state comes from."""
        return self.keyed_state


@dataclass(frozen=True, slots=True)
class TaskSnapshotContext(FunctionSnapshotContext):
    """The checkpoint at hand."""

    checkpoint_id: int
    timestamp_ms: int

    def get_checkpoint_id(self) -> int:
        """Its id."""
        return self.checkpoint_id

    def get_checkpoint_timestamp(self) -> int:
        """When it was triggered."""
        return self.timestamp_ms
