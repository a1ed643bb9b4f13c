"""Real barriers through real channels: several inputs are aligned, and barriers keep their position among records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from checkpoint_rig import CheckpointRig, PositionedSource, state_of, stored_state
from worker_rig import chain, edge, local_pair, turn_all_until, wire, writing, written

from millstream.core.jobs.barriers import Alignment
from millstream.core.jobs.failure_kinds import DeclineReason
from millstream.core.jobs.ids import ChannelId
from millstream.core.jobs.plan import plan
from millstream.core.messages.checkpoints import CheckpointAck, InputsEnded
from millstream.core.messages.deployment import InputChannel, InputGate
from millstream.core.records import types as t
from millstream.core.records.batches import END_OF_INPUT, Barrier, Element, RowBatch
from millstream.datastream.functions import (
    BroadcastProcessFunction,
    KeyedCoProcessFunction,
    RuntimeContext,
)
from millstream.datastream.state import MapStateDescriptor

KEYS = plan.TwoInputKeys(plan.KeySelector(function=lambda v: v % 2), plan.KeySelector(function=lambda v: v % 2), t.LONG)
RULES = MapStateDescriptor("rules", t.STRING, t.LONG)


class Sums(KeyedCoProcessFunction):
    """The sums of both inputs by parity."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.first = runtime_context.get_state("first", int)
        self.second = runtime_context.get_state("second", int)

    def process_element1(self, value: int, ctx: Any) -> Iterator[Any]:
        self.first.update((self.first.value() or 0) + value)
        yield "first", value

    def process_element2(self, value: int, ctx: Any) -> Iterator[Any]:
        self.second.update((self.second.value() or 0) + value)
        yield "second", value


