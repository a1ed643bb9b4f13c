"""Inputs and outputs together: what a partition emits is what a gate yields, over frames that this test carries."""

from __future__ import annotations

from collections import deque
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import cases

from millstream.core.jobs import plan
from millstream.core.records import types as t
from millstream.core.records.batches import END_OF_INPUT, ColumnBatch, EndOfInput, RowBatch
from millstream.taskmanager.worker.network.channel_table import ChannelTable
from millstream.taskmanager.worker.network.codecs import Codec, ElementCodec
from millstream.taskmanager.worker.network.credit import CreditReceiver
from millstream.taskmanager.worker.network.frames import FRAME, Backlog, Credit, Data, Frame, Hello
from millstream.taskmanager.worker.network.inputs import InputGate, LocalInputChannel, ProtocolError, RemoteInputChannel
from millstream.taskmanager.worker.network.outputs import (
    BUFFERS_PER_CHANNEL,
    LocalOutputChannel,
    OutputChannel,
    RemoteOutputChannel,
    ResultPartition,
)
from millstream.taskmanager.worker.network.signals import TAGS
from millstream.taskmanager.worker.partitioning import make_router

PRODUCER, CONSUMER = "127.0.0.1:1", "127.0.0.1:2"


class Link:
    """Producers with a channel to one gate each, and the frames between them, delivered when the test says so."""

    def __init__(
        self, channels: int = 1, *, segment: int = 1000, compressed: bool = False, timeout: float = -1,
        exclusive: int = 2, floating: int = 3, shared: int = 2, kind: t.TypeInformation = t.PICKLED,
    ) -> None:  # fmt: skip
        self.frames: deque[bytes] = deque()
        self.grants: deque[tuple[RemoteInputChannel, int]] = deque()
        self.outputs = [
            RemoteOutputChannel(n, f"sink {n}", CONSUMER, ElementCodec(kind), segment, compressed, self._send)
            for n in range(channels)
        ]
        self.partitions = [
            ResultPartition(make_router(_edge(plan.GlobalPartitioner(), kind), 1, 0, 0), [output], timeout, shared)
            for output in self.outputs
        ]
        self.inputs = [RemoteInputChannel(n, f"source {n}", PRODUCER) for n in range(channels)]
        credit = CreditReceiver(range(channels), exclusive, floating)
        self.gate = InputGate(list(self.inputs), ElementCodec(kind), credit, lambda c, n, _: self.grants.append((c, n)))
        self.sent: list[Frame] = []

    def _send(self, peer: str, frame: Frame) -> None:
        assert peer == CONSUMER
        self.frames.append(FRAME.to_bytes(frame))
        self.sent.append(frame)

    def carry(self) -> None:
        """Delivers everything that is on its way, in both directions, until nothing is."""
        while self.frames or self.grants:
            while self.frames:
                match FRAME.from_bytes(self.frames.popleft()):
                    case Data() as data:
                        self.gate.arrived(self.inputs[data.channel], data)
                    case Backlog(channel_id, backlog):
                        self.gate.announced(self.inputs[channel_id], backlog, 0)
                    case other:
                        raise AssertionError(f"no producer sends {other}")
            while self.grants:
                channel, buffers = self.grants.popleft()
                self.outputs[channel.channel_id].granted(buffers)

    def take_all(self) -> list[tuple[int, Any]]:
        """Consumes until nothing comes any more."""
        taken = []
        self.carry()
        while (polled := self.gate.poll()) is not None:
            channel, element = polled
            taken.append((channel.channel_id, element))
            if element == END_OF_INPUT:
                self.gate.end(channel)
            self.carry()
        return taken

    @property
    def data(self) -> list[Data]:
        return [frame for frame in self.sent if isinstance(frame, Data)]


def _edge(partitioner: plan.Partitioner, kind: t.TypeInformation = t.PICKLED) -> plan.EdgeSpec:
    return plan.EdgeSpec(partitioner, kind, 128)


