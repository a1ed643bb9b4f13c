"""map, flat_map and filter. The loops are tight: with batches of 2,000 rows the function dominates the cost."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, compress
from typing import Any

from millstream.core.jobs.plan import plan
from millstream.core.overriding import override
from millstream.core.records.batches import TIMESTAMP, Batch, ColumnBatch, RowBatch
from millstream.core.records.function_code import only_calculates
from millstream.datastream.functions import as_callable
from millstream.taskmanager.worker.interruption import TaskInterrupted
from millstream.taskmanager.worker.operators.base import FunctionOperator
from millstream.taskmanager.worker.operators.registry import builds
from millstream.taskmanager.worker.operators.setup import OperatorSetup


@builds(plan.MapSpec)
class MapOperator(FunctionOperator):
    """Emits one record for each record."""

    def __init__(self, setup: OperatorSetup, spec: plan.MapSpec) -> None:
        super().__init__(setup, spec.function)
        self._call = as_callable(spec.function, "map")
        self._only_calculates = only_calculates(spec.function)

    @override
    def process(self, batch: Batch) -> None:
        rows, call = self.rows_of(batch), self._call
        source = iter(rows)
        plain = self._only_calculates and self.is_plain(batch)
        try:
            mapped = [call(row) for row in source] if plain else self.handover.mapped(call, source, rows)
        except TaskInterrupted:
            raise
        except BaseException as error:
            raise self.failed(error, rows, source) from error
        self.output.emit(batch.with_rows(mapped, plain or self.handover.plain))


@builds(plan.FlatMapSpec)
class FlatMapOperator(FunctionOperator):
    """Emits any number of records for each record."""

    def __init__(self, setup: OperatorSetup, spec: plan.FlatMapSpec) -> None:
        super().__init__(setup, spec.function)
        self._call = as_callable(spec.function, "flat_map")

    def process(self, batch: Batch) -> None:
        """Collects the results of each record; None means none."""
        rows, times, call = self.rows_of(batch), batch.row_times(), self._call
        source = iter(rows)
        out: list[Any] = []
        out_times = None if times is None else array(TIMESTAMP)
        try:
            if times is not None and out_times is not None:
                out = self.handover.all(timed_results(call, source, times, out_times), rows)
            elif self.handover.copies:
                out = self.handover.all(chain.from_iterable(results_of(call, source)), rows)
            else:
                extend = out.extend  # not +=, which NumPy arrays override
                for row in source:
                    result = call(row)
                    if result is not None:
                        extend(result)
        except TaskInterrupted:
            raise
        except BaseException as error:
            raise self.failed(error, rows, source) from error
        if out:
            self.output.emit(RowBatch(out, out_times, self.handover.plain))


def results_of(call: Callable[[Any], Any], source: Iterable[Any]) -> Iterator[Any]:
    """The results of the function for each record, without None."""
    for row in source:
        result = call(row)
        if result is not None:
            yield result


def timed_results(
    call: Callable[[Any], Any], source: Iterable[Any], times: array[int], out_times: array[int]
) -> Iterator[Any]:
    """The results of each record; for each, the record's timestamp is appended to `out_times`."""
    for row, timestamp in zip(source, times, strict=True):
        results = call(row)
        if results is not None:
            for result in results:
                out_times.append(timestamp)
                yield result


@builds(plan.FilterSpec)
class FilterOperator(FunctionOperator):
    """Emits the records that satisfy a condition. Columns stay columns."""

    def __init__(self, setup: OperatorSetup, spec: plan.FilterSpec) -> None:
        super().__init__(setup, spec.function)
        self._call = as_callable(spec.function, "filter")

    def process(self, batch: Batch) -> None:
        """Emits the records for which the function returns true."""
        rows, call = self.rows_of(batch), self._call
        source = iter(rows)
        kept: list[Any] = []
        mask: list[bool] = []
        has_more = batch.is_timed or batch.kinds is not None  # beside the records, to be chosen by the mask
        try:
            if batch.in_columns:
                mask = [bool(call(row)) for row in source]
            elif batch.plain or not self.handover.copies:
                if not has_more:
                    kept = [row for row in source if call(row)]
                else:
                    mask = [True if call(row) else False for row in source]  # noqa: SIM210  # a call of bool costs more
                    kept = list(compress(rows, mask))
            elif not has_more:
                kept = self.handover.all((row for row in source if call(row)), rows)
            else:
                kept = self.handover.all(_judged(call, source, mask), rows)
        except TaskInterrupted:
            raise
        except BaseException as error:
            raise self.failed(error, rows, source) from error
        if isinstance(batch, ColumnBatch):
            if any(mask):
                self.output.emit(batch.filter(mask))
        elif kept:
            self.output.emit(batch.chosen(kept, mask, batch.plain or self.handover.plain))


def _judged(call: Callable[[Any], Any], source: Iterable[Any], mask: list[bool]) -> Iterator[Any]:
    """The records that are kept; whether each record is, is appended to `mask`."""
    for row in source:
        keep = bool(call(row))
        mask.append(keep)
        if keep:
            yield row
