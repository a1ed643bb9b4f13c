"""Barriers that overtake: on real channels over frames that the test delivers, each record is in one place."""

from __future__ import annotations

import pickle
from collections import deque
from itertools import chain
from typing import Any

import pytest
from exchange_link import Link, flat, gate_of, rows_in
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from msgspec.structs import replace
from thoroughness import cases

from millstream.core.jobs.barriers import Alignment
from millstream.core.jobs.plan import plan
from millstream.core.records import types as t
from millstream.core.records.batches import END_OF_INPUT, Barrier, RowBatch
from millstream.taskmanager.worker.checkpointing.in_flight import CapturedChannel, CapturedInFlight, share_of
from millstream.taskmanager.worker.network.codecs import ElementCodec
from millstream.taskmanager.worker.network.frames import Data
from millstream.taskmanager.worker.network.inputs import LocalInputChannel, ProtocolError
from millstream.taskmanager.worker.network.outputs import LocalOutputChannel
from millstream.taskmanager.worker.network.overtaking import Passage, is_overtakable, overtake
from millstream.taskmanager.worker.network.recording import Recording, buffer_of

BARRIER = Barrier(1, 1000, alignment=Alignment.UNALIGNED)
TIMED = Barrier(1, 1000, aligned_timeout_ms=50)


def linked(*, segment: int = 200, compressed: bool = False, overtakable: bool = True) -> Link:
    """Two buffers for the only channel, and none in the pool."""
    return Link(segment=segment, compressed=compressed, floating=0, shared=4, kind=t.LONG, overtakable=overtakable)


def captured_rows(buffers: list[Any]) -> list[int]:
    """What a restored producer would emit again."""
    elements = [pickle.loads(element) for element in CapturedChannel(0, 0, buffers).elements()]
    return rows_in(ElementCodec(t.LONG).decode(number, payload) for _, _, number, payload in elements)


def overtaken_by(passage: Passage) -> list[int]:
    return captured_rows([buffer_of(data) for data in passage.overtaken])


def recorded_in(recording: Recording) -> list[int]:
    return captured_rows(recording.buffers)


# Sending


def test_a_barrier_without_credit_leaves_ahead_of_everything() -> None:
    wire = linked()
    wire.emit(1)
    wire.partition.emit(RowBatch([2]))  # still waits for its buffer to fill
    (passage,) = wire.partition.barrier(BARRIER)
    assert overtaken_by(passage) == [1, 2]
    assert not passage.is_open
    assert [data.sequence for data in wire.data if data.priority] == [0]
    assert flat(wire.take_all()) == [BARRIER, 1, 2]


def test_overtaken_records_reference_no_class_of_this_version_in_a_snapshot() -> None:
    wire = linked()
    wire.emit(1)
    (passage,) = wire.partition.barrier(BARRIER)
    (element,) = CapturedChannel(0, 0, [buffer_of(data) for data in passage.overtaken]).elements()
    assert [type(part) for part in pickle.loads(element)] == [int, int, int, bytes]


def test_a_batch_that_was_sent_in_part_is_finished_first() -> None:
    wire = linked(segment=60)
    wire.emit(*range(1 << 40, (1 << 40) + 30))  # 270 bytes: five buffers
    wire.emit(1)
    wire.carry_credit()
    assert len(wire.output.queue) == 4
    (passage,) = wire.partition.barrier(BARRIER)
    assert overtaken_by(passage) == [1]
    assert [data.priority for data in wire.output.queue] == [False, False, False, True, False]
    second = replace(BARRIER, checkpoint_id=2)
    wire.partition.barrier(second)
    assert flat(wire.take_all())[30:] == [BARRIER, second, 1], "barriers keep their order"


