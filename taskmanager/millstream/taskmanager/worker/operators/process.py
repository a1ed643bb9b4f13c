"""Process functions, keyed and not: called per record, with a context and side outputs."""

from __future__ import annotations

from millstream.core.jobs.plan import plan
from millstream.core.records.batches import Batch
from millstream.taskmanager.worker.operators.base import KeyOf
from millstream.taskmanager.worker.operators.record_context import KeyedRecordContext, RecordContext, TimerContext
from millstream.taskmanager.worker.operators.registry import builds
from millstream.taskmanager.worker.operators.setup import OperatorSetup
from millstream.taskmanager.worker.operators.time.timing import TimingOperator
from millstream.taskmanager.worker.partitioning import key_function


@builds(plan.ProcessSpec)
@builds(plan.KeyedProcessSpec)
class ProcessOperator(TimingOperator):
    """Runs a ProcessFunction, or a KeyedProcessFunction on a keyed stream."""

    def __init__(self, setup: OperatorSetup, spec: plan.ProcessSpec | plan.KeyedProcessSpec) -> None:
        super().__init__(setup, spec.function)
        self._key_of: KeyOf | None = None
        self._context = RecordContext(self.timer_service)
        if isinstance(spec, plan.KeyedProcessSpec):
            self.keyed_state = setup.keyed_state(spec.key_type)
            self._key_of = key_function(spec.key_selector)
            self._context = KeyedRecordContext(self.timer_service)
            self.set_up_timers(TimerContext(self.timer_service))

    def process(self, batch: Batch) -> None:
        """Calls the function for each record."""
        call = self.function.process_element
        self.run(self.rows_of(batch), batch.row_times(), call, self._context, self._key_of)