def rows_in(elements: list[tuple[int, Any]]) -> list[Any]:
    return [row for _, element in elements if isinstance(element, RowBatch) for row in element.rows]


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
    link.gate.start()
    number = 0
    for rows in batches:
        link.partitions[0].emit(RowBatch(rows, list(range(number, number + len(rows))) if timed else None))
        number += len(rows)
    link.partitions[0].signal(END_OF_INPUT)
    taken = link.take_all()
    assert rows_in(taken) == [row for rows in batches for row in rows]
    assert taken[-1] == (0, END_OF_INPUT)
    assert link.gate.all_ended
    assert link.partitions[0].is_drained()
    if timed:
        assert [x for _, e in taken[:-1] for x in e.timestamps] == list(range(number))
    assert all(len(data.payload) <= segment for data in link.data)
    assert [data.sequence for data in link.data] == list(range(len(link.data)))
    assert link.gate.bytes_in == link.partitions[0].bytes_out


@pytest.mark.parametrize("compressed", [False, True])
def test_a_batch_larger_than_all_credit_arrives_whole(compressed: bool) -> None:
    link = Link(segment=100, compressed=compressed, exclusive=1, floating=0)
    link.gate.start()
    big = [f"{n * 7919}-{n}" for n in range(5000)]
    link.partitions[0].emit(RowBatch(big))
    link.carry()
    assert len(link.data) > 100
    assert [data.more for data in link.data] == [True] * (len(link.data) - 1) + [False]
    assert all(data.compressed is compressed for data in link.data)
    channel, element = link.gate.poll() or (None, None)
    assert channel is link.inputs[0]
    assert isinstance(element, RowBatch)
    assert element.rows == big
    assert link.gate.poll() is None


def test_a_half_arrived_batch_holds_nobody_up() -> None:
    link = Link(2, segment=100, exclusive=2, floating=0)
    link.gate.start()
    while link.grants:
        channel, buffers = link.grants.popleft()
        link.outputs[channel.channel_id].granted(buffers)
    link.partitions[0].emit(RowBatch(["x" * 1000]))
    link.outputs[0].flush()
    link.partitions[1].emit(RowBatch(["small"]))
    link.outputs[1].flush()
    while link.frames:
        frame = FRAME.from_bytes(link.frames.popleft())
        if isinstance(frame, Data):
            link.gate.arrived(link.inputs[frame.channel], frame)
    polled = link.gate.poll()
    assert polled is not None
    assert polled[0] is link.inputs[1]
    assert link.gate.poll() is None
    assert rows_in(link.take_all()) == ["x" * 1000]


def test_compression_leaves_small_buffers_alone() -> None:
    link = Link(compressed=True, segment=100_000)
    link.gate.start()
    link.partitions[0].emit(RowBatch(["tiny"]))
    link.outputs[0].flush()
    link.partitions[0].emit(RowBatch(["a" * 10_000]))
    link.outputs[0].flush()
    assert rows_in(link.take_all()) == ["tiny", "a" * 10_000]
    assert [data.compressed for data in link.data] == [False, True]
    assert len(link.data[1].payload) < 1000


def test_columns_are_a_buffer_of_their_own_behind_the_rows() -> None:
    link = Link(segment=100_000)
    link.gate.start()
    columns = pa.RecordBatch.from_pydict({"n": list(range(10))})
    link.partitions[0].emit(RowBatch([1, 2]))
    link.partitions[0].emit(ColumnBatch(columns))
    link.partitions[0].emit(RowBatch([3]))
    link.partitions[0].signal(END_OF_INPUT)
    taken = [element for _, element in link.take_all()]
    assert [type(element) for element in taken] == [RowBatch, ColumnBatch, RowBatch, type(END_OF_INPUT)]
    assert taken[1].data.equals(columns)
    assert link.partitions[0].records_out == 13


def test_rows_with_and_without_timestamps_are_not_mixed() -> None:
    link = Link(segment=100_000)
    link.gate.start()
    for batch in (RowBatch([1]), RowBatch([2], [20]), RowBatch([3], [30]), RowBatch([4])):
        link.partitions[0].emit(batch)
    link.partitions[0].signal(END_OF_INPUT)
    taken = [e for _, e in link.take_all() if isinstance(e, RowBatch)]
    seen = [(e.rows, e.timestamps and list(e.timestamps)) for e in taken]
    assert seen == [([1], None), ([2, 3], [20, 30]), ([4], None)]


