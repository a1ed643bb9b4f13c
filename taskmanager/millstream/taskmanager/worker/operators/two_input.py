"""Operators on two connected streams: `process` takes the batches of the first one, `process2` those of the second."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, ClassVar, TypeAlias

from millstream.core.jobs.plan import plan
from millstream.core.jobs.plan.join_plan import IntervalJoinSpec
from millstream.core.overriding import override
from millstream.core.records.batches import TIMESTAMP, Batch, RowBatch
from millstream.taskmanager.worker.interruption import TaskInterrupted
from millstream.taskmanager.worker.operators.base import KeyOf
from millstream.taskmanager.worker.operators.functional import results_of, timed_results
from millstream.taskmanager.worker.operators.multiple_input import MultipleInputOperator
from millstream.taskmanager.worker.operators.output import Emit
from millstream.taskmanager.worker.operators.record_context import KeyedRecordContext, RecordContext, TimerContext
from millstream.taskmanager.worker.operators.registry import builds
from millstream.taskmanager.worker.operators.setup import OperatorSetup
from millstream.taskmanager.worker.operators.time.timing import TimingOperator

Gathered: TypeAlias = "tuple[list[Any], array[int] | None]"
TwoInputSpec = plan.CoMapSpec | plan.CoFlatMapSpec | plan.CoProcessSpec | plan.BroadcastProcessSpec | IntervalJoinSpec


class TwoInputOperator(MultipleInputOperator):
    """Base of operators with a second input, which may be of another type than the first."""

    def __init__(self, setup: OperatorSetup, spec: TwoInputSpec) -> None:
        super().__init__(setup, spec.function, spec.keys)
        self._first_key, self._second_key = self.key_functions

    @override
    def receivers(self) -> Sequence[Emit]:
        return (self.process, self.process2)

    def process2(self, batch: Batch) -> None:
        """Processes a batch of the second input."""
        raise NotImplementedError

    def second_rows_of(self, batch: Batch) -> list[Any]:
        """The records of a batch of the second input as Python objects."""
        return self.records_of(1, batch)


class _GatheringOperator(TwoInputOperator):
    """Base of operators whose function returns the results of a record, with a method for either input."""

    methods: ClassVar[tuple[str, str]]

    def process(self, batch: Batch) -> None:
        """Processes a batch of the first input."""
        self._run(self.rows_of(batch), batch.row_times(), self.methods[0], self._first_key)

    def process2(self, batch: Batch) -> None:
        """Processes a batch of the second input."""
        self._run(self.second_rows_of(batch), batch.row_times(), self.methods[1], self._second_key)

    def _run(self, rows: list[Any], times: array[int] | None, method: str, key_of: KeyOf | None) -> None:
        source = iter(rows)
        try:
            out, out_times = self.gather(self.entering(source, key_of), times, getattr(self.function, method), rows)
        except TaskInterrupted:
            raise
        except BaseException as error:
            raise self.failed(error, rows, source, key_of) from error
        finally:
            self.leave_key()
        if out:
            self.output.emit(RowBatch(out, out_times, self.handover.plain))

    def gather(
        self, records: Iterator[Any], times: array[int] | None, call: Callable[[Any], Any], rows: list[Any]
    ) -> Gathered:
        """The results of the records, with their timestamps."""
        raise NotImplementedError


@builds(plan.CoMapSpec)
class CoMapOperator(_GatheringOperator):
    """Emits at most one record for each record: None is dropped."""

    methods = ("map1", "map2")

    def gather(
        self, records: Iterator[Any], times: array[int] | None, call: Callable[[Any], Any], rows: list[Any]
    ) -> Gathered:
        """One result of each record, or none."""
        if times is None:
            return self.handover.all(results_of(call, records), rows), None
        out_times = array(TIMESTAMP)
        return self.handover.all(timed_results(_listing(call), records, times, out_times), rows), out_times


def _listing(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def listed(record: Any) -> tuple[Any, ...]:
        result = call(record)
        return () if result is None else (result,)

    return listed


@builds(plan.CoFlatMapSpec)
class CoFlatMapOperator(_GatheringOperator):
    """Emits any number of records for each record."""

    methods = ("flat_map1", "flat_map2")

    def gather(
        self, records: Iterator[Any], times: array[int] | None, call: Callable[[Any], Any], rows: list[Any]
    ) -> Gathered:
        """All results of each record; None means none."""
        if times is None:
            return self.handover.all(chain.from_iterable(results_of(call, records)), rows), None
        out_times = array(TIMESTAMP)
        return self.handover.all(timed_results(call, records, times, out_times), rows), out_times


@builds(plan.CoProcessSpec)
class CoProcessOperator(TwoInputOperator, TimingOperator):
    """Runs a CoProcessFunction, or a KeyedCoProcessFunction when both streams are keyed."""

    def __init__(self, setup: OperatorSetup, spec: plan.CoProcessSpec) -> None:
        super().__init__(setup, spec)
        self._context = RecordContext(self.timer_service)
        if spec.keys is not None:
            self._context = KeyedRecordContext(self.timer_service)
            self.set_up_timers(TimerContext(self.timer_service))

    def process(self, batch: Batch) -> None:
        """Processes each record of the first input."""
        call = self.function.process_element1
        self.run(self.rows_of(batch), batch.row_times(), call, self._context, self._first_key)

    def process2(self, batch: Batch) -> None:
        """Processes each record of the second input."""
        call = self.function.process_element2
        self.run(self.second_rows_of(batch), batch.row_times(), call, self._context, self._second_key)
