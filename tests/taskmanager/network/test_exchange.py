"""Inputs and outputs together: what a partition emits is what a gate returns, over frames that this test delivers."""

from __future__ import annotations

from collections import deque
from typing import Any

import pyarrow as pa
import pytest
from exchange_link import CONSUMER, PRODUCER, TO_FIRST_FIELD, Link, decoded, gate_of, router, rows_in
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import cases

from millstream.core.jobs.plan import plan
from millstream.core.records import types as t
from millstream.core.records.batches import END_OF_INPUT, ColumnBatch, EndOfInput, RowBatch
from millstream.taskmanager.worker.network.channel_table import ChannelTable
from millstream.taskmanager.worker.network.codecs import Codec, ElementCodec
from millstream.taskmanager.worker.network.frames import Backlog, Credit, Data, Frame, Hello
from millstream.taskmanager.worker.network.inputs import InputGate, LocalInputChannel, ProtocolError, RemoteInputChannel
from millstream.taskmanager.worker.network.outputs import (
    BUFFERS_PER_CHANNEL,
    RemoteOutputChannel,
    ResultPartition,
)
from millstream.taskmanager.worker.network.signals import TAGS


@pytest.mark.parametrize("compressed", [False, True])
@settings(max_examples=cases(30))
@given(
    batches=st.lists(st.lists(st.text(max_size=300), max_size=20), max_size=10),
    segment=st.sampled_from([64, 1000, 100_000]),
    timed=st.booleans(),
)
def test_everything_arrives_once_and_in_order(
    compressed: bool, batches: list[list[str]], segment: int, timed: bool
) -> None:
    link = Link(segment=segment, compressed=compressed, kind=t.STRING)
    number = 0
    for rows in batches:
        link.partition.emit(RowBatch(rows, list(range(number, number + len(rows))) if timed else None))
        number += len(rows)
    link.partition.signal(END_OF_INPUT)
    taken = link.take_all()
    assert rows_in(taken) == [row for rows in batches for row in rows]
    assert taken[-1] == END_OF_INPUT
    assert link.gate.all_ended
    assert link.partition.is_drained()
    if timed:
        assert [x for batch in taken[:-1] for x in batch.timestamps] == list(range(number))
    assert all(len(data.payload) <= segment for data in link.data)
    assert [data.sequence for data in link.data] == list(range(len(link.data)))
    assert link.gate.bytes_in == link.partition.bytes_out


@pytest.mark.parametrize("compressed", [False, True])
def test_a_batch_larger_than_all_credit_arrives_completely(compressed: bool) -> None:
    link = Link(segment=100, compressed=compressed, exclusive=1, floating=0)
    big = [f"{n * 7919}-{n}" for n in range(5000)]
    link.partition.emit(RowBatch(big))
    link.carry()
    assert len(link.data) > 100
    assert [data.more for data in link.data] == [True] * (len(link.data) - 1) + [False]
    assert all(data.compressed is compressed for data in link.data)
    (element,) = link.take_all()
    assert element.rows == big


def test_an_incomplete_batch_does_not_block_other_channels() -> None:
    link = Link(2, segment=100, exclusive=2, floating=0)
    link.carry_credit()
    link.emit("x" * 1000)
    link.emit("small", channel=1)
    link.carry_data()
    channel, _ = link.gate.poll() or (None, None)
    assert channel is link.inputs[1]
    assert link.gate.poll() is None
    assert rows_in(link.take_all()) == ["x" * 1000]


def test_compression_skips_small_buffers() -> None:
    link = Link(compressed=True, segment=100_000)
    link.emit("tiny")
    link.emit("a" * 10_000)
    assert rows_in(link.take_all()) == ["tiny", "a" * 10_000]
    assert [data.compressed for data in link.data] == [False, True]
    assert len(link.data[1].payload) < 1000


