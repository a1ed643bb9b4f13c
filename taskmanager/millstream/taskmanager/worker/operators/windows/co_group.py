"""Windows over two streams: a record is assigned to the windows of its key, tagged with its input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.core.jobs.plan.window_plan import CoGroupSpec
from millstream.core.overriding import override
from millstream.core.records.batches import Batch, RowBatch
from millstream.datastream.functions import TaggedUnion
from millstream.taskmanager.worker.operators.output import Emit
from millstream.taskmanager.worker.operators.registry import builds
from millstream.taskmanager.worker.operators.setup import OperatorSetup
from millstream.taskmanager.worker.operators.windows.operator import WindowOperator
from millstream.taskmanager.worker.partitioning import key_function


@builds(CoGroupSpec)
class CoGroupOperator(WindowOperator):
    """Windows two keyed streams, in one subtask."""

    def __init__(self, setup: OperatorSetup, spec: CoGroupSpec) -> None:
        super().__init__(setup, spec)
        first, second = key_function(spec.key_selector), key_function(spec.second_selector)

        def key_of(record: TaggedUnion) -> Any:
            return second(record.two) if record.from_second else first(record.one)

        self._select_keys(key_of)
        self._combine = None if spec.evictor is None else list

    @override
    def receivers(self) -> Sequence[Emit]:
        return (self.process, self.process2)

    def process(self, batch: Batch) -> None:
        """Assigns each record of the first input to its windows."""
        tagged = [TaggedUnion(row, None, False) for row in self.rows_of(batch)]
        super().process(RowBatch(tagged, batch.row_times()))

    def process2(self, batch: Batch) -> None:
        """Assigns each record of the second input to its windows."""
        rows = batch.records(self.input_types[1])
        super().process(RowBatch([TaggedUnion(None, row, True) for row in rows], batch.row_times()))
