"""Exchanges whose consumers request few rows at a time, and change the number over time."""

from __future__ import annotations

import pyarrow as pa
import pytest
from exchange_link import CONSUMER, Link, decoded, flat, router, rows_in
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from thoroughness import cases

from millstream.core.jobs.barriers import Alignment
from millstream.core.jobs.plan import plan
from millstream.core.records import types as t
from millstream.core.records.batches import Barrier, Batch, ColumnBatch, RowBatch
from millstream.taskmanager.worker.network.channel_table import ChannelTable
from millstream.taskmanager.worker.network.codecs import ElementCodec
from millstream.taskmanager.worker.network.credit import CreditReceiver
from millstream.taskmanager.worker.network.debloating import Allowance, Debloater
from millstream.taskmanager.worker.network.frames import Credit
from millstream.taskmanager.worker.network.inputs import InputGate, LocalInputChannel
from millstream.taskmanager.worker.network.outputs import LocalOutputChannel, RemoteOutputChannel, ResultPartition

EXCLUSIVE, FLOATING, SHARED = 2, 3, 4


def columns(*values: int) -> ColumnBatch:
    return ColumnBatch(pa.RecordBatch.from_pydict({"n": pa.array(values, pa.int64())}))


class LimitedLink(Link):
    """A link of numbers whose first credit has arrived."""

    def __init__(self, limit: int = 1, segment: int = 100_000) -> None:
        super().__init__(
            segment=segment, exclusive=EXCLUSIVE, floating=FLOATING, shared=SHARED, kind=t.LONG, overtakable=True,
            limit=limit,
        )  # fmt: skip
        self.carry()

    def allow(self, rows: int, floating: int = FLOATING) -> None:
        self.gate._allow(Allowance(rows, floating))

    def sizes(self) -> list[int]:
        """The rows of the buffers that were sent."""
        return [len(decoded([data])) for data in self.data if not data.more]


@pytest.mark.parametrize("batch", [RowBatch(list(range(100))), columns(*range(100))], ids=["rows", "columns"])
def test_a_large_batch_is_sent_in_buffers_of_the_requested_rows(batch: Batch) -> None:
    link = LimitedLink()
    link.partition.emit(batch)
    link.carry()
    assert link.sizes() == [1] * (EXCLUSIVE + FLOATING)
    assert not link.partition.has_room()
    assert link.output.queue, "one buffer is ready"
    link.allow(30)
    link.carry()
    seen = link.take_all()
    link.output.flush()
    assert rows_in(seen + link.take_all()) == list(range(100))
    assert max(link.sizes()) == 30, "what was not encoded yet follows the new limit"


def test_there_is_room_again_when_less_than_a_buffer_waits() -> None:
    link = LimitedLink(limit=1)
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


def test_a_limit_above_a_full_buffer_changes_nothing() -> None:
    free, limited = LimitedLink(0, 1000), LimitedLink(1, 1000)
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
    link = LimitedLink(segment=1000)
    link.partition.emit(RowBatch([10**18] * 500))
    link.output.flush()
    assert link.output.limit == 1
    link.allow(200)
    link.carry()
    assert link.output.limit == 0, "200 of them are more than a buffer"


def test_a_barrier_is_sent_behind_all_waiting_rows() -> None:
    link = LimitedLink()
    link.partition.emit(RowBatch(list(range(50))))
    link.partition.barrier(Barrier(1, 0))
    link.partition.emit(RowBatch([50]))
    seen = flat(link.take_all())
    assert seen[:50] == list(range(50))
    assert isinstance(seen[50], Barrier)


def test_a_barrier_overtakes_rows_that_were_not_encoded() -> None:
    link = LimitedLink()
    link.partition.emit(RowBatch(list(range(50))))
    (passage,) = link.partition.barrier(Barrier(1, 0, alignment=Alignment.UNALIGNED))
    overtaken = decoded(passage.overtaken)
    link.carry_data()
    received = decoded(link.input.queue)
    assert received + overtaken == list(range(50)), "every row is on one of both sides of the exchange"
    assert len(overtaken) > 40


def test_credit_granted_before_the_producer_exists_includes_the_limit() -> None:
    table = ChannelTable(1)
    for buffers, rows in ((2, 1), (1, 20)):
        table.arrived(CONSUMER, Credit(5, buffers, rows))
    made = RemoteOutputChannel(5, "", CONSUMER, ElementCodec(t.LONG), 10_000, False, lambda *_: None, 1)
    table.add_output(made)
    assert (made.credit.credit, made.limit) == (3, 20)


def test_a_local_channel_has_room_for_as_many_rows_as_requested() -> None:
    target = ChannelTable(1).local(3, "local")
    gate = InputGate(
        [target], ElementCodec(t.LONG), CreditReceiver([], 2, 0), lambda *_: None,
        debloater=Debloater(1, 2, 0, 1.0, 0.2, 5, 0.25),
    )  # fmt: skip
    partition = ResultPartition(router(plan.ForwardPartitioner()), [LocalOutputChannel("consumer", target)], 0, 8)
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
        self.link = LimitedLink(segment=segment)
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
        self.link.allow(rows, floating)

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
        _, element = self.link.gate.poll() or (None, None)
        if isinstance(element, RowBatch) and element.timestamps is not None:
            assert list(element.timestamps) == element.rows
        self.taken += rows_in([element])

    @invariant()
    def in_order(self) -> None:
        assert self.taken == self.emitted[: len(self.taken)]

    def teardown(self) -> None:
        if hasattr(self, "link"):
            self.link.output.flush()
            assert self.taken + rows_in(self.link.take_all()) == self.emitted
            assert self.link.partition.is_drained()
            assert self.link.partition.has_room()


TestChangingLimits = ChangingLimits.TestCase
TestChangingLimits.settings = settings(max_examples=cases(60), stateful_step_count=40)
