"""The sending side of a task: one `ResultPartition` for each outgoing edge, one channel for each consumer.

Owned by the worker's loop. Rows for a remote consumer are gathered until they fill a buffer or the buffer timeout has
passed, then encoded and queued; queued buffers leave against credit, and a barrier with priority ahead of them without
any. The partition has room while its queued buffers fit two for each channel plus a shared pool, so that a stuck
channel can hold at most its two and the pool.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from millstream.core.batches import END_OF_INPUT, Barrier, Batch, ColumnBatch, Element, RowBatch
from millstream.proto import dataplane_pb2 as pb
from millstream.taskmanager.network.codecs import ElementCodec, compress
from millstream.taskmanager.network.credit import CreditSender
from millstream.taskmanager.network.inputs import LocalInputChannel
from millstream.taskmanager.network.overtaking import Passage, overtake
from millstream.taskmanager.partitioning import Router

BUFFERS_PER_CHANNEL = 2


class OutputChannel:
    """To one consumer."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def emit(self, batch: Batch) -> None:
        """Takes a batch; never blocks."""
        raise NotImplementedError

    def signal(self, element: Element) -> None:
        """Takes a signal, behind everything emitted before it."""
        raise NotImplementedError


class LocalOutputChannel(OutputChannel):
    """Hands elements to a task of the same worker by reference."""

    __slots__ = ("target",)

    def __init__(self, name: str, target: LocalInputChannel) -> None:
        super().__init__(name)
        self.target = target

    def emit(self, batch: Batch) -> None:
        """At once: there is nothing to gain by waiting."""
        self.target.put(batch)

    def signal(self, element: Element) -> None:
        """Behind the batches."""
        self.target.put(element)


class RemoteOutputChannel(OutputChannel):
    """Gathers, encodes and queues for a task of another worker."""

    __slots__ = (
        "_codec",
        "_compress",
        "_gathered",
        "_in_batch",
        "_row_bytes",
        "_segment",
        "_send",
        "_sequence",
        "_timestamps",
        "bytes_out",
        "channel_id",
        "credit",
        "peer",
        "queue",
        "waiting_since",
    )  # fmt: skip

    def __init__(
        self, channel_id: int, name: str, peer: str, codec: ElementCodec, segment: int, compressed: bool,
        send: Callable[[str, bytes], None],
    ) -> None:  # fmt: skip
        super().__init__(name)
        self.channel_id = channel_id
        self.peer = peer
        self.credit = CreditSender()
        self.queue: deque[pb.Data] = deque()
        self.waiting_since: float | None = None
        self.bytes_out = 0
        self._codec = codec
        self._segment = segment
        self._compress = compressed
        self._send = send
        self._sequence = 0
        self._in_batch = False
        self._gathered: list[object] = []
        self._timestamps: list[int] | None = None
        self._row_bytes = 64.0

    def emit(self, batch: Batch) -> None:
        """Gathers rows; columns are a buffer of their own."""
        if isinstance(batch, ColumnBatch):
            self.flush()
            self._encode(batch)
            self.pump()
            return
        if self._gathered and (self._timestamps is None) != (batch.timestamps is None):
            self.flush()
        if not self._gathered:
            self._gathered = list(batch.rows)
            self._timestamps = list(batch.timestamps) if batch.timestamps is not None else None
        else:
            self._gathered += batch.rows
            if self._timestamps is not None and batch.timestamps is not None:
                self._timestamps += batch.timestamps
        if len(self._gathered) * self._row_bytes >= self._segment:
            self.flush()

    def signal(self, element: Element) -> None:
        """Flushes first, so that order is kept."""
        self.flush()
        self._encode(element)
        self.pump()

    def barrier(self, barrier: Barrier) -> pb.Data:
        """Sends a barrier; answers its frame, which waits in the queue unless it has left."""
        self.flush()
        self._encode(barrier)
        frame = self.queue[-1]
        self.pump()
        return frame

    def hurry(self, frame: pb.Data, barrier: Barrier) -> list[pb.Data]:
        """Has a queued barrier overtake the buffers ahead of it; answers those."""
        _, frame.payload = self._codec.encode(replace(barrier, unaligned=True))
        passed = overtake(self.queue, frame, self._in_batch)
        frame.priority = True
        self.pump()
        return passed

    @property
    def has_gathered(self) -> bool:
        """Whether rows wait for their buffer to fill."""
        return bool(self._gathered)

    def flush(self) -> None:
        """Encodes what was gathered."""
        rows = self._gathered
        self.waiting_since = None
        if rows:
            self._gathered = []
            size = self._encode(RowBatch(rows, self._timestamps))
            self._row_bytes = max(1.0, size / len(rows))
            self.pump()

    def granted(self, buffers: int) -> None:
        """The consumer has room."""
        self.credit.granted(buffers)
        self.pump()

    def pump(self) -> None:
        """Sends queued buffers while there is credit; a barrier with priority needs none."""
        queue, credit = self.queue, self.credit
        while queue and (credit.credit or queue[0].priority):
            data = queue.popleft()
            data.backlog = len(queue)
            data.sequence = self._sequence
            self._sequence += 1
            self._in_batch = data.more
            if not data.priority:
                credit.spend(len(queue))
            self._send(self.peer, pb.Frame(data=data).SerializeToString())
        backlog = credit.announcement(len(queue))
        if backlog is not None:
            frame = pb.Frame(backlog=pb.Backlog(channel=self.channel_id, buffers=backlog))
            self._send(self.peer, frame.SerializeToString())

    def _encode(self, element: Element) -> int:
        codec, payload = self._codec.encode(element)
        whole = isinstance(element, Barrier)  # so that it is known when it arrives
        compressed = self._compress and len(payload) > 512 and not whole
        if compressed:
            payload = compress(payload)
        size = len(payload)
        self.bytes_out += size
        segment = max(size, 1) if whole else self._segment
        for start in range(0, max(size, 1), segment):
            part = payload if size <= segment else payload[start : start + segment]
            self.queue.append(
                pb.Data(
                    channel=self.channel_id, codec=codec, compressed=compressed, payload=part,
                    more=start + segment < size,
                )
            )  # fmt: skip
        return size


