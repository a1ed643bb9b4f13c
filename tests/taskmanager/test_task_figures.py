"""The metrics of a task when they are due: each of its edges, and its current state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from waiting import wait_until
from worker_rig import WorkerRig, chain, reading, wire, writing

from millstream.core.jobs.plan import plan
from millstream.core.messages.task_manager import SlotMetrics
from millstream.core.metrics.descriptions import TABLE
from millstream.core.metrics.model import MetricGroup, Scope, decode_groups
from millstream.core.records.batches import MIN_TIMESTAMP


@pytest.fixture
def rigs() -> Iterator[tuple[WorkerRig, WorkerRig]]:
    made = WorkerRig(network=True), WorkerRig(network=True)
    yield made
    for rig in made:
        rig.close()


def figures(rig: WorkerRig, *path: str) -> list[MetricGroup]:
    rig.clock.advance(1.0)
    rig.turns(2)
    found = decode_groups(rig.messages(SlotMetrics)[-1].groups)
    return [group for group in found if group.path[: len(path)] == path and group.scope in (Scope.TASK, Scope.OPERATOR)]


BY_FIRST = plan.KeySelector((0,))


def add(one: Any, other: Any) -> Any:
    return (one[0], one[1] + other[1])


def test_each_edge_and_each_state(rigs: tuple[WorkerRig, WorkerRig]) -> None:
    producer, consumer = rigs
    out, gate = wire(1, producer.address, consumer.address, plan.HashPartitioner(BY_FIRST))
    task = consumer.task(chain(plan.ReduceSpec(add, BY_FIRST), writing("figures")), [gate])
    consumer.deploy(task)
    rows = reading([(n % 7, n) for n in range(100)], waits=True)
    producer.deploy(producer.task(chain(rows, outputs=1), outputs=[out]))

    def has_all() -> bool:
        producer.turns()
        consumer.turns()
        return consumer.running(task).counts.records_in == 100

    wait_until(has_all, "all records")

    def has_credit() -> bool:
        producer.turns()
        return bool(figures(producer, "edge")[0].gauges["outputCredit"] > 0)

    wait_until(has_credit, "credit for the next buffers")
    (sent,) = figures(producer, "edge")
    assert sent.gauges["outputQueueLength"] == 0
    assert sent.counters["numRecordsOut"] == 100
    (arrived,) = figures(consumer, "edge")
    assert arrived.gauges == {"inputQueueLength": 0, "currentInputWatermark": MIN_TIMESTAMP}
    (state,) = figures(consumer, "state")
    assert state.gauges == {"numEntries": 7}
    assert [g.gauges["numStateEntries"] for g in figures(consumer) if "numStateEntries" in g.gauges] == [7]
    consumer.running(task).checkpoints.state_sizes = {("op-0", state.path[1]): 700}  # as of a checkpoint
    figures(consumer)
    consumer.operator(task).context.keyed_backend.forget_all()
    (changed,) = figures(consumer, "state")
    assert changed.gauges == {"numEntries": 0, "lastCheckpointBytes": 700, "estimatedBytes": 0}
    described = {row.name for row in TABLE}
    for group in (sent, arrived, state):
        assert {*group.gauges, *group.counters} <= described
