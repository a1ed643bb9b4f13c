"""The contexts of functions that take part in checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.core.overriding import override
from millstream.datastream.functions.checkpointed import FunctionInitializationContext, FunctionSnapshotContext
from millstream.datastream.state import KeyedStateStore, OperatorStateStore


@dataclass(frozen=True, slots=True)
class TaskInitializationContext(FunctionInitializationContext):
    """The state stores of one operator, and the snapshot that they were restored from."""

    operator_state: OperatorStateStore
    keyed_state: KeyedStateStore
    restored_checkpoint_id: int | None = None

    def is_restored(self) -> bool:
        """Whether state was restored from a snapshot."""
        return self.restored_checkpoint_id is not None

    def get_restored_checkpoint_id(self) -> int | None:
        """The id of the snapshot from which state was restored."""
        return self.restored_checkpoint_id

    def get_operator_state_store(self) -> OperatorStateStore:
        """The store of operator state."""
        return self.operator_state

    @override
    def get_keyed_state_store(self) -> KeyedStateStore:
        return self.keyed_state


@dataclass(frozen=True, slots=True)
class TaskSnapshotContext(FunctionSnapshotContext):
    """The context of one checkpoint."""

    checkpoint_id: int
    timestamp_ms: int

    @override
    def get_checkpoint_id(self) -> int:
        return self.checkpoint_id

    def get_checkpoint_timestamp(self) -> int:
        """When the checkpoint was triggered."""
        return self.timestamp_ms