def test_columns_are_a_buffer_of_their_own_after_the_rows() -> None:
    link = Link(segment=100_000)
    columns = pa.RecordBatch.from_pydict({"n": list(range(10))})
    link.partition.emit(RowBatch([1, 2]))
    link.partition.emit(ColumnBatch(columns))
    link.partition.emit(RowBatch([3]))
    link.partition.signal(END_OF_INPUT)
    taken = link.take_all()
    assert [type(element) for element in taken] == [RowBatch, ColumnBatch, RowBatch, type(END_OF_INPUT)]
    assert taken[1].data.equals(columns)
    assert link.partition.records_out == 13


def test_rows_with_and_without_timestamps_are_not_mixed() -> None:
    link = Link(segment=100_000)
    for batch in (RowBatch([1]), RowBatch([2], [20]), RowBatch([3], [30]), RowBatch([4])):
        link.partition.emit(batch)
    link.partition.signal(END_OF_INPUT)
    taken = link.take_all()[:-1]
    seen = [(e.rows, e.timestamps and list(e.timestamps)) for e in taken]
    assert seen == [([1], None), ([2, 3], [20, 30]), ([4], None)]


def test_an_emitted_batch_may_be_shared_and_is_not_changed() -> None:
    link = Link(2, segment=100_000)
    shared = RowBatch([1, 2])
    for partition in link.partitions:
        partition.emit(shared)
        partition.emit(RowBatch([3]))
    assert shared.rows == [1, 2]


def test_rows_are_buffered_until_a_buffer_is_full() -> None:
    link = Link(segment=2000, kind=t.LONG)
    link.partition.emit(RowBatch([5] * 10))
    link.carry()
    assert link.data == []
    assert not link.partition.is_drained()
    for _ in range(40):  # two bytes a row are learned soon, where 64 were assumed: a buffer takes many more of them
        link.partition.emit(RowBatch([5] * 10))
    link.carry()
    assert link.data == []
    for _ in range(60):
        link.partition.emit(RowBatch([5] * 10))
    link.carry()
    assert len(link.data) == 1
    assert 1500 < len(link.data[0].payload) <= 2000


def test_a_buffer_is_taken_in_the_parts_that_it_was_encoded_in() -> None:
    link = Link(segment=200_000, kind=t.LONG)
    rows = list(range(10_000, 14_000))
    for start in range(0, len(rows), 1000):
        link.partition.emit(RowBatch(rows[start : start + 1000]))
    link.partition.signal(END_OF_INPUT)
    link.carry()
    assert [data.more for data in link.data[:-1]] == [False], "one buffer has them all"
    taken = link.take_all()[:-1]
    assert len(taken) > 1
    assert rows_in(taken) == rows


def test_rows_that_cannot_share_a_buffer_flush_it_at_once() -> None:
    link = Link(segment=50_000)
    link.partition.emit(RowBatch([(n, n) for n in range(700)], plain=True))
    link.carry()
    assert link.data == []
    link.partition.emit(RowBatch([[n] for n in range(700)]))
    link.carry()
    assert len(link.data) == 1
    link.partition.signal(END_OF_INPUT)
    assert rows_in(link.take_all()) == [*[(n, n) for n in range(700)], *[[n] for n in range(700)]]


def test_a_recording_contains_the_rest_of_a_partly_taken_buffer() -> None:
    link = Link(segment=200_000, kind=t.LONG)
    for start in (0, 1000, 2000):
        link.partition.emit(RowBatch(list(range(start, start + 1000))))
    link.partition.signal(END_OF_INPUT)
    link.carry()
    first = link.take().rows
    left = decoded(link.gate.record(link.input, 1, None).buffers)
    assert first + left == list(range(3000))
    assert rows_in(link.take_all()) == left


def test_channels_take_turns() -> None:
    link = Link(3, segment=10, exclusive=4, floating=0)
    for number in range(3):
        for item in range(3):
            link.emit((number, item), channel=number)
    assert [number for number, _ in rows_in(link.take_all())] == [0, 1, 2] * 3


