"""Exchanges whose consumers ask for few rows at a time, and for more or fewer under way."""

from __future__ import annotations

from collections import deque
from typing import Any

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from thoroughness import cases

from millstream.core.jobs import plan
from millstream.core.records import types as t
from millstream.core.records.batches import END_OF_INPUT, Barrier, Batch, ColumnBatch, RowBatch
from millstream.core.records.conversion import record_batch_to_rows
from millstream.taskmanager.worker.network.channel_table import ChannelTable
from millstream.taskmanager.worker.network.codecs import ElementCodec
from millstream.taskmanager.worker.network.credit import CreditReceiver
from millstream.taskmanager.worker.network.debloating import Allowance, Debloater
from millstream.taskmanager.worker.network.frames import FRAME, Credit, Data, Frame
from millstream.taskmanager.worker.network.inputs import InputGate, LocalInputChannel, RemoteInputChannel
from millstream.taskmanager.worker.network.outputs import LocalOutputChannel, RemoteOutputChannel, ResultPartition
from millstream.taskmanager.worker.partitioning import make_router

PRODUCER, CONSUMER = "127.0.0.1:1", "127.0.0.1:2"
EXCLUSIVE, FLOATING, SHARED = 2, 3, 4


def columns(*values: int) -> ColumnBatch:
    return ColumnBatch(pa.RecordBatch.from_pydict({"n": pa.array(values, pa.int64())}))


def rows_of(batch: Batch) -> list[Any]:
    return batch.rows if isinstance(batch, RowBatch) else record_batch_to_rows(batch.data, t.LONG)


class Link:
    """A partition and a gate with one channel between them, over two tables of channels as in two workers."""

    def __init__(self, *, limit: int = 1, segment: int = 100_000) -> None:
        self.frames: deque[bytes] = deque()
        self.credits: deque[bytes] = deque()
        self.output = RemoteOutputChannel(0, "sink", CONSUMER, ElementCodec(t.LONG), segment, False, self._send, limit)
        router = make_router(plan.EdgeSpec(plan.GlobalPartitioner(), t.LONG, 128), 1, 0, 0)
        self.partition = ResultPartition(router, [self.output], -1, SHARED, overtakable=True)
        self.input = RemoteInputChannel(0, "source", PRODUCER)
        debloater = Debloater(1, EXCLUSIVE, FLOATING, 1.0, 0.2, 5, 0.25)
        self.gate = InputGate(
            [self.input], ElementCodec(t.LONG), CreditReceiver([0], EXCLUSIVE, FLOATING), self._grant,
            debloater=debloater if limit else None,
        )  # fmt: skip
        self.sending, self.receiving = ChannelTable(limit), ChannelTable(limit)
        self.sending.add_output(self.output)
        self.receiving.add_input(self.gate, self.input)
        self.data: list[Data] = []
        self.gate.start()

    def _send(self, _peer: str, frame: Frame) -> None:
        self.frames.append(FRAME.to_bytes(frame))

    def _grant(self, channel: RemoteInputChannel, buffers: int, rows: int) -> None:
        self.credits.append(FRAME.to_bytes(Credit(channel.channel_id, buffers, rows)))

    def carry_data(self) -> None:
        while self.frames:
            frame = FRAME.from_bytes(self.frames.popleft())
            if isinstance(frame, Data):
                self.data.append(frame)
            self.receiving.arrived(PRODUCER, frame)

    def carry_credit(self) -> None:
        while self.credits:
            self.sending.arrived(CONSUMER, FRAME.from_bytes(self.credits.popleft()))

    def carry(self) -> None:
        while self.frames or self.credits:
            self.carry_data()
            self.carry_credit()

    def allow(self, rows: int) -> None:
        self.gate._allow(Allowance(rows, FLOATING))

    def sizes(self) -> list[int]:
        """The rows of the buffers that were sent."""
        codec = ElementCodec(t.LONG)
        decoded = [codec.decode(data.codec, data.payload) for data in self.data if not data.more]
        return [len(element) for element in decoded if isinstance(element, RowBatch | ColumnBatch)]

    def take(self) -> Any:
        self.carry()
        taken = self.gate.poll()
        self.carry()
        return None if taken is None else taken[1]

    def take_all(self) -> list[Any]:
        """The rows until the end of input, or until nothing comes."""
        seen: list[Any] = []
        while (element := self.take()) is not None:
            if element == END_OF_INPUT:
                self.gate.end(self.input)
            elif not isinstance(element, Barrier):
                seen += rows_of(element)
        return seen