def test_an_emitted_batch_may_be_shared_and_is_not_changed() -> None:
    link = Link(2, segment=100_000)
    shared = RowBatch([1, 2])
    for partition in link.partitions:
        partition.emit(shared)
        partition.emit(RowBatch([3]))
    assert shared.rows == [1, 2]


def test_rows_are_gathered_until_a_buffer_is_full() -> None:
    link = Link(segment=2000, kind=t.LONG)
    link.gate.start()
    link.partitions[0].emit(RowBatch([5] * 10))
    link.carry()
    assert link.data == []
    assert not link.partitions[0].is_drained()
    for _ in range(40):  # two bytes a row are learnt soon, where 64 were assumed: a buffer takes many more of them
        link.partitions[0].emit(RowBatch([5] * 10))
    link.carry()
    assert link.data == []
    for _ in range(60):
        link.partitions[0].emit(RowBatch([5] * 10))
    link.carry()
    assert len(link.data) == 1
    assert 1500 < len(link.data[0].payload) <= 2000


def test_a_buffer_is_taken_in_the_parts_that_it_was_encoded_in() -> None:
    link = Link(segment=200_000, kind=t.LONG)
    link.gate.start()
    rows = list(range(10_000, 14_000))
    for start in range(0, len(rows), 1000):
        link.partitions[0].emit(RowBatch(rows[start : start + 1000]))
    link.partitions[0].signal(END_OF_INPUT)
    link.carry()
    assert [data.more for data in link.data[:-1]] == [False], "one buffer has them all"
    taken = [element for _, element in link.take_all() if isinstance(element, RowBatch)]
    assert len(taken) > 1
    assert [row for batch in taken for row in batch.rows] == rows


def test_rows_that_cannot_share_a_buffer_let_it_leave_at_once() -> None:
    link = Link(segment=50_000)
    link.gate.start()
    link.partitions[0].emit(RowBatch([(n, n) for n in range(700)], plain=True))
    link.carry()
    assert link.data == []
    link.partitions[0].emit(RowBatch([[n] for n in range(700)]))
    link.carry()
    assert len(link.data) == 1
    link.partitions[0].signal(END_OF_INPUT)
    assert rows_in(link.take_all()) == [*[(n, n) for n in range(700)], *[[n] for n in range(700)]]


def test_a_recording_has_what_is_left_of_a_buffer_that_was_begun() -> None:
    link = Link(segment=200_000, kind=t.LONG)
    link.gate.start()
    for start in (0, 1000, 2000):
        link.partitions[0].emit(RowBatch(list(range(start, start + 1000))))
    link.partitions[0].signal(END_OF_INPUT)
    link.carry()
    polled = link.gate.poll()
    assert polled is not None
    assert isinstance(polled[1], RowBatch)
    recording = link.gate.record(link.inputs[0], 1, None)
    decoded = [ElementCodec(t.LONG).decode(buffer.codec, buffer.payload) for buffer in recording.buffers]
    left = [row for batch in decoded if isinstance(batch, RowBatch) for row in batch.rows]
    assert polled[1].rows + left == list(range(3000))
    assert rows_in(link.take_all()) == left


def test_channels_take_turns() -> None:
    link = Link(3, segment=10, exclusive=4, floating=0)
    link.gate.start()
    for number, partition in enumerate(link.partitions):
        for item in range(3):
            partition.emit(RowBatch([(number, item)]))
            link.outputs[number].flush()
    assert [channel for channel, _ in link.take_all()] == [0, 1, 2] * 3


def test_a_busy_channel_leaves_the_others_their_turn() -> None:
    link = Link(2, segment=10, exclusive=8, floating=0)
    link.gate.start()
    for item in range(6):
        link.partitions[0].emit(RowBatch([item]))
        link.outputs[0].flush()
    link.partitions[1].emit(RowBatch(["late"]))
    link.outputs[1].flush()
    order = [channel for channel, _ in link.take_all()]
    assert order.index(1) <= 1


