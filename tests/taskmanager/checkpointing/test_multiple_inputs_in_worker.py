"""Operators with two and more inputs, by one contract: alone, and as tasks through checkpoints and restores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from checkpoint_rig import SOURCE, CheckpointRig, merged
from counting_inputs import CASES, SELECTORS, THREE, Case, Counts, counted, records
from worker_rig import chain, edge, local_pair

from millstream.core.jobs.barriers import Alignment
from millstream.core.jobs.ids import ChannelId
from millstream.core.jobs.plan import plan
from millstream.core.messages.deployment import InputChannel, InputGate, OutputChannel, ResultPartition, TaskDeployment
from millstream.core.messages.task_manager import SlotMetrics
from millstream.core.metrics.model import decode_groups
from millstream.core.records.batches import END_OF_INPUT, Barrier, ColumnBatch, RowBatch, Watermark, WatermarkStatus
from millstream.core.snapshot import StateKind
from millstream.core.snapshot.metadata.operator_json import operators_from_json, operators_to_json
from millstream.taskmanager.testing import OperatorHarness
from millstream.taskmanager.worker.operators.base import OperatorError
from millstream.taskmanager.worker.tasks.task_pacing import StepResult

MANY = 200
"""A first channel behind all others."""
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[CheckpointRig]:
    made = CheckpointRig(tmp_path)
    yield made
    made.close()


@every_case
def test_each_input_has_its_type_and_its_key(case: Case) -> None:
    made = OperatorHarness(case.spec, *case.types).open()
    inputs = range(len(case.types))
    seen = [made.process(RowBatch(records(number, [7, 8, 7])), input_index=number) for number in inputs]
    assert seen == [[(7, number, 1), (8, number, 1), (7, number, 2)] for number in inputs]
    restored = OperatorHarness(case.spec, *case.types, restored=made.snapshot()).open()
    assert restored.process(RowBatch(records(1, [8])), input_index=1) == [(8, 1, 2)]


def test_columns_come_as_records_of_the_type_of_their_input() -> None:
    made = OperatorHarness(THREE.spec, *THREE.types).open()
    columns = pa.record_batch({"f0": [3, 4], "f1": ["a", "b"]})
    assert made.process(ColumnBatch(columns), input_index=2) == [(3, 2, 1), (4, 2, 1)]


def test_an_error_names_the_record_of_its_input() -> None:
    made = OperatorHarness(THREE.spec, *THREE.types).open()
    with pytest.raises(OperatorError) as caught:
        made.process(RowBatch(["1", "one", "2"]), input_index=1)
    assert caught.value.record == "one"
    assert isinstance(caught.value.__cause__, ValueError)


def test_broadcast_inputs_have_no_key() -> None:
    keys = plan.InputKeys((SELECTORS[0], None, None))
    spec = type(THREE.spec)(Counts(), keys)
    assert spec.keyed_by() == SELECTORS[:1]
    assert OperatorHarness(spec, *THREE.types).operator.key_functions[1:] == (None, None)  # type: ignore[attr-defined]


class Inputs:
    """A task of the operator alone; the test feeds its channels, one for each input, and reads its output."""

    def __init__(self, rig: CheckpointRig, case: Case) -> None:
        self.rig = rig
        gates = [
            InputGate(
                number, edge(kind=kind), (InputChannel(ChannelId(number), rig.address, "", 0),), edge=f"to-{number}"
            )
            for number, kind in enumerate(case.types)
        ]
        out, _ = local_pair(rig, MANY)
        self.task = rig.subtask(chain(case.spec, outputs=1), inputs=gates, outputs=[out])
        rig.deploy(self.task)
        self.channels = [rig.channel(number) for number in range(len(case.types))]

    def out(self) -> list[Any]:
        """Takes what the task has emitted: records and signals."""
        self.rig.turns(20)
        queue, seen = self.rig.channel(MANY).queue, list[Any]()
        while queue:
            element = queue.popleft()
            seen += element.rows if isinstance(element, RowBatch) else [element]
        return seen


@every_case
def test_watermarks_of_all_inputs_are_combined(rig: CheckpointRig, case: Case) -> None:
    inputs = Inputs(rig, case)
    *others, last = inputs.channels
    for number, channel in enumerate(others):
        channel.put(Watermark(30 + number))
    assert inputs.out() == []
    last.put(Watermark(20))
    assert inputs.out() == [Watermark(20)]
    rig.clock.advance(1.0)
    rig.turns(2)
    groups = decode_groups(rig.messages(SlotMetrics)[-1].groups)
    edges = [group for group in groups if group.path[:1] == ("edge",) and "to-" in group.path[1]]
    marks = {group.path[1]: group.gauges["currentInputWatermark"] for group in edges}
    assert marks == {f"to-{n}": 30 + n for n in range(len(others))} | {f"to-{len(others)}": 20}
    last.put(WatermarkStatus(True))
    assert inputs.out() == [Watermark(30)]
    for channel in inputs.channels:
        channel.put(END_OF_INPUT)
    assert inputs.out()[-1] == END_OF_INPUT


@every_case
def test_an_aligned_barrier_waits_for_all_inputs(rig: CheckpointRig, case: Case) -> None:
    inputs = Inputs(rig, case)
    barrier = Barrier(1, 0, location=rig.location(1))
    for number, channel in enumerate(inputs.channels):
        assert barrier not in inputs.out()
        channel.put(RowBatch(records(number, [1])))
        channel.put(barrier)
        channel.put(RowBatch(records(number, [2])))
    seen = inputs.out()
    everything = [(1, number, 1) for number in range(len(case.types))]
    assert seen[seen.index(barrier) + 1 :] == [(2, number, 1) for number in range(len(case.types))]
    assert seen[: seen.index(barrier)] == everything[-1:], "those of the other inputs came before"
    rig.acknowledged(1, inputs.task)


def state_of(operator_id: str, restore: bytes) -> bytes:
    """The state of one operator, as the job manager sends it to the tasks of its vertex."""
    return restore and operators_to_json(
        operator for operator in operators_from_json(restore, "restore") if operator.operator_id == operator_id
    )


class Job:
    """A source for each input, and counters of any parallelism; what they emit waits until the test takes it."""

    def __init__(
        self, rig: CheckpointRig, case: Case, counters: int, first_channel: int = 0, restore: bytes = b""
    ) -> None:
        self.rig = rig
        self.passed = set[int]()
        """The outputs that a barrier has reached."""
        self.outputs = [first_channel + MANY + n for n in range(counters)]
        inputs = range(len(case.types))
        specs = [
            edge(plan.HashPartitioner(SELECTORS[n]), case.types[n], f"source{n}-0", f"edge {n}") for n in inputs
        ]

        def channel(number: int, counter: int) -> ChannelId:
            return ChannelId(first_channel + number * counters + counter)

        gates = [
            [
                InputGate(n, specs[n], (InputChannel(channel(n, counter), rig.address, f"source {n}", 0),))
                for n in inputs
            ]
            for counter in range(counters)
        ]
        self.counters = [
            rig.subtask(
                chain(case.spec, outputs=1, prefix="count"), n, counters, state_of("count-0", restore), 1, gates[n],
                [local_pair(rig, self.outputs[n])[0]],
            )
            for n in range(counters)
        ]  # fmt: skip
        outputs = [
            ResultPartition(
                0, specs[n], tuple(OutputChannel(channel(n, c), rig.address, "count") for c in range(counters)), 128
            )
            for n in inputs
        ]
        self.sources = [
            rig.subtask(
                chain(SOURCE, outputs=1, prefix=f"source{n}"), 0, 1, state_of(f"source{n}-0", restore), 1,
                outputs=[outputs[n]],
            )
            for n in inputs
        ]  # fmt: skip
        rig.deploy(*self.counters, *self.sources)

    def read(self, *keys: Sequence[int], last: bool = False) -> None:
        for number, source in enumerate(self.sources):
            self.rig.feed(source, *([records(number, keys[number])] if keys else []), last=last)

    def records(self) -> list[Any]:
        """Takes the records that the counters emitted, up to a barrier."""
        seen: list[Any] = []
        for number in self.outputs:
            queue = self.rig.channel(number).queue
            while queue:
                element = queue.popleft()
                if isinstance(element, Barrier):
                    self.passed.add(number)
                elif isinstance(element, RowBatch) and number not in self.passed:
                    seen += element.rows
        return seen

    def run_out(self) -> list[Any]:
        """Lets everything end; returns all records that were emitted."""
        seen: list[Any] = []
        self.read(last=True)

        def ended() -> bool:
            seen.extend(self.records())
            return self.rig.ended(*self.counters)()

        self.rig.turn_until(ended)
        assert {self.rig.state(task) for task in self.counters} == {"FINISHED"}
        return seen + self.records()

    def until_stuck(self) -> None:
        """Runs until the output has no room for anything more, and no source can continue."""
        tasks = [self.rig.running(task) for task in self.sources]
        self.rig.turn_until(lambda: all(t.steps.last_result is StepResult.BACKPRESSURED for t in tasks))

    @property
    def tasks(self) -> list[TaskDeployment]:
        return [*self.sources, *self.counters]

    def cancel(self) -> None:
        self.rig.cancel(*[task.attempt_id for task in self.tasks])


@every_case
@pytest.mark.parametrize("alignment", [Alignment.ALIGNED, Alignment.UNALIGNED])
@pytest.mark.parametrize("counters", [(1, 2), (2, 1)], ids=["scaled up", "scaled down"])
def test_a_checkpoint_is_restored_at_another_parallelism(
    rig: CheckpointRig, case: Case, alignment: Alignment, counters: tuple[int, int]
) -> None:
    keys = [[n % 11 for n in range(1500 + 40 * number)] for number in range(len(case.types))]
    before = Job(rig, case, counters[0])
    before.read(*keys)
    before.until_stuck()
    rig.trigger(1, *before.sources, alignment=alignment)
    seen = Counter[Any]()
    if alignment is Alignment.ALIGNED:  # the barriers wait behind records, which need room

        def has_passed() -> bool:
            seen.update(before.records())
            return len(before.passed) == counters[0]

        rig.turn_until(has_passed)
    acks = rig.acknowledged(1, *before.tasks)
    seen.update(before.records())
    in_flight = {
        operator.operator_id
        for ack in acks
        for operator in operators_from_json(ack.operators, "ack")
        for state in operator.states
        if state.kind is StateKind.IN_FLIGHT
    }
    sources = {f"source{number}-0" for number in range(len(case.types))}
    assert in_flight == (sources if alignment is Alignment.UNALIGNED else set())
    before.cancel()
    state = merged(acks, {"count-0": counters[0], **dict.fromkeys(sources, 1)})
    seen.update(Job(rig, case, counters[1], 1000, state).run_out())
    assert seen == counted(*keys)
