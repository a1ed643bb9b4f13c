"""The operator of a SinkFunction: called for each record, with or without a key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from millstream.core.clock import Clock
from millstream.core.jobs.plan import function_ends_plan as plan
from millstream.core.records.batches import MIN_TIMESTAMP, Batch, StreamSignal, Watermark
from millstream.datastream.functions import SinkContext, SinkFunction
from millstream.taskmanager.worker.operators.base import KeyOf, OperatorError
from millstream.taskmanager.worker.operators.processing import ProcessingOperator
from millstream.taskmanager.worker.operators.registry import builds
from millstream.taskmanager.worker.operators.setup import OperatorSetup
from millstream.taskmanager.worker.partitioning import key_function


class RecordSinkContext(SinkContext):
    """The context of a sink function, shared by all records."""

    current: int | None = None
    key: Any = None
    watermark = MIN_TIMESTAMP

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def timestamp(self) -> int | None:
        """The timestamp of the record."""
        return self.current

    def current_watermark(self) -> int:
        """The current watermark of the operator."""
        return self.watermark

    def current_processing_time(self) -> int:
        """The time of the task's clock."""
        return self._clock.now_ms()


@builds(plan.SinkFunctionSpec)
class SinkFunctionOperator(ProcessingOperator):
    """Calls the function; emits nothing."""

    function: SinkFunction[Any]

    def __init__(self, setup: OperatorSetup, spec: plan.SinkFunctionSpec) -> None:
        super().__init__(setup, spec.function)
        self._sink_context = RecordSinkContext(setup.services.clock)
        self._key_of: KeyOf | None = None
        if spec.key_selector is not None:
            self.keyed_state = setup.keyed_state(spec.key_type)
            self._key_of = key_function(spec.key_selector)

    def process(self, batch: Batch) -> None:
        """Calls the function for each record."""
        self.run(self.rows_of(batch), batch.row_times(), self._invoke, self._sink_context, self._key_of)
        self.records_written += len(batch)

    def failed(
        self, cause: BaseException, rows: list[Any], source: Iterator[Any], key_of: KeyOf | None = None
    ) -> OperatorError:
        """A failed write is not attributed to the record, but to the external system."""
        error = super().failed(cause, rows, source, key_of)
        error.is_outage = True
        return error

    def _invoke(self, value: Any, context: SinkContext) -> None:
        """Calls the function; its result is ignored."""
        self.function.invoke(value, context)

    def on_signal(self, signal: StreamSignal, input_index: int = 0) -> None:
        """Notifies the function of watermarks."""
        if isinstance(signal, Watermark):
            self._sink_context.watermark = signal.timestamp
            self._guarded(lambda: self.function.write_watermark(signal))
        super().on_signal(signal, input_index)

    def finish(self) -> None:
        """Has the function write what it buffers."""
        self._guarded(self.function.finish)