def test_a_busy_channel_does_not_starve_the_others() -> None:
    link = Link(2, segment=10, exclusive=8, floating=0)
    for item in range(6):
        link.emit(item)
    link.emit("late", channel=1)
    assert rows_in(link.take_all()).index("late") <= 1


def test_local_and_remote_channels_share_a_gate() -> None:
    local = LocalInputChannel(10, "local")
    remote = RemoteInputChannel(11, "remote", PRODUCER)
    gate = gate_of([local, remote])
    gate.start()
    codec, payload = ElementCodec(t.LONG).encode(RowBatch([2]))
    gate.arrived(remote, Data(channel=11, sequence=0, codec=codec, payload=payload))
    batch = RowBatch([1])
    local.queue += [batch, END_OF_INPUT]
    assert gate.poll() == (local, batch)
    taken = gate.poll()
    assert taken[0] is remote
    assert gate.poll() == (local, END_OF_INPUT)
    gate.end(local)
    assert not gate.all_ended
    gate.end(remote)
    assert gate.all_ended
    assert gate.poll() is None


def test_a_gate_without_channels_has_ended() -> None:
    gate = gate_of([])
    gate.start()
    assert gate.poll() is None
    assert gate.all_ended


def sending(partitioner: plan.Partitioner, channels: int, shared: int, timeout: float = -1, segment: int = 50) -> Any:
    """A partition with several channels, and the frames that it has sent."""
    frames: list[Frame] = []
    outputs = [
        RemoteOutputChannel(n, "", CONSUMER, ElementCodec(t.LONG), segment, False, lambda _, f: frames.append(f))
        for n in range(channels)
    ]
    return ResultPartition(router(partitioner, channels), list(outputs), timeout, shared), outputs, frames


def test_a_blocked_channel_stops_the_partition_after_its_buffers_and_the_pool() -> None:
    shared = 3
    partition, outputs, _ = sending(TO_FIRST_FIELD, 2, shared)
    outputs[1].granted(1000)
    rounds = 0
    while partition.has_room():
        partition.emit(RowBatch([(0,)]))
        outputs[0].flush()
        rounds += 1
    assert rounds == BUFFERS_PER_CHANNEL + shared
    assert len(outputs[0].queue) == rounds
    assert outputs[1].queue == deque()
    outputs[0].granted(1)
    assert partition.has_room()


def test_channels_within_their_own_buffers_do_not_use_the_pool() -> None:
    partition, outputs, _ = sending(plan.RebalancePartitioner(), 4, 1)
    for rows in [[1, 2, 3, 4]] * BUFFERS_PER_CHANNEL + [[1]]:
        assert partition.has_room()
        partition.emit(RowBatch(rows))
        for output in outputs:
            output.flush()
    assert not partition.has_room()


def test_without_credit_the_backlog_is_announced_once() -> None:
    link = Link(segment=10)
    for item in range(4):
        link.emit(item)
    (announced,) = link.sent
    assert isinstance(announced, Backlog)
    assert announced == Backlog(0, announced.buffers)
    assert rows_in(link.take_all()) == [0, 1, 2, 3]
    backlogs = [data.backlog for data in link.data]
    assert backlogs == list(reversed(range(len(backlogs))))