def test_a_blocked_aligned_barrier_can_be_made_to_overtake() -> None:
    wire = linked()
    for row in range(3):
        wire.emit(row)
    (passage,) = wire.partition.barrier(TIMED)
    wire.emit(3)
    assert passage.is_open
    wire.carry_credit()
    assert passage.is_open
    passage.hurry(TIMED)
    assert not passage.is_open
    assert overtaken_by(passage) == [2]
    assert flat(wire.take_all()) == [0, 1, replace(TIMED, alignment=Alignment.UNALIGNED), 2, 3]


def test_an_aligned_barrier_that_was_sent_overtakes_nothing() -> None:
    wire = linked()
    wire.carry_credit()
    wire.emit(1)
    (passage,) = wire.partition.barrier(TIMED)
    assert not passage.is_open
    passage.hurry(TIMED)
    assert passage.overtaken == []
    assert flat(wire.take_all()) == [1, TIMED]


def test_on_other_exchanges_a_barrier_keeps_its_position() -> None:
    wire = linked(overtakable=False)
    wire.emit(1)
    assert wire.partition.barrier(BARRIER) == []
    assert flat(wire.take_all()) == [1, BARRIER]


@pytest.mark.parametrize("barrier", [BARRIER, TIMED])
def test_there_it_is_urgent_from_when_it_is_sent_until_it_is_taken(barrier: Barrier) -> None:
    wire = linked(overtakable=False)
    wire.emit(1)
    wire.partition.barrier(barrier)
    assert not wire.gate.is_pressed
    wire.carry_data()
    assert wire.gate.is_pressed, "it still waits for credit"
    assert wire.gate.poll(pressed=True) is None
    wire.carry_credit()
    wire.carry_data()
    seen = [wire.gate.poll(pressed=True) for _ in range(2)]
    assert flat(element for _, element in seen) == [1, barrier]
    wire.input.passed(barrier)
    assert not wire.gate.is_pressed


def test_plain_barriers_and_overtaking_ones_are_not_urgent() -> None:
    for wire, barrier in ((linked(overtakable=False), Barrier(1, 1000)), (linked(), BARRIER)):
        wire.emit(1)
        wire.partition.barrier(barrier)
        wire.carry_data()
        assert not wire.gate.is_pressed


@pytest.mark.parametrize(
    ("partitioner", "may"),
    [
        (plan.HashPartitioner(plan.KeySelector(function=str)), True),
        (plan.RebalancePartitioner(), True),
        (plan.ShufflePartitioner(), True),
        (plan.GlobalPartitioner(), True),
        (plan.ForwardPartitioner(), False),
        (plan.RescalePartitioner(), False),
        (plan.BroadcastPartitioner(), False),
        (plan.CustomPartitioner(max, plan.KeySelector(function=str)), False),
    ],
)
def test_which_exchanges_support_overtaking(partitioner: plan.Partitioner, may: bool) -> None:
    assert is_overtakable(partitioner) is may


@given(st.lists(st.booleans(), max_size=8), st.integers(0, 8), st.booleans(), st.integers(0, 2))
def test_the_queue_keeps_every_buffer_and_its_order(more: list[bool], at: int, in_batch: bool, urgent: int) -> None:
    last = [*more, False]  # a batch is queued as a whole
    buffers = [Data(0, sequence=n, more=fragment) for n, fragment in enumerate(last)]
    start = next(n for n, b in enumerate(buffers) if not b.more) + 1 if in_batch else 0
    buffers[start:start] = [Data(0, sequence=100 + n, priority=True) for n in range(urgent)]
    frame = Data(0, sequence=1000)
    position = max(start + urgent, min(at, len(buffers)))
    queue = deque([*buffers[:position], frame, *buffers[position:]])
    passed = overtake(queue, frame, in_batch)
    kept = list(queue)
    index = kept.index(frame)
    assert index == start + urgent
    assert kept[:index] + kept[index + 1 :] == buffers
    assert passed == buffers[index:position]


# Receiving

ROWS, ROWS_PAYLOAD = ElementCodec(t.LONG).encode(RowBatch([1]))
SIGNAL, SIGNAL_PAYLOAD = ElementCodec(t.LONG).encode(BARRIER)


