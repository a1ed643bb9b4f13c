"""The operator of a sink whose writers do not use transactions."""

from __future__ import annotations

from millstream.core.jobs.plan import plan
from millstream.core.overriding import override
from millstream.core.records.batches import Barrier, Batch
from millstream.datastream.connectors.base import Sink, SinkWriter
from millstream.datastream.connectors.print import PrintSink
from millstream.datastream.connectors.two_phase_commit import TwoPhaseCommitSink
from millstream.taskmanager.worker.interruption import TaskInterrupted
from millstream.taskmanager.worker.operators.base import NO_RECORD, Operator, OperatorError, guarded, record_of
from millstream.taskmanager.worker.operators.registry import builds
from millstream.taskmanager.worker.operators.setup import OperatorSetup
from millstream.taskmanager.worker.operators.sinks.committing_sink import CommittingSinkOperator


@builds(plan.SinkSpec)
def build_sink(setup: OperatorSetup, spec: plan.SinkSpec) -> Operator:
    """Builds the operator, depending on whether the sink is transactional."""
    if isinstance(spec.sink, TwoPhaseCommitSink):
        return CommittingSinkOperator(setup, spec.sink)
    return SinkOperator(setup, spec.sink)


class SinkOperator(Operator):
    """Writes through a sink's writer.

    A writer that fails at a barrier may have lost what it buffered, so no later checkpoint may be taken: the task fails
    in its next step.
    """

    def __init__(self, setup: OperatorSetup, sink: Sink) -> None:
        super().__init__(setup)
        self._sink = sink
        self.only_reads = type(sink) is PrintSink
        self._writer: SinkWriter | None = None
        self._broken: OperatorError | None = None

    @override
    def open(self) -> None:
        try:
            self._writer = self._sink.create_writer(self.context)
        except TaskInterrupted:
            raise
        except BaseException as error:
            raise OperatorError(self.name, NO_RECORD, error) from error

    @override
    def process(self, batch: Batch) -> None:
        self._refuse_broken()
        writer = self._opened()
        try:
            writer.write(self.with_own_kinds(batch))
            self.records_written += len(batch)
        except TaskInterrupted:
            raise
        except BaseException as error:
            raise OperatorError(self.name, record_of(error), error) from error

    def prepare_snapshot(self, barrier: Barrier) -> None:
        """Flushes the writer: records before the barrier are not replayed after a restore."""
        self._refuse_broken()
        try:
            self._flush(False)
        except OperatorError as error:
            self._broken = error
            raise

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notifies the writer."""
        writer = self._opened()
        guarded(self.name, lambda: writer.notify_checkpoint_complete(checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notifies the writer."""
        writer = self._opened()
        guarded(self.name, lambda: writer.notify_checkpoint_aborted(checkpoint_id))

    @override
    def finish(self) -> None:
        self._refuse_broken()
        self._flush(True)

    def _refuse_broken(self) -> None:
        if self._broken is not None:
            raise self._broken

    def _flush(self, end_of_input: bool) -> None:
        writer = self._opened()
        guarded(self.name, lambda: writer.flush(end_of_input))

    def _opened(self) -> SinkWriter:
        assert self._writer is not None, "the writer is created in open"
        return self._writer

    @override
    def close(self) -> None:
        if self._writer is not None:
            guarded(self.name, self._writer.close)