class TestFlushTiming:
    def make(self, timeout: float) -> Link:
        link = Link(segment=100_000, timeout=timeout)
        link.carry()
        return link

    def test_rows_wait_for_the_timeout_from_when_they_were_first_seen(self) -> None:
        link = self.make(0.5)
        partition = link.partition
        assert partition.flush_due(10.0) is None
        partition.emit(RowBatch([1]))
        assert partition.flush_due(10.0) == 10.5
        partition.emit(RowBatch([2]))
        assert partition.flush_due(10.4) == 10.5
        assert link.data == []
        assert partition.flush_due(10.5) is None
        assert len(link.data) == 1
        partition.emit(RowBatch([3]))
        assert partition.flush_due(10.6) == pytest.approx(11.1)

    def test_a_timeout_of_zero_flushes_at_once(self) -> None:
        link = self.make(0)
        link.partition.emit(RowBatch([1]))
        assert link.partition.flush_due(3.0) is None
        assert len(link.data) == 1

    def test_a_negative_timeout_waits_for_a_full_buffer(self) -> None:
        link = self.make(-1)
        link.partition.emit(RowBatch([1]))
        assert link.partition.flush_due(1e9) is None
        assert link.data == []

    def test_rows_behind_queued_buffers_continue_to_be_buffered(self) -> None:
        link = Link(segment=100_000, timeout=0.5)
        partition = link.partition
        link.emit(1)
        partition.emit(RowBatch([2]))
        assert partition.flush_due(1.0) is None
        assert partition.flush_due(100.0) is None
        assert len(link.output.queue) == 1
        assert rows_in(link.take_all()) == [1]
        assert partition.flush_due(100.0) == 100.5
        partition.flush_due(100.5)
        assert rows_in(link.take_all()) == [2]

    def test_a_full_buffer_restarts_the_timeout(self) -> None:
        link = self.make(0.5)
        partition = link.partition
        partition.emit(RowBatch([1]))
        partition.flush_due(1.0)
        partition.emit(RowBatch(["x" * 500_000] * 2000))
        assert not link.output.has_gathered
        partition.emit(RowBatch([2]))
        link.take_all()
        assert partition.flush_due(1.4) == pytest.approx(1.9)

    def test_the_earliest_of_several_channels_is_due(self) -> None:
        partition, outputs, frames = sending(TO_FIRST_FIELD, 2, 8, 1.0, 1000)
        for output in outputs:
            output.granted(10)
        partition.emit(RowBatch([(0,)]))
        partition.flush_due(5.0)
        partition.emit(RowBatch([(1,)]))
        assert partition.flush_due(5.5) == 6.0
        assert partition.flush_due(6.0) == 6.5
        assert len(frames) == 1


END = TAGS[EndOfInput]


def data(sequence: int, codec: int = END, channel: int = 0, **fields: Any) -> Data:
    payload = ElementCodec(t.LONG).encode(END_OF_INPUT if codec == END else RowBatch([1]))[1]
    return Data(channel=channel, sequence=sequence, codec=codec, payload=payload, **fields)


ROWS = int(Codec.PICKLE)


Place = tuple[InputGate, RemoteInputChannel]


class TestViolations:
    @pytest.fixture
    def place(self) -> Place:
        """A gate with one channel, which has credit for three buffers."""
        channel = RemoteInputChannel(0, "source", PRODUCER)
        gate = gate_of([channel], exclusive=3)
        gate.start()
        return gate, channel

    @pytest.mark.parametrize("sequences", [(1,), (0, 0), (0, 2)], ids=["late start", "repeated", "gap"])
    def test_out_of_sequence(self, place: Place, sequences: tuple[int, ...]) -> None:
        gate, channel = place
        for sequence in sequences[:-1]:
            gate.arrived(channel, data(sequence, ROWS))
        with pytest.raises(ProtocolError, match=rf"buffer {sequences[-1]} on channel 0 instead of"):
            gate.arrived(channel, data(sequences[-1], ROWS))

    def test_after_the_end(self, place: Place) -> None:
        gate, channel = place
        gate.arrived(channel, data(0))
        with pytest.raises(ProtocolError, match="after the end of channel 0"):
            gate.arrived(channel, data(1, ROWS))
        assert gate.poll() == (channel, END_OF_INPUT)
        gate.end(channel)
        with pytest.raises(ProtocolError, match="after the end of channel 0"):
            gate.arrived(channel, data(1, ROWS))

    @pytest.mark.parametrize(
        ("before", "bad", "message"),
        [
            ([data(n, ROWS) for n in range(3)], data(3, ROWS), "without credit"),
            ([], data(0, 12), "codec 12 on channel 0"),
            ([], data(0, 77), "a signal with the unknown tag 77, on channel 0"),
            ([], data(0, more=True), "a signal on channel 0 in parts, compressed, or within a batch"),
            ([], data(0, compressed=True), "a signal on channel 0 in parts, compressed, or within a batch"),
            ([data(0, ROWS, more=True)], data(1), "within a batch"),
        ],
        ids=["no credit", "unknown codec", "unknown signal", "signal in parts", "compressed signal", "within a batch"],
    )
    def test_an_unexpected_buffer(self, place: Place, before: list[Data], bad: Data, message: str) -> None:
        gate, channel = place
        for buffer in before:
            gate.arrived(channel, buffer)
        with pytest.raises(ProtocolError, match=message):
            gate.arrived(channel, bad)