def test_local_and_remote_channels_share_a_gate() -> None:
    local = LocalInputChannel(10, "local")
    remote = RemoteInputChannel(11, "remote", PRODUCER)
    granted: list[tuple[int, int]] = []
    gate = InputGate(
        [local, remote],
        ElementCodec(t.LONG),
        CreditReceiver([11], 1, 0),
        lambda c, n, _: granted.append((c.channel_id, n)),
    )
    gate.start()
    assert granted == [(11, 1)]
    codec, payload = ElementCodec(t.LONG).encode(RowBatch([2]))
    gate.arrived(remote, Data(channel=11, sequence=0, codec=codec, payload=payload))
    batch = RowBatch([1])
    local.queue += [batch, END_OF_INPUT]
    assert gate.poll() == (local, batch)
    taken = gate.poll()
    assert taken is not None
    assert taken[0] is remote
    assert gate.poll() == (local, END_OF_INPUT)
    gate.end(local)
    assert not gate.all_ended
    gate.end(remote)
    assert gate.all_ended
    assert gate.poll() is None


def test_a_gate_without_channels_has_ended() -> None:
    gate = InputGate([], ElementCodec(t.LONG), CreditReceiver([], 2, 2), lambda *_: None)
    gate.start()
    assert gate.poll() is None
    assert gate.all_ended


def test_a_stuck_channel_stops_the_partition_after_its_buffers_and_the_pool() -> None:
    shared = 3
    outputs = [RemoteOutputChannel(n, "", CONSUMER, ElementCodec(t.LONG), 50, False, lambda p, f: None) for n in (0, 1)]
    hashed = make_router(_edge(plan.CustomPartitioner(lambda key, count: key, plan.KeySelector((0,)))), 2, 0, 0)
    partition = ResultPartition(hashed, list(outputs), -1, shared)
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
    outputs: list[OutputChannel] = [
        RemoteOutputChannel(n, "", CONSUMER, ElementCodec(t.LONG), 50, False, lambda p, f: None) for n in range(4)
    ]
    partition = ResultPartition(make_router(_edge(plan.RebalancePartitioner()), 4, 0, 0), outputs, -1, 1)
    for _ in range(BUFFERS_PER_CHANNEL):
        partition.emit(RowBatch([1, 2, 3, 4]))
        for output in partition.remote_channels:
            output.flush()
    assert partition.has_room()
    partition.emit(RowBatch([1]))
    for output in partition.remote_channels:
        output.flush()
    assert not partition.has_room()


def test_a_full_local_channel_stops_the_partition() -> None:
    target = LocalInputChannel(1, "local")
    partition = ResultPartition(
        make_router(_edge(plan.ForwardPartitioner()), 1, 0, 0), [LocalOutputChannel("consumer", target)], 0, 8
    )
    batches = [RowBatch([n]) for n in range(LocalInputChannel.CAPACITY)]
    for batch in batches:
        assert partition.has_room()
        partition.emit(batch)
    assert not partition.has_room()
    assert partition.is_drained()
    assert list(target.queue) == batches
    target.queue.popleft()
    assert partition.has_room()
    partition.signal(END_OF_INPUT)
    assert target.queue[-1] is END_OF_INPUT


def test_without_credit_the_backlog_is_announced_once() -> None:
    link = Link(segment=10)
    for item in range(4):
        link.partitions[0].emit(RowBatch([item]))
        link.outputs[0].flush()
    (announced,) = link.sent
    assert isinstance(announced, Backlog)
    assert announced == Backlog(0, announced.buffers)
    link.gate.start()
    assert rows_in(link.take_all()) == [0, 1, 2, 3]
    backlogs = [data.backlog for data in link.data]
    assert backlogs == list(reversed(range(len(backlogs))))


