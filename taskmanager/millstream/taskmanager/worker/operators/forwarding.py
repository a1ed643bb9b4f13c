"""An operator around another one: each hook is forwarded, so that a subclass overrides only those that it changes.

A hook that `Operator` gains has to be added here; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from millstream.core.jobs.progress import OperatorProgress
from millstream.core.jobs.state_kinds import StateKind
from millstream.core.overriding import override
from millstream.core.records.batches import Barrier, Batch, StreamSignal
from millstream.datastream.connectors.base import PollStatus
from millstream.taskmanager.worker.operators.base import Operator, RestoredElements
from millstream.taskmanager.worker.operators.output import Emit
from millstream.taskmanager.worker.operators.setup import OperatorSetup


class ForwardingOperator(Operator):
    """Wraps `inner`, which was built with the same setup and emits by itself."""

    def __init__(self, setup: OperatorSetup, inner: Operator) -> None:
        super().__init__(setup)
        self.inner = inner
        self.keyed_state, self.operator_state = inner.keyed_state, inner.operator_state
        self.only_reads, self.polls_columns = inner.only_reads, inner.polls_columns

    @property
    def records_written(self) -> int:  # type: ignore[override]  # the count of the wrapped operator
        """The number of records that the operator has written."""
        return self.inner.records_written

    # Life

    @override
    def restore(self, restored: RestoredElements) -> None:
        self.inner.restore(restored)

    @override
    def initialize_state(self, restored_checkpoint_id: int | None) -> None:
        self.inner.initialize_state(restored_checkpoint_id)

    @override
    def open(self) -> None:
        self.inner.open()

    @override
    def finish(self) -> None:
        self.inner.finish()

    @override
    def close(self) -> None:
        self.inner.close()

    # Records and events

    @override
    def receivers(self) -> Sequence[Emit]:
        return self.inner.receivers()

    @override
    def process(self, batch: Batch) -> None:
        self.inner.process(batch)

    @override
    def poll(self, rows: int) -> Batch | PollStatus:
        return self.inner.poll(rows)

    @override
    def emit_polled(self, batch: Batch) -> None:
        self.inner.emit_polled(batch)

    @override
    def on_signal(self, signal: StreamSignal, input_index: int = 0) -> None:
        self.inner.on_signal(signal, input_index)

    @override
    def on_time(self, now: float) -> float | None:
        return self.inner.on_time(now)

    @override
    def on_mail(self, mail: Any) -> Any:
        return self.inner.on_mail(mail)

    @override
    def release(self, rows: int) -> None:
        self.inner.release(rows)

    @override
    def end_key(self) -> None:
        self.inner.end_key()

    # What the task asks

    @property
    @override
    def has_room(self) -> bool:
        return self.inner.has_room

    @property
    @override
    def is_paused(self) -> bool:
        return self.inner.is_paused

    @property
    @override
    def is_drained(self) -> bool:
        return self.inner.is_drained

    @property
    @override
    def is_settled(self) -> bool:
        return self.inner.is_settled

    @property
    @override
    def holds_back(self) -> bool:
        return self.inner.holds_back

    @property
    @override
    def ends_keys(self) -> bool:
        return self.inner.ends_keys

    @override
    def progress(self) -> OperatorProgress | None:
        return self.inner.progress()

    # Checkpoints

    @override
    def prepare_snapshot(self, barrier: Barrier) -> None:
        self.inner.prepare_snapshot(barrier)

    @override
    def elements(self, checkpoint_id: int) -> Mapping[StateKind, Sequence[Any]]:
        return self.inner.elements(checkpoint_id)

    @override
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.inner.notify_checkpoint_complete(checkpoint_id)

    @override
    def is_committed(self, checkpoint_id: int) -> bool:
        return self.inner.is_committed(checkpoint_id)

    @override
    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self.inner.notify_checkpoint_aborted(checkpoint_id)
