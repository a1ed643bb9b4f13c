"""A kind of channel that the network does not have: partitions and gates work with it as with those that it has."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from exchange_link import CONSUMER, TO_FIRST_FIELD, Link, gate_of, router, rows_in

from millstream.core.jobs.barriers import Alignment
from millstream.core.jobs.ids import ChannelId
from millstream.core.jobs.plan import plan
from millstream.core.records import types as t
from millstream.core.records.batches import (
    END_OF_INPUT,
    Barrier,
    Batch,
    ColumnBatch,
    Element,
    EndOfInput,
    RowBatch,
    Signal,
    Watermark,
)
from millstream.taskmanager.worker.network.channel_table import ChannelTable
from millstream.taskmanager.worker.network.codecs import ElementCodec
from millstream.taskmanager.worker.network.credit import CreditReceiver
from millstream.taskmanager.worker.network.debloating import Debloater
from millstream.taskmanager.worker.network.inputs import InputChannel, InputGate, LocalInputChannel
from millstream.taskmanager.worker.network.output_channel import OutputChannel
from millstream.taskmanager.worker.network.outputs import LocalOutputChannel, RemoteOutputChannel, ResultPartition

BARRIER = Barrier(1, 0, alignment=Alignment.UNALIGNED)
Record = tuple[int, bytes]


class File:
    """The records of one consumer, encoded, and whether more may be written for now."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.is_writable = True


class FileOutputChannel(OutputChannel):
    """Gathers batches and appends them to a file, together."""

    __slots__ = ("_codec", "_file", "_since", "waiting")

    def __init__(self, number: int, file: File) -> None:
        super().__init__(ChannelId(number), f"file {number}")
        self.waiting: list[Batch] = []
        self._file = file
        self._codec = ElementCodec(t.LONG)
        self._since: float | None = None

    @property
    def limit(self) -> int:
        return 0

    def emit(self, batch: Batch) -> None:
        self.waiting.append(batch)

    def signal(self, signal: Signal) -> None:
        self._flush()
        if isinstance(signal, EndOfInput):
            self._file.records.append(self._codec.encode(signal))

    @property
    def is_full(self) -> bool:
        return not self._file.is_writable

    @property
    def is_drained(self) -> bool:
        return not self.waiting

    @property
    def bytes_out(self) -> int:
        return sum(len(payload) for _, payload in self._file.records)

    def _flush(self) -> None:
        self._file.records += [self._codec.encode(batch) for batch in self.waiting]
        self.waiting = []


class BufferedFileOutputChannel(FileOutputChannel):
    """Takes part in the pool of its edge, and is flushed by the timeout."""

    __slots__ = ()
    is_buffered = True

    @property
    def buffers_out(self) -> int:
        return len(self._file.records)

    def flush_due(self, now: float, timeout: float) -> float | None:
        if not self.waiting:
            return None
        self._since = now if self._since is None else self._since
        if self._since + timeout > now:
            return self._since + timeout
        self._flush()
        self._since = None
        return None


class FileInputChannel(InputChannel):
    """Reads a file that is complete."""

    __slots__ = ("limits",)
    capacity = 1

    def __init__(self, number: int, file: File) -> None:
        super().__init__(ChannelId(number), f"file {number}")
        self.queue.extend(file.records)
        self.has_all = True
        self.limits: list[int] = []

    def take(self, gate: InputGate, like: Batch | None) -> Element | None:
        element = gate.codec.decode(*self.queue[0])
        if like is not None and type(element) is not type(like):
            return None
        self.queue.popleft()
        gate.bytes_in += 1
        return element

    def limit_to(self, rows: int) -> None:
        self.limits.append(rows)


def polled(gate: InputGate, like: Batch | None = None) -> tuple[InputChannel, list[int]]:
    taken = gate.poll(like)
    assert taken is not None
    return taken[0], rows_in([taken[1]])


def remote_channel(frames: list[object]) -> RemoteOutputChannel:
    return RemoteOutputChannel(
        ChannelId(2), "remote", CONSUMER, ElementCodec(t.LONG), 1000, False, lambda _, frame: frames.append(frame)
    )