class TestFlushTiming:
    def make(self, timeout: float, channels: int = 1) -> Link:
        link = Link(channels, segment=100_000, timeout=timeout)
        link.gate.start()
        link.carry()
        return link

    def test_rows_wait_for_the_timeout_from_when_they_were_first_seen(self) -> None:
        link = self.make(0.5)
        partition = link.partitions[0]
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
        link.partitions[0].emit(RowBatch([1]))
        assert link.partitions[0].flush_due(3.0) is None
        assert len(link.data) == 1

    def test_a_negative_timeout_waits_for_a_full_buffer(self) -> None:
        link = self.make(-1)
        link.partitions[0].emit(RowBatch([1]))
        assert link.partitions[0].flush_due(1e9) is None
        assert link.data == []

    def test_rows_behind_queued_buffers_go_on_gathering(self) -> None:
        link = Link(segment=100_000, timeout=0.5)
        partition = link.partitions[0]
        partition.emit(RowBatch([1]))
        link.outputs[0].flush()
        partition.emit(RowBatch([2]))
        assert partition.flush_due(1.0) is None
        assert partition.flush_due(100.0) is None
        assert len(link.outputs[0].queue) == 1
        link.gate.start()
        assert rows_in(link.take_all()) == [1]
        assert partition.flush_due(100.0) == 100.5
        partition.flush_due(100.5)
        assert rows_in(link.take_all()) == [2]

    def test_a_full_buffer_starts_the_timeout_anew(self) -> None:
        link = self.make(0.5)
        partition = link.partitions[0]
        partition.emit(RowBatch([1]))
        partition.flush_due(1.0)
        partition.emit(RowBatch(["x" * 500_000] * 2000))
        assert not link.outputs[0].has_gathered
        partition.emit(RowBatch([2]))
        link.take_all()
        assert partition.flush_due(1.4) == pytest.approx(1.9)

    def test_the_earliest_of_several_channels_is_due(self) -> None:
        frames: list[Frame] = []
        outputs = [
            RemoteOutputChannel(n, "", CONSUMER, ElementCodec(t.LONG), 1000, False, lambda p, f: frames.append(f))
            for n in (0, 1)
        ]
        for output in outputs:
            output.granted(10)
        router = make_router(_edge(plan.CustomPartitioner(lambda key, count: key, plan.KeySelector((0,)))), 2, 0, 0)
        partition = ResultPartition(router, list(outputs), 1.0, 8)
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


class TestViolations:
    def gate(self) -> tuple[InputGate, RemoteInputChannel]:
        channel = RemoteInputChannel(0, "source", PRODUCER)
        gate = InputGate([channel], ElementCodec(t.LONG), CreditReceiver([0], 3, 0), lambda *_: None)
        gate.start()
        return gate, channel

    @pytest.mark.parametrize("sequences", [(1,), (0, 0), (0, 2)], ids=["late start", "repeated", "gap"])
    def test_out_of_sequence(self, sequences: tuple[int, ...]) -> None:
        gate, channel = self.gate()
        for sequence in sequences[:-1]:
            gate.arrived(channel, data(sequence, ROWS))
        with pytest.raises(ProtocolError, match=rf"buffer {sequences[-1]} on channel 0, where"):
            gate.arrived(channel, data(sequences[-1], ROWS))

    def test_without_credit(self) -> None:
        gate, channel = self.gate()
        for sequence in range(3):
            gate.arrived(channel, data(sequence, ROWS))
        with pytest.raises(ProtocolError, match="without credit"):
            gate.arrived(channel, data(3, ROWS))

    def test_after_the_end(self) -> None:
        gate, channel = self.gate()
        gate.arrived(channel, data(0))
        with pytest.raises(ProtocolError, match="after the end of channel 0"):
            gate.arrived(channel, data(1, ROWS))
        assert gate.poll() == (channel, END_OF_INPUT)
        gate.end(channel)
        with pytest.raises(ProtocolError, match="after the end of channel 0"):
            gate.arrived(channel, data(1, ROWS))

    def test_of_an_unknown_codec(self) -> None:
        gate, channel = self.gate()
        with pytest.raises(ProtocolError, match="codec 7 on channel 0"):
            gate.arrived(channel, data(0, 7))

    def test_of_an_unknown_signal(self) -> None:
        gate, channel = self.gate()
        with pytest.raises(ProtocolError, match="a signal of the unknown tag 77, on channel 0"):
            gate.arrived(channel, data(0, 77))

    @pytest.mark.parametrize("form", [{"more": True}, {"compressed": True}], ids=str)
    def test_of_a_signal_that_is_no_single_buffer(self, form: dict[str, bool]) -> None:
        gate, channel = self.gate()
        with pytest.raises(ProtocolError, match="a signal on channel 0 in parts, compressed, or within a batch"):
            gate.arrived(channel, data(0, **form))

    def test_of_a_signal_within_a_batch(self) -> None:
        gate, channel = self.gate()
        gate.arrived(channel, data(0, ROWS, more=True))
        with pytest.raises(ProtocolError, match="within a batch"):
            gate.arrived(channel, data(1))