class TestChannelTable:
    def test_data_is_passed_to_its_gate_and_not_accepted_from_other_peers_or_channels(self) -> None:
        table, link = ChannelTable(), Link()
        table.add_input(link.gate, link.input)
        for peer, channel in (("127.0.0.1:9", 0), (PRODUCER, 5)):
            with pytest.raises(ProtocolError, match=f"channel {channel}, which this worker does not have"):
                table.arrived(peer, data(0, ROWS, channel))
        assert not link.input.queue
        table.arrived(PRODUCER, data(0, ROWS))
        assert rows_in(link.take_all())

    def test_data_for_a_closed_channel_is_dropped(self) -> None:
        table, link = ChannelTable(), Link()
        table.add_input(link.gate, link.input)
        table.forget([link.gate], [])
        table.arrived(PRODUCER, data(0, ROWS))
        table.arrived(PRODUCER, Backlog(0, 4))
        table.arrived(PRODUCER, Credit(0, 4))

    def test_the_memory_of_closed_channels_is_bounded(self) -> None:
        table = ChannelTable()
        for restart in range(70):
            numbers = range(restart * 1000, restart * 1000 + 1000)
            channels = [RemoteInputChannel(number, "source", PRODUCER) for number in numbers]
            gate = gate_of(list(channels))
            for channel in channels:
                table.add_input(gate, channel)
            table.forget([gate], [])
        assert table.remembered <= 1 << 16
        table.arrived(PRODUCER, data(0, ROWS, 69_999))

    def test_the_memory_of_credit_for_unknown_channels_is_bounded(self) -> None:
        table = ChannelTable()
        for number in range(3 << 16):
            table.arrived(PRODUCER, Credit(number, 1))
        assert table.remembered <= 2 << 16

    def test_credit_that_arrives_before_its_task_is_kept(self) -> None:
        table, link = ChannelTable(), Link()
        table.arrived(CONSUMER, Credit(0, 2))
        table.arrived(CONSUMER, Credit(0, 1))
        table.add_output(link.output)
        assert link.output.credit.credit == 3

    def test_credit_and_backlog_are_only_accepted_from_the_channels_peer(self) -> None:
        table, link = ChannelTable(), Link(exclusive=1)
        link.credits.clear()
        table.add_input(link.gate, link.input)
        table.add_output(link.output)
        table.arrived("127.0.0.1:9", Credit(0, 4))
        table.arrived("127.0.0.1:9", Backlog(0, 4))
        assert link.output.credit.credit == 0
        assert not link.credits
        table.arrived(CONSUMER, Credit(0, 4))
        table.arrived(PRODUCER, Backlog(0, 4))
        assert link.output.credit.credit == 4
        assert link.credits

    def test_unexpected_frames_are_refused(self) -> None:
        with pytest.raises(ProtocolError, match="hello"):
            ChannelTable().arrived(PRODUCER, Hello("j", ""))

    def test_both_ends_of_a_local_channel_are_the_same_object(self) -> None:
        table = ChannelTable()
        first = table.local(4, "")
        assert table.local(4, "the producer") is first
        assert first.name == "the producer"
