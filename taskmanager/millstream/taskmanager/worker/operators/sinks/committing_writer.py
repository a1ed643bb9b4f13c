"""The writers of a sink with one committer: what they return at a barrier is sent to the committer before it."""

from __future__ import annotations

from typing import Any

from millstream.core.jobs.plan import plan
from millstream.core.overriding import override
from millstream.core.records.batches import Barrier, RowBatch
from millstream.datastream.connectors.global_commit import CommittingWriter
from millstream.taskmanager.worker.operators.base import guarded
from millstream.taskmanager.worker.operators.registry import builds
from millstream.taskmanager.worker.operators.setup import OperatorSetup
from millstream.taskmanager.worker.operators.sinks.sink import SinkOperator


@builds(plan.CommittingWriterSpec)
class CommittingWriterOperator(SinkOperator):
    """Writes, and emits committables. Those of the end of the input leave before the end does: none can follow it."""

    def __init__(self, setup: OperatorSetup, spec: plan.CommittingWriterSpec) -> None:
        super().__init__(setup, spec.sink)
        self._ended = False

    def prepare_snapshot(self, barrier: Barrier) -> None:
        """Emits committables, unless all have been emitted."""
        if not self._ended:
            super().prepare_snapshot(barrier)

    @override
    def finish(self) -> None:
        super().finish()
        self._ended = True

    @override
    def _flush(self, end_of_input: bool) -> None:
        super()._flush(end_of_input)
        writer = self._opened()
        assert isinstance(writer, CommittingWriter), "checked when it was created"
        committables: list[Any] = []
        guarded(self.name, lambda: committables.extend(writer.prepare_commit()))
        if committables:
            self.output.emit(RowBatch(committables))