@pytest.mark.parametrize("kind", [FileOutputChannel, BufferedFileOutputChannel])
def test_a_partition_of_all_kinds(kind: Callable[[int, File], FileOutputChannel]) -> None:
    file, local, frames = File(), LocalInputChannel(ChannelId(1), "local"), list[object]()
    third, remote = kind(0, file), remote_channel(frames)
    channels: list[OutputChannel] = [third, LocalOutputChannel("local", local), remote]
    partition = ResultPartition(router(TO_FIRST_FIELD, 3), channels, 1.0, 2, overtakable=True)
    assert partition.passes_references
    assert not ResultPartition(router(plan.GlobalPartitioner()), [third], 1.0, 2).passes_references
    partition.emit(RowBatch([(0, "a"), (1, "b"), (2, "c"), (0, "d")]))
    assert rows_in(third.waiting) == [(0, "a"), (0, "d")]
    assert rows_in(local.queue) == [(1, "b")]
    assert partition.has_room()
    assert not partition.is_drained()
    passages = partition.barrier(BARRIER)
    assert [passage.consumer for passage in passages] == [2], "only the channel to another worker has passages"
    assert partition.is_drained() is not bool(remote.queue)
    partition.signal(END_OF_INPUT)
    assert len(file.records) == 2
    assert partition.bytes_out == third.bytes_out + remote.bytes_out
    file.is_writable = False
    assert not third.is_buffered or partition.queued == len(remote.queue)
    assert partition.has_room() is third.is_buffered, "a buffered channel has room while the pool has"


def test_the_timeout_flushes_a_buffered_channel_of_another_kind() -> None:
    file = File()
    channel = BufferedFileOutputChannel(0, file)
    partition = ResultPartition(router(plan.GlobalPartitioner()), [channel], 2.0, 2)
    assert partition.flush_due(9.0) is None
    partition.emit(RowBatch([1]))
    assert partition.flush_due(10.0) == 12.0
    assert partition.flush_due(11.0) == 12.0
    assert not file.records
    assert partition.flush_due(12.0) is None
    assert (len(file.records), partition.buffers_out, partition.is_drained()) == (1, 1, True)
    assert (partition.capacity, partition.queued, partition.credit) == (4, 0, 0)


def test_a_gate_of_all_kinds() -> None:
    file, link = File(), Link(kind=t.LONG)
    written = FileOutputChannel(5, file)
    columns = ColumnBatch(pa.RecordBatch.from_pydict({"n": pa.array([3], pa.int64())}))
    batches: list[Batch] = [RowBatch([1]), RowBatch([2]), columns]
    for batch in batches:
        written.emit(batch)
    written.signal(END_OF_INPUT)
    third, local = FileInputChannel(5, file), LocalInputChannel(ChannelId(6), "local")
    gate = gate_of([third, local, link.input])
    gate.start()
    local.put(Watermark(7))
    assert gate.queued == 5
    assert gate.capacity == 2 + third.capacity + local.capacity
    assert polled(gate) == (third, [1])
    assert gate.poll() == (local, Watermark(7)), "channels take turns"
    assert polled(gate, like=RowBatch([0])) == (third, [2])
    assert gate.poll(like=RowBatch([0])) is None, "the next batch has columns"
    assert polled(gate) == (third, [3])
    assert gate.poll() == (third, END_OF_INPUT)
    for each in gate.channels:
        gate.end(each)
    assert gate.all_ended
    assert gate.bytes_in == 4


def test_a_channel_without_credit_receives_the_limit_itself() -> None:
    third = FileInputChannel(0, File())
    debloater = Debloater(1, 2, 3, 1.0, 0.2, 5, 0.25)
    gate = InputGate(
        [third], ElementCodec(t.LONG), CreditReceiver([], 2, 3), lambda *_: None, debloater=debloater
    )
    assert third.limits == []
    gate.start()
    assert third.limits == [1]


def test_a_task_that_ends_forgets_only_channels_of_the_network() -> None:
    table = ChannelTable()
    remote = remote_channel([])
    table.add_output(remote)
    table.forget([], [FileOutputChannel(0, File()), LocalOutputChannel("", table.local(ChannelId(1), "")), remote])
    assert table.remembered == 1