class TestChannelTable:
    def test_data_finds_its_gate(self) -> None:
        table, link = ChannelTable(), Link()
        link.gate.start()
        table.add_input(link.gate, link.inputs[0])
        table.arrived(PRODUCER, data(0, ROWS))
        assert link.inputs[0].has_element

    def test_data_of_another_peer_or_channel_is_refused(self) -> None:
        table, link = ChannelTable(), Link()
        link.gate.start()
        table.add_input(link.gate, link.inputs[0])
        for peer, channel in (("127.0.0.1:9", 0), (PRODUCER, 5)):
            with pytest.raises(ProtocolError, match=f"channel {channel}, which this worker does not have"):
                table.arrived(peer, data(0, ROWS, channel))
        assert not link.inputs[0].queue

    def test_what_comes_for_a_channel_that_is_done_is_dropped(self) -> None:
        table, link = ChannelTable(), Link()
        table.add_input(link.gate, link.inputs[0])
        table.forget([link.gate], [])
        table.arrived(PRODUCER, data(0, ROWS))
        table.arrived(PRODUCER, Backlog(0, 4))
        table.arrived(PRODUCER, Credit(0, 4))

    def test_what_is_remembered_of_channels_that_are_done_is_bounded(self) -> None:
        table = ChannelTable()
        for restart in range(70):
            numbers = range(restart * 1000, restart * 1000 + 1000)
            channels = [RemoteInputChannel(number, "source", PRODUCER) for number in numbers]
            gate = InputGate(channels, ElementCodec(t.LONG), CreditReceiver(numbers, 3, 0), lambda *_: None)
            for channel in channels:
                table.add_input(gate, channel)
            table.forget([gate], [])
        assert table.remembered <= 1 << 16
        table.arrived(PRODUCER, data(0, ROWS, 69_999))

    def test_credit_that_comes_before_its_task_is_kept(self) -> None:
        table, link = ChannelTable(), Link()
        table.arrived(CONSUMER, Credit(0, 2))
        table.arrived(CONSUMER, Credit(0, 1))
        table.add_output(link.outputs[0])
        assert link.outputs[0].credit.credit == 3

    def test_credit_and_backlog_count_only_from_the_channels_peer(self) -> None:
        table, link = ChannelTable(), Link(exclusive=1)
        link.gate.start()
        link.grants.clear()
        table.add_input(link.gate, link.inputs[0])
        table.add_output(link.outputs[0])
        table.arrived("127.0.0.1:9", Credit(0, 4))
        table.arrived("127.0.0.1:9", Backlog(0, 4))
        assert link.outputs[0].credit.credit == 0
        assert not link.grants
        table.arrived(CONSUMER, Credit(0, 4))
        table.arrived(PRODUCER, Backlog(0, 4))
        assert link.outputs[0].credit.credit == 4
        assert link.grants

    def test_frames_that_have_no_place_are_refused(self) -> None:
        with pytest.raises(ProtocolError, match="hello"):
            ChannelTable().arrived(PRODUCER, Hello("j", ""))

    def test_both_ends_of_a_local_channel_are_one(self) -> None:
        table = ChannelTable()
        first = table.local(4, "")
        assert table.local(4, "the producer") is first
        assert first.name == "the producer"