@pytest.mark.parametrize(
    ("before", "bad", "message"),
    [
        ([], Data(0, codec=ROWS, payload=ROWS_PAYLOAD, priority=True), "no barrier"),
        ([], Data(0, codec=SIGNAL, payload=b"nonsense", priority=True), "malformed Barrier"),
        (
            [Data(0, codec=1, payload=b"x", more=True)],
            Data(0, sequence=1, codec=SIGNAL, payload=SIGNAL_PAYLOAD, priority=True),
            "within a batch",
        ),
    ],
    ids=["no barrier", "malformed", "within a batch"],
)
def test_elements_that_must_not_overtake_are_refused(before: list[Data], bad: Data, message: str) -> None:
    wire = linked()
    for buffer in before:
        wire.gate.arrived(wire.input, buffer)
    with pytest.raises(ProtocolError, match=message):
        wire.gate.arrived(wire.input, bad)


def test_a_barrier_is_announced_when_it_arrives() -> None:
    wire = linked()
    wire.carry_credit()
    wire.emit(1)
    wire.partition.barrier(TIMED)
    wire.carry_data()
    assert wire.gate.take_announced() == [TIMED]
    assert wire.gate.take_announced() == []
    assert flat(wire.take_all()) == [1, TIMED]


def test_a_local_barrier_is_announced_even_if_the_consumer_came_later() -> None:
    target = LocalInputChannel(7, "")
    channel = LocalOutputChannel("", target)
    channel.signal(TIMED)
    gate = gate_of([target])
    assert gate.take_announced() == [TIMED]
    channel.signal(replace(TIMED, checkpoint_id=2))
    assert [barrier.checkpoint_id for barrier in gate.take_announced()] == [2]


def test_local_records_are_stored_as_of_now() -> None:
    target = LocalInputChannel(7, "")
    gate = gate_of([target], t.PICKLED)
    waiting, coming = {"count": 1}, {"count": 2}
    target.put(RowBatch([waiting]))
    recording = gate.record(target, 1, RowBatch([{"count": 0}]))
    target.put(RowBatch([coming]))
    waiting["count"] = coming["count"] = 99
    target.put(END_OF_INPUT)
    target.put(RowBatch([{"count": 3}]))
    assert recording.is_complete
    assert recorded_in(recording) == [{"count": 0}, {"count": 1}, {"count": 2}]


def test_a_record_that_cannot_be_stored_fails_the_recording_and_not_its_producer() -> None:
    target = LocalInputChannel(7, "")
    gate = gate_of([target], t.PICKLED)
    recording = gate.record(target, 1, None)
    target.put(RowBatch([(n for n in [1])]))
    assert recording.is_complete
    assert recording.error is not None


def test_a_recording_whose_barrier_never_comes_stays_incomplete() -> None:
    recording = Recording(2, ElementCodec(t.LONG))
    recording.add(replace(BARRIER, checkpoint_id=1))
    recording.add(RowBatch([1]))
    assert recorded_in(recording) == [1]
    recording.add(replace(BARRIER, checkpoint_id=3))
    recording.add(END_OF_INPUT)
    assert not recording.is_complete
    assert recording.buffers == []


# Restoring


