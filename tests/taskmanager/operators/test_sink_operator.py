"""The operator of a sink without transactions, with a writer that fails."""

from __future__ import annotations

import pytest

from millstream.core.jobs.plan import plan
from millstream.core.records.batches import Barrier, Batch, RowBatch
from millstream.datastream.connectors.base import Sink, SinkWriter
from millstream.datastream.functions import RuntimeContext
from millstream.taskmanager.testing import OperatorHarness
from millstream.taskmanager.worker.operators.base import OperatorError


class Buffering(Sink, SinkWriter):
    """Loses its buffer if it cannot be written, once."""

    def __init__(self) -> None:
        self.held: list[int] = []
        self.out: list[int] = []
        self.fails = False

    def create_writer(self, context: RuntimeContext) -> SinkWriter:
        return self

    def write(self, batch: Batch) -> None:
        self.held += batch.rows

    def flush(self, end_of_input: bool) -> None:
        held, self.held = self.held, []
        if self.fails:
            self.fails = False
            raise OSError("the server is away")
        self.out += held


def test_after_a_failure_at_a_barrier_the_task_fails() -> None:
    sink = Buffering()
    operator = OperatorHarness(plan.SinkSpec(sink)).operator
    operator.open()
    operator.process(RowBatch([1]))
    operator.prepare_snapshot(Barrier(1, 0))
    assert sink.out == [1]
    operator.process(RowBatch([2]))
    sink.fails = True
    for step in (
        lambda: operator.prepare_snapshot(Barrier(2, 0)),
        lambda: operator.prepare_snapshot(Barrier(3, 0)),  # it would contain the effect of record 2, which is lost
        lambda: operator.process(RowBatch([3])),
        operator.finish,
    ):
        with pytest.raises(OperatorError, match="the server is away"):
            step()
    operator.close()
    assert sink.out == [1]
