"""Workers with functions that cost time, on a clock that only those functions advance: the data in flight to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from waiting import wait_until
from worker_rig import DEBLOAT, WRITTEN, RowsReader, RowsSource, WorkerRig, chain, wire, writing

from millstream.core.jobs.plan import plan
from millstream.core.records import types as t
from millstream.core.records.batches import Batch, ColumnBatch
from millstream.datastream.connectors.base import PollStatus, SourceReader, SourceReaderContext
from millstream.taskmanager.worker.tasks.task_pacing import StepResult

COST: dict[str, Any] = {}
"""The cost of the function of the running test, and its clock; in this process, as the workers are."""


def slow(value: Any) -> Any:
    COST["clock"].advance(COST["each"])
    return value


def slow_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    COST["clock"].advance(COST["fixed"])
    COST["sizes"].append(batch.num_rows)
    return batch


class ColumnsSource(RowsSource):
    """The same in columns."""

    def produces_columns(self) -> bool:
        return True

    def create_reader(self, context: SourceReaderContext) -> SourceReader[Any]:
        return ColumnsReader(self, context)


class ColumnsReader(RowsReader):
    def poll_next(self, max_rows: int) -> Batch | PollStatus:
        polled = super().poll_next(max_rows)
        if isinstance(polled, PollStatus):
            return polled
        return ColumnBatch(pa.RecordBatch.from_pydict({"n": pa.array(polled.rows, pa.int64())}))


class Flow:
    """A source on the first worker and a task behind an exchange on the last; one worker: by reference."""

    def __init__(self, workers: list[WorkerRig], source: RowsSource, *specs: plan.OperatorSpec) -> None:
        self.workers = workers
        first, last = workers[0], workers[-1]
        COST.update(clock=last.clock, each=0.0, fixed=0.0, sizes=[])
        out, gate = wire(1, first.address, last.address, kind=t.LONG)
        self.source = first.task(chain(plan.SourceSpec(source), outputs=1), outputs=[out])
        self.task = last.task(chain(*specs, writing("slow")), [gate])
        last.deploy(self.task)
        first.deploy(self.source)
        self.producer = first.running(self.source)
        self.consumer = last.running(self.task)
        self.most_on_their_way = 0
        self.largest_turn = 0

    @property
    def processed(self) -> int:
        return self.consumer.counts.records_in

    def turn_until(self, done: Callable[[], bool], turns: int = 3000) -> None:
        """The consumer takes its turns; before each, its producer in another worker does all that it can."""
        for _ in range(turns):
            if done():
                return
            before = self.processed
            if len(self.workers) > 1:
                wait_until(self._is_quiet, "the producer to be held back")
            self.workers[-1].worker.turn()
            produced = self.producer.partitions[0].records_out
            self.most_on_their_way = max(self.most_on_their_way, produced - before)
            self.largest_turn = max(self.largest_turn, self.processed - before)
        raise AssertionError([rig.all_states() for rig in self.workers])

    def _is_quiet(self) -> bool:
        first, last = self.workers
        for _ in range(5):
            first.turns()
            last.worker.take_mails(0.0001)
        (sender,), (gate,) = self.producer.partitions[0].channels, self.consumer.gates
        (receiver,) = gate._credited.values()
        if sender._sequence != receiver._sequence:
            return False
        promised = gate._credit._rooms[1].promised if not receiver.ended else 0
        is_held_back = self.producer.steps.last_result is not StepResult.WORKED and sender.credit.credit == promised
        return receiver.has_all or is_held_back

    def run_out(self) -> list[Any]:
        self.turn_until(lambda: self.workers[-1].ended(self.task)())
        return WRITTEN["slow"][:-2]


@pytest.fixture(params=[1, 2], ids=["in one worker", "between two"])
def workers(request: pytest.FixtureRequest) -> Iterator[list[WorkerRig]]:
    made = [WorkerRig(network=True, **{DEBLOAT: "true"}) for _ in range(request.param)]
    yield made
    for rig in made:
        rig.close()


@pytest.mark.parametrize("source", [RowsSource, ColumnsSource], ids=["rows", "columns"])
def test_the_queue_of_a_slow_function_is_what_it_processes_in_a_second(
    workers: list[WorkerRig], source: type[RowsSource] | type[ColumnsSource]
) -> None:
    flow = Flow(workers, source(range(1500)), plan.MapSpec(slow))
    COST["each"] = 0.02
    flow.turn_until(lambda: flow.processed >= 200)
    assert flow.most_on_their_way <= 1.0 / 0.02 * 1.25
    COST["each"] = 0.0
    assert flow.run_out() == list(range(1500))


def test_a_function_that_becomes_fast_gets_full_batches_again(workers: list[WorkerRig]) -> None:
    flow = Flow(workers, RowsSource(range(30_000)), plan.MapSpec(slow))
    COST["each"] = 0.02
    flow.turn_until(lambda: flow.processed >= 200)
    assert flow.most_on_their_way <= 62
    COST["each"] = 1e-6
    assert flow.run_out() == list(range(30_000))
    assert flow.largest_turn > 2000


@pytest.mark.parametrize("source", [RowsSource, ColumnsSource])
def test_a_cost_per_call_does_not_make_batches_small(workers: list[WorkerRig], source: type[RowsSource]) -> None:
    flow = Flow(workers, source(range(30_000)), plan.MapBatchesSpec(slow_batch, "arrow"))
    COST["fixed"] = 0.5
    start = COST["clock"].monotonic()
    flow.turn_until(lambda: flow.processed >= 29_000)
    assert max(COST["sizes"]) >= 1000
    assert COST["clock"].monotonic() - start < 100, "batches of one row would take more than four hours"


def test_without_debloating_the_buffers_fill(workers: list[WorkerRig]) -> None:
    for rig in workers:
        rig.close()
    workers[:] = [WorkerRig(network=True, **{DEBLOAT: "false"}) for _ in workers]
    flow = Flow(workers, RowsSource(range(20_000)), plan.MapSpec(slow))
    COST["each"] = 0.02
    flow.turn_until(lambda: flow.processed >= 100)
    assert flow.most_on_their_way > 4000