@pytest.mark.parametrize("parallelism", [1, 2, 3, 5])
def test_every_element_is_restored_by_one_producer_in_order(parallelism: int) -> None:
    def state(name: str, *channels: tuple[int, int, list[bytes]]) -> tuple[str, list[Any]]:
        made = [
            CapturedChannel(p, c, [buffer_of(Data(0, codec=2, payload=payload)) for payload in payloads])
            for p, c, payloads in channels
        ]
        return name, [pickle.loads(element) for element in CapturedInFlight(name, tuple(made)).elements()]

    states = [
        state("in-flight-0-queued", (0, 0, [b"00q"]), (2, 1, [b"21q"])),
        state("in-flight-0-received", (2, 1, [b"21r1", b"21r2"]), (0, 0, [b"00r"]), (1, 1, [b"11r"])),
        state("in-flight-3-received", (1, 0, [b"other"])),
    ]
    shares = [share_of(states, subtask, parallelism) for subtask in range(parallelism)]
    emitted = [[payload for _, payload in share.get("0", [])] for share in shares]
    assert sorted(chain.from_iterable(emitted)) == sorted([b"00q", b"21q", b"21r1", b"21r2", b"00r", b"11r"])
    assert emitted[0][:2] == [b"00r", b"00q"]
    assert [p for p in emitted[2 % parallelism] if p.startswith(b"21")] == [b"21r1", b"21r2", b"21q"]
    assert [share["3"] for share in shares if share.get("3")] == [[(2, b"other")]]


class EveryRecordOnce(RuleBasedStateMachine):
    """Random traffic over one channel, with one checkpoint."""

    @initialize(segment=st.sampled_from([40, 200, 1000]), compressed=st.booleans(), timed=st.booleans())
    def start(self, segment: int, compressed: bool, timed: bool) -> None:
        self.wire = linked(segment=segment, compressed=compressed)
        self.barrier = TIMED if timed else BARRIER
        self.next = 0
        self.emitted: list[int] = []
        self.taken: list[int] = []
        self.before: list[int] | None = None
        self.effect: list[int] | None = None
        self.passage: Passage | None = None
        self.recording: Recording | None = None

    @rule(rows=st.integers(1, 120), flush=st.booleans())
    def emit(self, rows: int, flush: bool) -> None:
        values = [(1 << 40) + self.next + n for n in range(rows)]
        self.next += rows
        self.emitted += values
        self.wire.partition.emit(RowBatch(values))
        if flush:
            self.wire.output.flush()

    @rule(count=st.integers(1, 3))
    def carry(self, count: int) -> None:
        self.wire.carry_data(count)

    @rule()
    def grant(self) -> None:
        self.wire.carry_credit()

    @rule()
    def take(self) -> None:
        _, element = self.wire.gate.poll() or (None, None)
        if isinstance(element, RowBatch):
            self.taken += element.rows
        elif isinstance(element, Barrier) and self.effect is None:
            self.effect = list(self.taken)  # it was taken before it could overtake: nothing is recorded

    @precondition(lambda self: self.before is None)
    @rule()
    def send_barrier(self) -> None:
        self.before = list(self.emitted)
        (self.passage,) = self.wire.partition.barrier(self.barrier)

    @precondition(lambda self: self.passage is not None)
    @rule()
    def hurry(self) -> None:
        self.passage.hurry(self.barrier)

    @precondition(lambda self: self.effect is None)
    @rule()
    def snapshot(self) -> None:
        """The consumer takes its snapshot at any time, as if another channel had delivered a barrier."""
        self.effect = list(self.taken)
        self.recording = self.wire.gate.record(self.wire.input, 1, None)

    def teardown(self) -> None:
        if not hasattr(self, "wire"):
            return
        if self.before is None:
            self.send_barrier()
        for element in flat(self.wire.take_all()):
            if isinstance(element, Barrier):
                self.effect = list(self.taken) if self.effect is None else self.effect
            else:
                self.taken.append(element)
        self.wire.output.flush()
        self.taken += rows_in(self.wire.take_all())
        assert self.taken == self.emitted, "what the barrier overtook came, once, and in its order"
        assert self.effect is not None
        assert self.passage is not None
        assert self.recording is None or self.recording.is_complete
        recorded = [] if self.recording is None else recorded_in(self.recording)
        assert self.effect + recorded + overtaken_by(self.passage) == self.before


EveryRecordOnce.TestCase.settings = settings(max_examples=cases(100), stateful_step_count=40)
TestEveryRecordOnce = EveryRecordOnce.TestCase
