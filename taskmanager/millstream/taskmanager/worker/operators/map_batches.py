"""Vectorised functions: one call per batch, over Arrow record batches or pandas data frames."""

from __future__ import annotations

from typing import Any, NamedTuple

from millstream.core.jobs.plan import plan
from millstream.core.records.batches import Batch, ColumnBatch
from millstream.core.records.conversion import to_record_batch
from millstream.core.records.copying import private_columns
from millstream.core.records.types import PICKLED
from millstream.datastream.functions import as_callable
from millstream.taskmanager.worker.interruption import TaskInterrupted
from millstream.taskmanager.worker.operators.base import NO_RECORD, FunctionOperator, OperatorError, record_of
from millstream.taskmanager.worker.operators.registry import builds
from millstream.taskmanager.worker.operators.setup import OperatorSetup


@builds(plan.MapBatchesSpec)
class MapBatchesOperator(FunctionOperator):
    """Maps columns to columns. Rows are converted to columns first, by their declared type."""

    def __init__(self, setup: OperatorSetup, spec: plan.MapBatchesSpec) -> None:
        super().__init__(setup, spec.function)
        self._call = as_callable(spec.function, "map_batches")
        self._pandas = spec.batch_format == "pandas"

    def process(self, batch: Batch) -> None:
        """Calls the function once. If it returns None, nothing is emitted."""
        try:
            columns = batch.columns(self.input_type)
            result = self._call(columns.to_pandas() if self._pandas else columns)
            if result is None:
                return
            converted = to_record_batch(private_columns(result) if self.handover.copies else result)
        except TaskInterrupted:
            raise
        except BaseException as error:
            raise OperatorError(self.name, self._blamed(batch, error), error) from error
        if converted.num_rows:
            same = converted.num_rows == len(batch)
            self.output.emit(ColumnBatch(converted, batch.column_times() if same else None))

    def _blamed(self, batch: Batch, error: BaseException) -> Any:
        """The record that caused the error, or the batch if the error does not identify one."""
        record = record_of(error)
        if record is not NO_RECORD or not len(batch):
            return record
        return _InBatch(len(batch), batch.slice(0, 1).to_rows(PICKLED).rows[0])


class _InBatch(NamedTuple):
    """Stands for an unknown record of a batch."""

    rows: int
    first: Any

    def __repr__(self) -> str:
        return f"one of {self.rows}, the first of which is {self.first!r}"
