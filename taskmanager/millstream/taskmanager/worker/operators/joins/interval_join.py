"""Interval joins: each record of the first stream is joined with those of the second that are close in event time.

A record that arrives is joined with those of the other stream that are present, and is kept for later ones. A record
behind the watermark is late and joins nothing. All others are joined with all records in their interval, so the result
does not depend on when records are removed. A batch is stored as a whole, and its matches are looked up as a whole.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import Any

from millstream.core.jobs.plan.join_plan import IntervalJoinSpec
from millstream.core.jobs.progress import KeptRecords, OperatorProgress
from millstream.core.overriding import override
from millstream.core.records.batches import MIN_TIMESTAMP, Batch, RowBatch, StreamSignal, Watermark
from millstream.datastream.functions import JoinContext, as_callable
from millstream.taskmanager.worker.interruption import TaskInterrupted
from millstream.taskmanager.worker.operators.base import KeyOf
from millstream.taskmanager.worker.operators.joins.nearby import NearbyRecords
from millstream.taskmanager.worker.operators.reduce import may_ask_for_state
from millstream.taskmanager.worker.operators.registry import builds
from millstream.taskmanager.worker.operators.results import Results
from millstream.taskmanager.worker.operators.setup import OperatorSetup
from millstream.taskmanager.worker.operators.two_input import TwoInputOperator
from millstream.taskmanager.worker.operators.windows.operator import LATE
from millstream.taskmanager.worker.state.table import MISSING


class _Context(JoinContext):
    """One object serves all pairs."""

    left = MIN_TIMESTAMP
    right = MIN_TIMESTAMP

    def get_left_timestamp(self) -> int:
        return self.left

    def get_right_timestamp(self) -> int:
        return self.right

    def get_timestamp(self) -> int:
        return max(self.left, self.right)


@builds(IntervalJoinSpec)
class IntervalJoinOperator(TwoInputOperator):
    """Joins two keyed streams, in one subtask."""

    def __init__(self, setup: OperatorSetup, spec: IntervalJoinSpec) -> None:
        super().__init__(setup, spec)
        assert self.keyed_state is not None, "both streams have keys"
        backend, span = self.keyed_state, spec.upper - spec.lower + 1
        self._bounds = (spec.lower, spec.upper)
        self._left = NearbyRecords("left-records", self.input_types[0], backend, span, spec.upper)
        self._right = NearbyRecords("right-records", self.input_types[1], backend, span, -spec.lower)
        self._late_tags = spec.late_tags
        self._call = as_callable(spec.function, "process_element")
        self._uses_keys = may_ask_for_state(spec.function)
        self._context = _Context()
        self._watermark = MIN_TIMESTAMP
        self._late_dropped = setup.context.get_metrics_group().counter(LATE)
        self._left_came = self._right_came = 0
        self._is_restored = setup.services.restored is not None

    @override
    def open(self) -> None:
        if self._is_restored:
            self._left.restored()
            self._right.restored()
        super().open()

    def process(self, batch: Batch) -> None:
        """Joins each record of the first input."""
        assert self._first_key is not None, "both streams have keys"
        self._left_came += len(batch)
        self._take(self.rows_of(batch), batch.row_times(), self._first_key, from_left=True)

    def process2(self, batch: Batch) -> None:
        """Joins each record of the second input."""
        assert self._second_key is not None, "both streams have keys"
        self._right_came += len(batch)
        self._take(self.second_rows_of(batch), batch.row_times(), self._second_key, from_left=False)

    def on_signal(self, signal: StreamSignal, input_index: int = 0) -> None:
        """Removes the records that the watermark has expired."""
        if isinstance(signal, Watermark):
            self._watermark = signal.timestamp
            self._left.advance(signal.timestamp)
            self._right.advance(signal.timestamp)
        super().on_signal(signal, input_index)

    def progress(self) -> OperatorProgress | None:
        """The number of kept records, and until when."""
        times = [time for side in (self._left, self._right) if (time := side.next_event_time()) is not None]
        came = (self._left_came, self._right_came)
        kept = KeptRecords(self._left.kept, self._right.kept, *came, min(times, default=None))
        return OperatorProgress(self.name, kept)

    def _take(self, rows: list[Any], stamps: array[int] | None, key_of: KeyOf, from_left: bool) -> None:
        source = iter(rows)
        try:
            keys = [key_of(row) for row in source]
            times = [MIN_TIMESTAMP] if stamps is None else stamps.tolist()
            if min(times) == MIN_TIMESTAMP:
                raise RuntimeError(
                    "an interval join requires records with timestamps: call assign_timestamps_and_watermarks before it"
                )
            if min(times) < self._watermark:
                rows, times, keys = self._in_time(rows, times, keys, from_left)
            source = iter(rows)
            (self._left if from_left else self._right).add(keys, times, rows)
            self._match(rows, source, times, keys, from_left)
        except TaskInterrupted:
            raise
        except BaseException as error:
            raise self.failed(error, rows, source, key_of) from error
        finally:
            self.leave_key()

    def _in_time(
        self, rows: list[Any], times: list[int], keys: list[Any], from_left: bool
    ) -> tuple[list[Any], list[int], list[Any]]:
        """The records that are not late; late records go to the side output, or are counted."""
        watermark, tag = self._watermark, self._late_tags[0 if from_left else 1]
        late = [i for i, time in enumerate(times) if time < watermark]
        output = None if tag is None else self.side_outputs.get(tag)
        if output is not None:
            output.emit(RowBatch(self.handover.all(rows[i] for i in late), [times[i] for i in late]))
        elif tag is None:
            self._late_dropped.inc(len(late))
        kept = [i for i, time in enumerate(times) if time >= watermark]
        return [rows[i] for i in kept], [times[i] for i in kept], [keys[i] for i in kept]

    def _match(self, rows: list[Any], source: Any, times: list[int], keys: list[Any], from_left: bool) -> None:
        """Calls the function for each pair. `source` iterates over the rows."""
        lower, upper = self._bounds if from_left else (-self._bounds[1], -self._bounds[0])
        call, ctx, missing, handover = self._call, self._context, MISSING, self.handover
        enter = self.keyed_state.set_current_key if self._uses_keys and self.keyed_state is not None else None
        results = Results(self, stamped=True)
        add = results.add
        near = (self._right if from_left else self._left).of(keys)
        for row, time, key, others in zip(source, times, keys, near, strict=True):
            if others is missing or others[-1][0] < time + lower:
                continue
            last, begin = time + upper, 0 if len(others) == 1 else bisect_left(others, (time + lower,))
            for position in range(begin, len(others)):
                at, other = others[position]
                if at > last:
                    break
                if enter is not None:
                    enter(key)
                if from_left:
                    ctx.left, ctx.right = time, at
                    result = call(row, other, ctx)
                else:
                    ctx.left, ctx.right = at, time
                    result = call(other, row, ctx)
                if result is not None:
                    add(result, time if time > at else at)
        handover.done(rows)
        results.emit()