def test_a_large_batch_leaves_in_buffers_of_the_rows_asked_for() -> None:
    link = Link()
    link.carry()
    link.partition.emit(RowBatch(list(range(100))))
    link.carry()
    assert link.sizes() == [1] * (EXCLUSIVE + FLOATING)
    assert not link.partition.has_room()
    assert link.output.queue, "one buffer is ready"
    link.allow(30)
    link.carry()
    seen = link.take_all()
    link.output.flush()
    assert seen + link.take_all() == list(range(100))
    assert max(link.sizes()) == 30, "what was not encoded yet follows the new limit"


def test_columns_are_cut_as_rows_are() -> None:
    link = Link()
    link.carry()
    link.partition.emit(columns(*range(40)))
    link.carry()
    assert link.sizes() == [1] * (EXCLUSIVE + FLOATING)
    link.allow(7)
    assert link.take_all() == list(range(40))
    assert 7 in link.sizes()
    assert max(link.sizes()) == 7


def test_there_is_room_again_when_less_than_a_buffer_waits() -> None:
    link = Link(limit=1)
    link.carry()
    link.allow(4)
    link.carry()
    link.partition.emit(RowBatch(list(range(4 * (EXCLUSIVE + FLOATING)))))
    link.carry()
    assert link.partition.has_room()
    link.partition.emit(RowBatch([0] * 4))
    assert link.partition.has_room(), "one buffer may wait"
    link.partition.emit(RowBatch([0] * 3))
    assert link.partition.has_room(), "and one may be filled"
    link.partition.emit(RowBatch([0]))
    assert not link.partition.has_room()
    link.take()
    assert link.partition.has_room()


def test_a_limit_above_what_fills_a_buffer_changes_nothing() -> None:
    free, limited = Link(limit=0, segment=1000), Link(limit=1, segment=1000)
    for link in (free, limited):
        link.carry()
    limited.allow(1 << 20)
    limited.carry()
    for link in (free, limited):
        for start in range(0, 5000, 50):
            link.partition.emit(RowBatch(list(range(start, start + 50))))
        link.carry()
    assert [len(data.payload) for data in limited.data] == [len(data.payload) for data in free.data]
    assert len(limited.output.queue) == len(free.output.queue)
    assert limited.partition.has_room() == free.partition.has_room()


def test_large_records_are_limited_by_their_bytes() -> None:
    link = Link(segment=1000)
    link.carry()
    link.partition.emit(RowBatch([10**18] * 500))
    link.output.flush()
    assert link.output.limit == 1
    link.allow(200)
    link.carry()
    assert link.output.limit == 0, "200 of them are more than a buffer"


def test_a_barrier_is_behind_all_rows_that_waited() -> None:
    link = Link()
    link.carry()
    link.partition.emit(RowBatch(list(range(50))))
    link.partition.barrier(Barrier(1, 0))
    link.partition.emit(RowBatch([50]))
    seen: list[Any] = []
    while (element := link.take()) is not None:
        seen += [element] if isinstance(element, Barrier) else rows_of(element)
    assert seen[:50] == list(range(50))
    assert isinstance(seen[50], Barrier)


def test_a_barrier_overtakes_rows_that_were_not_encoded() -> None:
    link = Link()
    link.carry()
    link.partition.emit(RowBatch(list(range(50))))
    (passage,) = link.partition.barrier(Barrier(1, 0, unaligned=True))
    codec = ElementCodec(t.LONG)
    overtaken = [row for data in passage.overtaken for row in rows_of(codec.decode(data.codec, data.payload))]  # type: ignore[arg-type]  # batches only
    link.carry_data()
    received = [
        row
        for data in link.input.queue
        if isinstance(batch := codec.decode(data.codec, data.payload), RowBatch)
        for row in batch.rows
    ]
    assert received + overtaken == list(range(50)), "every row is on one of both sides of the exchange"
    assert len(overtaken) > 40


