"""Filters and projections by expressions: whole batches at once, without a call for each record.

Columns are computed from those that the expressions read; only these are made of rows. What is filtered keeps its
form, rows or columns; what is computed is in columns. Timestamps and kinds of change stay with their records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millstream.core.jobs.plan.calc_plan import CalcSpec
from millstream.core.overriding import override
from millstream.core.records.batches import Batch, ColumnBatch
from millstream.taskmanager.worker.interruption import TaskInterrupted
from millstream.taskmanager.worker.operators.base import Operator, OperatorError, record_of
from millstream.taskmanager.worker.operators.columns.inputs import InputColumns
from millstream.taskmanager.worker.operators.registry import builds
from millstream.taskmanager.worker.operators.setup import OperatorSetup

if TYPE_CHECKING:
    from millstream.core.expressions import Evaluator


@builds(CalcSpec)
class CalcOperator(Operator):
    """Evaluates a condition, some columns, or both."""

    def __init__(self, setup: OperatorSetup, spec: CalcSpec) -> None:
        from millstream.core.expressions import Evaluator

        super().__init__(setup)
        self.only_reads = spec.columns is not None  # else it emits the records themselves
        self._condition = None if spec.condition is None else Evaluator([spec.condition])
        self._names = None if spec.columns is None else [name for name, _ in spec.columns]
        self._projection = Evaluator([column for _, column in spec.columns or ()])
        needed = {*self._projection.columns, *(self._condition.columns if self._condition is not None else ())}
        self._inputs = InputColumns(self.input_type, sorted(needed))

    @override
    def process(self, batch: Batch) -> None:
        if not len(batch):
            return
        try:
            results = self._results(batch)
        except (TaskInterrupted, OperatorError):
            raise
        except BaseException as error:
            raise OperatorError(self.name, record_of(error), error) from error
        if results is not None:
            self.output.emit(results)

    def _results(self, batch: Batch) -> Batch | None:
        is_kept = self._names is None
        columns = self._inputs.of_changes(batch.without_timestamps() if is_kept else batch)
        chosen = None
        if self._condition is not None:
            (chosen,) = self._evaluated(self._condition, batch, columns)
            count = chosen.true_count
            if not count:
                return None
            chosen = None if count == len(batch) else chosen.fill_null(False)
        if chosen is not None:
            batch = batch.filter(chosen if batch.in_columns else chosen.to_numpy(zero_copy_only=False))
        if is_kept:
            return batch
        columns = columns if chosen is None else columns.filter(chosen)
        arrays = self._evaluated(self._projection, batch, columns)
        return ColumnBatch(_named(arrays, self._names), columns.timestamps, columns.kinds)

    def _evaluated(self, evaluator: Evaluator, batch: Batch, columns: ColumnBatch) -> list[Any]:
        from millstream.core.expressions import EvaluationError

        try:
            return evaluator.evaluate(columns.data)
        except EvaluationError as error:
            row = evaluator.failing_row(columns.data)
            record = batch.slice(row, row + 1).to_rows(self.input_type).rows[0]
            raise OperatorError(self.name, record, error) from error


def _named(arrays: list[Any], names: list[str] | None) -> Any:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays(arrays, names=names)
