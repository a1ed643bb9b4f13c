"""Windows over columns of one key.

This operator handles time, lateness, outputs and state; `ColumnWindows` assigns rows.

Whole batches are processed at once. Windows in processing time work the same with another clock: a record's time is its
arrival, and the current time minus one is the watermark, so no record is ever late.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from millstream.core.jobs.plan.column_windows import ColumnWindowSpec
from millstream.core.jobs.progress import AwaitingEnd, OperatorProgress, TimedWork
from millstream.core.overriding import override
from millstream.core.records.batches import (
    MIN_TIMESTAMP,
    Batch,
    ColumnBatch,
    RowBatch,
    StreamSignal,
    Watermark,
)
from millstream.core.records.conversion import field_types
from millstream.datastream.window import (
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from millstream.datastream.window.assigner import missing_timestamp
from millstream.taskmanager.worker.interruption import TaskInterrupted
from millstream.taskmanager.worker.operators.base import NO_RECORD, Operator, OperatorError, record_of
from millstream.taskmanager.worker.operators.columns.inputs import InputColumns
from millstream.taskmanager.worker.operators.columns.partials import Partials
from millstream.taskmanager.worker.operators.registry import builds
from millstream.taskmanager.worker.operators.setup import OperatorSetup
from millstream.taskmanager.worker.operators.time.machine_clock import fire_due
from millstream.taskmanager.worker.operators.windows.columns.fired import END, START, ColumnWindows
from millstream.taskmanager.worker.operators.windows.columns.panes import PaneWindows
from millstream.taskmanager.worker.operators.windows.columns.sessions import SessionWindows
from millstream.taskmanager.worker.operators.windows.columns.stored import StoredWindows
from millstream.taskmanager.worker.operators.windows.operator import LATE
from millstream.taskmanager.worker.state.backend import KeyedStateBackend

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa


@builds(ColumnWindowSpec)
class ColumnWindowOperator(Operator):
    """The windows of one stream, in one subtask."""

    def __init__(self, setup: OperatorSetup, spec: ColumnWindowSpec) -> None:
        super().__init__(setup)
        backend = setup.keyed_state(spec.key_type)
        self.keyed_state: KeyedStateBackend = backend
        self._spec = spec
        self._clock = setup.services.clock
        self._most_rows = setup.services.max_column_rows
        self._is_event_time = bool(spec.assigner.is_event_time())
        self._watermark = MIN_TIMESTAMP
        types = dict(zip(self.input_type.field_names() or [], field_types(self.input_type) or [], strict=True))
        self._partials = Partials([(name, types[name]) for name in spec.key_columns], spec.aggregates)
        self._inputs = InputColumns(self.input_type, sorted(self._partials.inputs()))
        self._windows = _windows(spec, self._partials)
        stored = StoredWindows(self._partials, spec.key_type, self._windows, backend)
        self._next_number = stored.next_number
        self._waiting_records = 0  # records since a window fired last
        self._late_dropped = setup.context.get_metrics_group().counter(LATE)

    # Records

    def process(self, batch: Batch) -> None:
        """Adds all records to their windows."""
        if not len(batch):
            return
        try:
            data, times = self._inputs.of(batch), self._times(batch)
            late = self._windows.late(data, times) if self._is_event_time else None
            if late is not None:
                import pyarrow as pa

                self._drop(batch, late)
                data, times = data.filter(pa.array(~late)), times[~late]
            if len(times):
                self._waiting_records += len(times)
                self._emit(self._windows.take(data, times, self._next_number))
                self._next_number += len(times)
        except TaskInterrupted:
            raise
        except BaseException as error:
            raise OperatorError(self.name, record_of(error), error) from error

    def _times(self, batch: Batch) -> npt.NDArray[Any]:
        import numpy as np

        if not self._is_event_time:
            return np.full(len(batch), max(self._clock.now_ms(), self._watermark + 1), np.int64)
        if batch.timestamps is None:
            raise missing_timestamp(self._spec.assigner)
        times = np.asarray(batch.timestamps, np.int64)
        if times.min() == MIN_TIMESTAMP:
            raise missing_timestamp(self._spec.assigner)
        return times

    def _drop(self, batch: Batch, late: npt.NDArray[Any]) -> None:
        """Drops records that are too late for all of their windows."""
        tag = self._spec.late_tag
        if tag is None:
            self._late_dropped.inc(int(late.sum()))
        elif (output := self.side_outputs.get(tag)) is not None:
            chosen = batch.filter(late)
            if isinstance(chosen, RowBatch):
                chosen = chosen.with_rows([self.handover.one(row) for row in chosen.rows])
            output.emit(chosen)

    # Time

    def on_signal(self, signal: StreamSignal, input_index: int = 0) -> None:
        """Forwards a watermark after all windows that it ends have fired."""
        if isinstance(signal, Watermark) and (self._is_event_time or self._spec.only_at_the_end):
            self._advance(signal.timestamp)
        super().on_signal(signal, input_index)

    def on_time(self, now: float) -> float | None:
        """Fires the windows that have ended in processing time."""
        if self._is_event_time or self._spec.only_at_the_end:
            return None
        return fire_due(self, self._clock, now, lambda until: self._advance(until - 1))

    def next_timestamp(self) -> int | None:
        """When the next window ends in processing time."""
        return self._windows.next_end()

    @override
    def progress(self) -> OperatorProgress | None:
        if self._spec.only_at_the_end:
            return OperatorProgress(self.name, AwaitingEnd(self._waiting_records))
        kind, count, end = self._windows.waiting()
        if end is None or not self._is_event_time:
            work = TimedWork(kind, count, self._waiting_records, next_processing_time=end)
        else:
            work = TimedWork(kind, count, self._waiting_records, end - 1)
        return OperatorProgress(self.name, work)

    def _advance(self, watermark: int) -> None:
        if watermark <= self._watermark:
            return
        self._watermark = watermark
        try:
            self._emit(self._windows.advance(watermark))
        except TaskInterrupted:
            raise
        except BaseException as error:
            raise OperatorError(self.name, NO_RECORD, error) from error

    # Results

    def _emit(self, fired: Iterable[pa.Table]) -> None:
        for table in fired:
            self._waiting_records = 0
            batch = self._result(table)
            for start in range(0, len(batch), self._most_rows):
                self.output.emit(batch.slice(start, start + self._most_rows))

    def _result(self, table: pa.Table) -> ColumnBatch:
        import pyarrow as pa
        import pyarrow.compute as pc

        partials = self._partials
        keys = [key.decode(table.column(name)) for key, name in zip(partials.keys, partials.key_names, strict=False)]
        starts, ends = table.column(START).combine_chunks(), table.column(END).combine_chunks()
        names = [*partials.key_columns, *(a.name for a in partials.aggregates), "window_start", "window_end"]
        data = pa.RecordBatch.from_arrays([*keys, *partials.results(table), starts, ends], names=names)
        return ColumnBatch(data, pc.subtract(ends, 1))


def _windows(spec: ColumnWindowSpec, partials: Partials) -> ColumnWindows:
    assigner, lateness = spec.assigner, spec.allowed_lateness
    match assigner:
        case TumblingEventTimeWindows() | TumblingProcessingTimeWindows():
            return PaneWindows(assigner.size, assigner.size, assigner.offset, lateness, partials)
        case SlidingEventTimeWindows() | SlidingProcessingTimeWindows():
            return PaneWindows(assigner.size, assigner.slide, assigner.offset, lateness, partials)
        case EventTimeSessionWindows() | ProcessingTimeSessionWindows():
            return SessionWindows(assigner.session_gap, lateness, partials)
        case _:
            raise TypeError(f"windows of {type(assigner).__name__} cannot be aggregated by columns")
