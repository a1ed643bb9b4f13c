"""Partitions with one channel each to one gate, over the frames of two workers, which the test delivers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from millstream.core.jobs.plan import plan
from millstream.core.records import types as t
from millstream.core.records.batches import END_OF_INPUT, Batch, ColumnBatch, RowBatch
from millstream.core.records.conversion import record_batch_to_rows
from millstream.taskmanager.worker.network.channel_table import ChannelTable
from millstream.taskmanager.worker.network.codecs import ElementCodec
from millstream.taskmanager.worker.network.credit import CreditReceiver
from millstream.taskmanager.worker.network.debloating import Debloater
from millstream.taskmanager.worker.network.frames import FRAME, Credit, Data, Frame
from millstream.taskmanager.worker.network.inputs import InputChannel, InputGate, RemoteInputChannel
from millstream.taskmanager.worker.network.outputs import RemoteOutputChannel, ResultPartition
from millstream.taskmanager.worker.partitioning import Router, make_router

PRODUCER, CONSUMER = "127.0.0.1:1", "127.0.0.1:2"
TO_FIRST_FIELD = plan.CustomPartitioner(lambda key, count: key, plan.KeySelector((0,)))


def router(partitioner: plan.Partitioner, channels: int = 1, kind: t.TypeInformation = t.PICKLED) -> Router:
    return make_router(plan.EdgeSpec(partitioner, kind, 128), channels, 0, 0)


def gate_of(channels: list[InputChannel], kind: t.TypeInformation = t.LONG, exclusive: int = 2) -> InputGate:
    """A gate whose credit is discarded; it is not started."""
    remote = [channel.channel_id for channel in channels if isinstance(channel, RemoteInputChannel)]
    return InputGate(channels, ElementCodec(kind), CreditReceiver(remote, exclusive, 0), lambda *_: None)


class Link:
    """The gate is started: its first credit is in flight. With a `limit`, it requests so many rows."""

    def __init__(
        self, channels: int = 1, *, segment: int = 1000, compressed: bool = False, timeout: float = -1,
        exclusive: int = 2, floating: int = 3, shared: int = 2, kind: t.TypeInformation = t.PICKLED,
        overtakable: bool = False, limit: int = 0,
    ) -> None:  # fmt: skip
        self.kind = kind
        self.frames: deque[bytes] = deque()
        self.credits: deque[bytes] = deque()
        self.sent: list[Frame] = []
        self.sending, self.receiving = ChannelTable(limit), ChannelTable(limit)
        self.outputs = [
            RemoteOutputChannel(n, f"sink {n}", CONSUMER, ElementCodec(kind), segment, compressed, self._send, limit)
            for n in range(channels)
        ]
        to_one = plan.GlobalPartitioner()
        self.partitions = [
            ResultPartition(router(to_one, kind=kind), [output], timeout, shared, overtakable)
            for output in self.outputs
        ]
        self.inputs = [RemoteInputChannel(n, f"source {n}", PRODUCER) for n in range(channels)]
        credit = CreditReceiver(range(channels), exclusive, floating)
        debloater = Debloater(channels, exclusive, floating, 1.0, 0.2, 5, 0.25) if limit else None
        self.gate = InputGate(list(self.inputs), ElementCodec(kind), credit, self._grant, debloater=debloater)
        self.gate.overtakable = overtakable
        for output, channel in zip(self.outputs, self.inputs, strict=True):
            self.sending.add_output(output)
            self.receiving.add_input(self.gate, channel)
        self.output, self.partition, self.input = self.outputs[0], self.partitions[0], self.inputs[0]
        self.gate.start()

    def _send(self, peer: str, frame: Frame) -> None:
        assert peer == CONSUMER
        self.frames.append(FRAME.to_bytes(frame))
        self.sent.append(frame)

    def _grant(self, channel: RemoteInputChannel, buffers: int, rows: int) -> None:
        self.credits.append(FRAME.to_bytes(Credit(channel.channel_id, buffers, rows)))

    @property
    def data(self) -> list[Data]:
        """The buffers that were sent."""
        return [frame for frame in self.sent if isinstance(frame, Data)]

    def emit(self, *rows: Any, channel: int = 0) -> None:
        """Rows in a buffer of their own."""
        self.partitions[channel].emit(RowBatch(list(rows)))
        self.outputs[channel].flush()

    def carry_data(self, count: int | None = None) -> None:
        for _ in range(len(self.frames) if count is None else min(count, len(self.frames))):
            self.receiving.arrived(PRODUCER, FRAME.from_bytes(self.frames.popleft()))

    def carry_credit(self) -> None:
        while self.credits:
            self.sending.arrived(CONSUMER, FRAME.from_bytes(self.credits.popleft()))

    def carry(self) -> None:
        """Delivers all frames in flight, in both directions, until there are none."""
        while self.frames or self.credits:
            self.carry_data()
            self.carry_credit()

    def take(self) -> Any:
        """The next element; None if none arrives."""
        self.carry()
        taken = self.gate.poll()
        self.carry()
        if taken is not None and taken[1] == END_OF_INPUT:
            self.gate.end(taken[0])
        return taken and taken[1]

    def take_all(self) -> list[Any]:
        """Consumes until nothing arrives any more."""
        taken = []
        while (element := self.take()) is not None:
            taken.append(element)
        return taken


def rows_of(batch: Batch) -> list[Any]:
    return batch.rows if isinstance(batch, RowBatch) else record_batch_to_rows(batch.data, t.LONG)


def flat(elements: Iterable[Any]) -> list[Any]:
    """Rows and signals, in order."""
    seen: list[Any] = []
    for element in elements:
        seen += rows_of(element) if isinstance(element, RowBatch | ColumnBatch) else [element]
    return seen


def rows_in(elements: Iterable[Any]) -> list[Any]:
    """Only the rows."""
    return [row for element in elements if isinstance(element, RowBatch | ColumnBatch) for row in rows_of(element)]


def decoded(buffers: Iterable[Any], kind: t.TypeInformation = t.LONG) -> list[Any]:
    """The rows of buffers."""
    return rows_in(ElementCodec(kind).decode(buffer.codec, buffer.payload) for buffer in buffers)