class ResultPartition:
    """One outgoing edge of a task."""

    def __init__(
        self, router: Router, channels: list[OutputChannel], buffer_timeout: float, shared_buffers: int,
        overtakable: bool = False, edge: tuple[str, str] = ("", "0"),
    ) -> None:  # fmt: skip
        self.edge = edge
        """The operator whose records these are, and the edge's name."""
        self._router = router
        self._channels = channels
        self._remote = [c for c in channels if isinstance(c, RemoteOutputChannel)]
        self._local = [c.target for c in channels if isinstance(c, LocalOutputChannel)]
        self._timeout = buffer_timeout
        self._shared = shared_buffers
        self._overtakable = overtakable
        self.records_out = 0

    @property
    def remote_channels(self) -> list[RemoteOutputChannel]:
        """Those that go over the network."""
        return self._remote

    @property
    def bytes_out(self) -> int:
        """Encoded bytes so far."""
        return sum(c.bytes_out for c in self._remote)

    def emit(self, batch: Batch) -> None:
        """Spreads a batch over the channels."""
        self.records_out += len(batch)
        channels = self._channels
        for index, part in self._router.route(batch):
            channels[index].emit(part)

    def barrier(self, barrier: Barrier) -> list[Passage]:
        """Sends a barrier to every consumer, behind the records emitted before it or, unaligned, past them.

        Answers how it gets through the remote channels, if it overtakes records or may come to. Inside of a worker it
        needs not pass them: the consumer is told of it, and finds them in its own queue.
        """
        passages: list[Passage] = []
        may_overtake = self._overtakable and (barrier.unaligned or barrier.aligned_timeout_ms is not None)
        for index, channel in enumerate(self._channels):
            if may_overtake and isinstance(channel, RemoteOutputChannel):
                passage = Passage(channel, index, channel.barrier(barrier))
                passages.append(passage)
                if barrier.unaligned:
                    passage.hurry(barrier)
            else:
                channel.signal(barrier)
        return passages

    def end(self) -> None:
        """Ends every channel, behind its records."""
        for channel in self._channels:
            channel.signal(END_OF_INPUT)

    def has_room(self) -> bool:
        """Whether the task may produce more."""
        for target in self._local:
            if not target.has_room:
                return False
        over = 0
        for channel in self._remote:
            queued = len(channel.queue)
            if queued > BUFFERS_PER_CHANNEL:
                over += queued - BUFFERS_PER_CHANNEL
        return over < self._shared

    def is_drained(self) -> bool:
        """Whether everything has left for its consumers."""
        return not any(c.queue or c.has_gathered for c in self._remote)

    def flush_due(self, now: float) -> float | None:
        """Flushes what waited for the buffer timeout; answers when to look again, or None."""
        timeout = self._timeout
        next_due: float | None = None
        for channel in self._remote:
            if not channel.has_gathered:
                continue
            if timeout < 0:
                continue
            if channel.queue:
                channel.waiting_since = None  # it waits for credit anyway: let more rows join
                continue
            if channel.waiting_since is None:
                channel.waiting_since = now
            due = channel.waiting_since + timeout
            if due <= now:
                channel.flush()
            elif next_due is None or due < next_due:
                next_due = due
        return next_due
