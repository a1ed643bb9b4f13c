"""The operator of a SourceFunction, which runs on a thread of its own from the first poll on.

At a barrier the function is prevented from emitting, what it has collected is emitted, and then its state is brought up
to date: so the checkpoint contains exactly the state after the records before the barrier.
"""

from __future__ import annotations

from millstream.core.jobs.plan import function_ends_plan as plan
from millstream.core.processes.task_thread import TaskThread
from millstream.core.records.batches import LAST_WATERMARK, Barrier, Batch, RowBatch
from millstream.datastream.connectors.base import PollStatus
from millstream.taskmanager.worker.operators.base import NO_RECORD, FunctionOperator, OperatorError
from millstream.taskmanager.worker.operators.registry import builds
from millstream.taskmanager.worker.operators.setup import OperatorSetup
from millstream.taskmanager.worker.operators.sources.collected import ROOM, CollectedRecords, SourceCancelled


@builds(plan.SourceFunctionSpec)
class SourceFunctionOperator(FunctionOperator):
    """The head of a source task. `poll` takes what the function has collected."""

    def __init__(self, setup: OperatorSetup, spec: plan.SourceFunctionSpec) -> None:
        super().__init__(setup, spec.function)
        self._most = setup.services.max_rows
        self._records = CollectedRecords(setup.services.make_reader_context(setup.context).wake_up)
        self._thread: TaskThread | None = None
        self._error: BaseException | None = None

    def poll(self, rows: int) -> Batch | PollStatus:
        """Returns what was collected; an error of the function is raised after the records before it."""
        if self._thread is None:
            self._thread = TaskThread(self._run, self.name)
        while (taken := self._records.take(min(rows, self._most))) is not None:
            if isinstance(taken, RowBatch):
                return self.handed_over(taken)
            self.on_signal(taken)
        if not self._records.is_over:
            return PollStatus.NOTHING_AVAILABLE
        if self._error is not None:
            raise OperatorError(self.name, NO_RECORD, self._error) from self._error
        return PollStatus.END_OF_INPUT

    def _run(self) -> None:
        try:
            self.function.run(self._records)
        except SourceCancelled:
            pass
        except BaseException as error:  # whatever it is, it has to be reported to the task
            self._error = error
        self._records.end()

    def prepare_snapshot(self, barrier: Barrier) -> None:
        """Emits what was collected before the barrier."""
        with self._records.frozen():
            while (taken := self._records.take(ROOM)) is not None:
                if isinstance(taken, RowBatch):
                    self.output.emit(self.handed_over(taken))
                else:
                    self.on_signal(taken)
            super().prepare_snapshot(barrier)

    def finish(self) -> None:
        """Advances event time to its end."""
        self.on_signal(LAST_WATERMARK)

    def close(self) -> None:
        """Cancels the function, waits for it to return, and closes it."""
        thread = self._thread
        if thread is not None and thread.is_alive:
            self._records.cancel()
            self._guarded(self.function.cancel)
            thread.join()
        super().close()