class Rules(BroadcastProcessFunction):
    def process_element(self, value: str, ctx: Any) -> Iterator[Any]:
        yield value, ctx.get_broadcast_state(RULES).get(value)

    def process_broadcast_element(self, value: tuple[str, int], ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put(*value)


def channel_of(rig: CheckpointRig, number: int) -> InputChannel:
    return InputChannel(ChannelId(number), rig.address, f"producer {number}", producer_subtask=0)


class Join:
    """A task of two inputs whose channels the test fills, and whose output it sees."""

    def __init__(self, rig: CheckpointRig, spec: plan.OperatorSpec | None = None, channels: int = 1) -> None:
        self.rig = rig
        gates = [
            InputGate(side, edge(), tuple(channel_of(rig, 100 * side + n) for n in range(channels))) for side in (0, 1)
        ]
        output, _ = local_pair(rig, 1000)
        self.deployment = rig.start(spec or plan.CoProcessSpec(Sums(), KEYS), inputs=gates, outputs=[output])
        self.out = rig.channel(1000).queue

    def put(self, channel: int, *elements: Element) -> None:
        self.rig.channel(channel).queue.extend(elements)
        self.rig.turns(20)

    def passed(self) -> list[Any]:
        """What was emitted: records and barrier numbers, in order."""
        seen: list[Any] = []
        while self.out:
            element = self.out.popleft()
            seen += element.rows if isinstance(element, RowBatch) else [element]
        return seen

    def state(self, checkpoint: int, name: str) -> dict[Any, Any]:
        (ack,) = self.rig.acknowledged(checkpoint, self.deployment)
        return stored_state(self.rig.location(checkpoint), state_of(ack, name))


def barrier(rig: CheckpointRig, checkpoint: int, aligned: bool = True) -> Barrier:
    alignment = Alignment.ALIGNED if aligned else Alignment.AT_LEAST_ONCE
    return Barrier(checkpoint, 77, location=rig.location(checkpoint), alignment=alignment)


def test_records_behind_a_barrier_wait_for_the_other_input(rig: CheckpointRig) -> None:
    join = Join(rig)
    join.put(0, RowBatch([1]), barrier(rig, 1), RowBatch([3]))
    join.put(100, RowBatch([10]))
    assert join.passed() == [("first", 1), ("second", 10)]
    assert not rig.acks(1)
    rig.clock.advance(0.25)
    join.put(100, RowBatch([20]), barrier(rig, 1), RowBatch([40]))
    assert join.passed()[:2] == [("second", 20), barrier(rig, 1)]
    assert join.state(1, "first") == {1: 1}
    assert join.state(1, "second") == {0: 30}
    assert (rig.acks(1)[0].alignment_ms, rig.acks(1)[0].waited_for) == (250, "producer 100")
    join.put(0, RowBatch([5]))
    join.put(0, barrier(rig, 2))
    join.put(100, END_OF_INPUT)
    assert join.state(2, "first") == {1: 9}
    assert join.state(2, "second") == {0: 70}


def test_at_least_once_continues_without_waiting(rig: CheckpointRig) -> None:
    join = Join(rig)
    join.put(0, RowBatch([1]), barrier(rig, 1, False), RowBatch([3]))
    assert join.passed() == [("first", 1), ("first", 3)]
    join.put(100, barrier(rig, 1, False))
    assert join.passed() == [barrier(rig, 1, False)]
    assert join.state(1, "first") == {1: 4}


def test_every_channel_of_every_input_is_aligned(rig: CheckpointRig) -> None:
    join = Join(rig, channels=2)
    for channel in (0, 100, 1):
        join.put(channel, barrier(rig, 1), RowBatch([2]))
    assert join.passed() == []
    join.put(101, RowBatch([4]), barrier(rig, 1))
    assert join.state(1, "second") == {0: 4}
    assert join.passed()[:2] == [("second", 4), barrier(rig, 1)]


def test_an_aborted_checkpoint_unblocks_its_channels(rig: CheckpointRig) -> None:
    join = Join(rig)
    join.put(0, barrier(rig, 1), RowBatch([1]))
    assert join.passed() == []
    rig.notice(1, False, join.deployment)
    join.put(100, barrier(rig, 1))
    assert join.passed() == [("first", 1)]
    assert not rig.acks(1)
    assert not rig.declines(1)
    join.put(0, barrier(rig, 2))
    join.put(100, barrier(rig, 2))
    assert join.state(2, "first") == {1: 1}


def test_a_newer_checkpoint_declines_the_older(rig: CheckpointRig) -> None:
    join = Join(rig)
    join.put(0, barrier(rig, 1), barrier(rig, 2))
    join.put(100, barrier(rig, 2))
    (decline,) = rig.declines(1)
    assert (decline.reason, decline.message) == (DeclineReason.SUBSUMED, "overtaken by checkpoint 2")
    assert join.state(2, "first") == {}


def test_a_task_whose_producers_have_ended_is_triggered_itself_and_its_snapshot_contains_its_end(
    rig: CheckpointRig,
) -> None:
    join = Join(rig)
    join.put(0, RowBatch([1]))
    rig.trigger(1, join.deployment)
    join.put(0, END_OF_INPUT)
    assert not rig.acks(1)
    join.put(100, RowBatch([2]), END_OF_INPUT)
    assert join.state(1, "first") == {1: 1}
    assert join.state(1, "second") == {0: 2}
    assert join.passed()[-2:] == [("second", 2), END_OF_INPUT]
    kinds = [type(message) for message in rig.sent]
    assert kinds.index(InputsEnded) < kinds.index(CheckpointAck), "so that its consumers are triggered as well"


def test_broadcast_state_is_stored_and_restored(rig: CheckpointRig) -> None:
    spec = plan.BroadcastProcessSpec(Rules(), (RULES,))
    join = Join(rig, spec)
    join.put(100, RowBatch([("a", 1), ("b", 2)]), barrier(rig, 1))
    join.put(0, barrier(rig, 1))
    assert join.state(1, "rules") == {"a": 1, "b": 2}
    output, _ = local_pair(rig, 2000)
    gate = InputGate(0, edge(), (channel_of(rig, 3000),))
    again = rig.subtask(chain(spec, outputs=1), 2, 3, rig.acks(1)[0].operators, inputs=[gate], outputs=[output])
    rig.deploy(again)
    join.put(3000, RowBatch(["b"]))
    assert [row for batch in rig.channel(2000).queue for row in batch.rows] == [("b", 2)]


@pytest.mark.parametrize("timeout", ["0 ms", "1 h"])
def test_barriers_keep_their_position_between_workers(tmp_path: Path, timeout: str) -> None:
    """Rows that still wait for their buffer to fill are sent before the barrier, and buffers after it, after it."""
    workers = [CheckpointRig(tmp_path, True, **{"execution.buffer-timeout.interval": timeout}) for _ in range(2)]
    producer, consumer = workers
    portions = [range(1, 21), range(21, 41), range(41, 101)]

    def turn_until(done: Callable[[], bool]) -> None:
        turn_all_until(workers, done)

    try:
        output, gate = wire(1, producer.address, consumer.address)
        sum_up = plan.ReduceSpec(lambda a, b: a + b, plan.KeySelector(function=lambda v: 0), t.LONG, t.LONG)
        sums = consumer.start(sum_up, writing("wire"), inputs=[gate])
        source = producer.start(plan.SourceSpec(PositionedSource(1)), outputs=[output])
        producer.feed(source, portions[0])
        for checkpoint in (1, 2):
            turn_until(lambda: not producer.unread(source))
            producer.trigger(checkpoint, source)
            producer.feed(source, portions[checkpoint])
            both = (producer.responded(checkpoint, 1), consumer.responded(checkpoint, 1))
            turn_until(lambda both=both: all(responded() for responded in both))
            (ack,) = consumer.acks(checkpoint)
            total = stored_state(consumer.location(checkpoint), state_of(ack, "reduce"))
            assert total == {0: sum(range(1, portions[checkpoint].start))}
        producer.feed(source, last=True)
        turn_until(lambda: consumer.ended(sums)() and producer.ended(source)())
        assert written("wire", int)[-1] == 5050
    finally:
        for rig in workers:
            rig.close()
