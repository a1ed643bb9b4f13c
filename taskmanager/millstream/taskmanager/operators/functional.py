"""map, flat_map and filter. The loops are comprehensions: over 2k-row batches they run at the speed of the function."""

from __future__ import annotations

from itertools import compress
from typing import Any

from millstream.core.batches import Batch, ColumnBatch, RowBatch
from millstream.core.types import TypeInformation
from millstream.datastream.functions import RuntimeContext, as_callable
from millstream.taskmanager.interruption import TaskInterrupted
from millstream.taskmanager.operators.base import Emit, FunctionOperator


class MapOperator(FunctionOperator):
    """One record in, one out."""

    def __init__(self, name: str, context: RuntimeContext, input_type: TypeInformation, emit: Emit, function: Any):
        super().__init__(name, context, input_type, emit, function)
        self._call = as_callable(function, "map")

    def process(self, batch: Batch) -> None:
        """Maps each record."""
        rows, call = self.rows_of(batch), self._call
        source = iter(rows)
        try:
            mapped = [call(row) for row in source]
        except TaskInterrupted:
            raise
        except BaseException as error:
            raise self.failed(error, rows, source) from error
        self.emit(RowBatch(mapped, self.timestamps_of(batch)))


class FlatMapOperator(FunctionOperator):
    """One record in, any number out."""

    def __init__(self, name: str, context: RuntimeContext, input_type: TypeInformation, emit: Emit, function: Any):
        super().__init__(name, context, input_type, emit, function)
        self._call = as_callable(function, "flat_map")

    def process(self, batch: Batch) -> None:
        """Gathers what each record gives; None means nothing."""
        rows, times, call = self.rows_of(batch), self.timestamps_of(batch), self._call
        source = iter(rows)
        out: list[Any] = []
        extend = out.extend  # not +=, which NumPy arrays take over
        out_times: list[int] | None = None if times is None else []
        try:
            if times is None or out_times is None:
                for row in source:
                    result = call(row)
                    if result is not None:
                        extend(result)
            else:
                for row, timestamp in zip(source, times, strict=True):
                    result = call(row)
                    if result is not None:
                        extend(result)
                        out_times += [timestamp] * (len(out) - len(out_times))
        except TaskInterrupted:
            raise
        except BaseException as error:
            raise self.failed(error, rows, source) from error
        if out:
            self.emit(RowBatch(out, out_times))


class FilterOperator(FunctionOperator):
    """Keeps some records. Columns stay columns."""

    def __init__(self, name: str, context: RuntimeContext, input_type: TypeInformation, emit: Emit, function: Any):
        super().__init__(name, context, input_type, emit, function)
        self._call = as_callable(function, "filter")

    def process(self, batch: Batch) -> None:
        """Keeps the records for which the function answers true."""
        rows, call = self.rows_of(batch), self._call
        source = iter(rows)
        try:
            if isinstance(batch, RowBatch) and batch.timestamps is None:
                kept, mask = [row for row in source if call(row)], None
            else:
                kept, mask = [], [bool(call(row)) for row in source]
        except TaskInterrupted:
            raise
        except BaseException as error:
            raise self.failed(error, rows, source) from error
        if mask is not None:
            self._emit_masked(batch, mask)
        elif kept:
            self.emit(RowBatch(kept))

    def _emit_masked(self, batch: Batch, mask: list[bool]) -> None:
        if not any(mask):
            return
        if isinstance(batch, ColumnBatch):
            import pyarrow as pa

            chosen = pa.array(mask)
            times = batch.timestamps.filter(chosen) if batch.timestamps is not None else None
            self.emit(ColumnBatch(batch.data.filter(chosen), times))
        else:
            times = list(compress(batch.timestamps, mask)) if batch.timestamps is not None else None
            self.emit(RowBatch(list(compress(batch.rows, mask)), times))