def test_credit_before_the_producer_is_there_brings_the_limit_as_well() -> None:
    table = ChannelTable(1)
    for buffers, rows in ((2, 1), (1, 20)):
        table.arrived(CONSUMER, Credit(5, buffers, rows))
    made = RemoteOutputChannel(5, "", CONSUMER, ElementCodec(t.LONG), 10_000, False, lambda *_: None, 1)
    table.add_output(made)
    assert (made.credit.credit, made.limit) == (3, 20)


def test_a_local_channel_has_room_for_as_many_rows_as_are_asked_for() -> None:
    target = ChannelTable(1).local(3, "local")
    gate = InputGate(
        [target], ElementCodec(t.LONG), CreditReceiver([], 2, 0), lambda *_: None,
        debloater=Debloater(1, 2, 0, 1.0, 0.2, 5, 0.25),
    )  # fmt: skip
    router = make_router(plan.EdgeSpec(plan.ForwardPartitioner(), t.LONG, 128), 1, 0, 0)
    partition = ResultPartition(router, [LocalOutputChannel("consumer", target)], 0, 8)
    gate.start()
    for _ in range(LocalInputChannel.PLACES):
        assert partition.has_room()
        partition.emit(RowBatch([1]))
    assert not partition.has_room()
    gate._allow(Allowance(3, 0))
    assert partition.has_room()
    partition.emit(RowBatch([1] * 8))
    assert not partition.has_room()
    assert partition.take_crowding() == LocalInputChannel.PLACES + 8 / 3
    assert partition.take_crowding() == 0


class ChangingLimits(RuleBasedStateMachine):
    """Rows and columns, limits that change at any time, deliveries in any order: nothing is lost or out of order."""

    @initialize(segment=st.sampled_from([64, 1000, 100_000]))
    def start(self, segment: int) -> None:
        self.link = Link(segment=segment)
        self.emitted: list[int] = []
        self.taken: list[int] = []

    @precondition(lambda self: self.link.partition.has_room())
    @rule(count=st.integers(0, 60), kind=st.sampled_from(["rows", "timed", "columns"]))
    def emit(self, count: int, kind: str) -> None:
        values = list(range(len(self.emitted), len(self.emitted) + count))
        batch = columns(*values) if kind == "columns" else RowBatch(values, values[:] if kind == "timed" else None)
        self.link.partition.emit(batch)
        self.emitted += values

    @rule(rows=st.integers(1, 50), floating=st.integers(0, FLOATING))
    def allow(self, rows: int, floating: int) -> None:
        self.link.gate._allow(Allowance(rows, floating))

    @rule()
    def deliver_data(self) -> None:
        self.link.carry_data()

    @rule()
    def deliver_credit(self) -> None:
        self.link.carry_credit()

    @rule()
    def time_out(self) -> None:
        self.link.output.flush()

    @rule()
    def consume(self) -> None:
        taken = self.link.gate.poll()
        if taken is not None and isinstance(taken[1], RowBatch | ColumnBatch):
            if isinstance(taken[1], RowBatch) and taken[1].timestamps is not None:
                assert list(taken[1].timestamps) == taken[1].rows
            self.taken += rows_of(taken[1])

    @invariant()
    def in_order(self) -> None:
        assert self.taken == self.emitted[: len(self.taken)]

    def teardown(self) -> None:
        if hasattr(self, "link"):
            self.link.output.flush()
            assert self.taken + self.link.take_all() == self.emitted
            assert self.link.partition.is_drained()
            assert self.link.partition.has_room()


TestChangingLimits = ChangingLimits.TestCase
TestChangingLimits.settings = settings(max_examples=cases(60), stateful_step_count=40)
