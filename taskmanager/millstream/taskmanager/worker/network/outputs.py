"""The sending side of a task: one `ResultPartition` for each outgoing edge, one channel for each consumer.

Owned by the worker's loop. Rows for a remote consumer are buffered until they fill a buffer or the buffer timeout has
expired, then queued; queued buffers are sent as credit allows, and a barrier with priority ahead of them without any.
The partition has room while its queued buffers fit two for each channel plus a shared pool, so that a blocked channel
can hold at most its two and the pool.

A consumer may request buffers of fewer rows (see `debloating`). Then rows are kept unencoded until the buffer before
them has been sent, so that they are cut as the consumer wants them by then, and there is room while they are fewer than
one buffer holds. The same applies to rows whose encoding depends on all that share their buffer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from millstream.core.jobs.barriers import Alignment
from millstream.core.jobs.ids import ChannelId
from millstream.core.records.batches import (
    MIN_TIMESTAMP,
    Barrier,
    Batch,
    ColumnBatch,
    Element,
    EndOfInput,
    LatencyMarker,
    RowBatch,
    Signal,
    StreamSignal,
    Watermark,
)
from millstream.taskmanager.worker.network.codecs import ElementCodec, compress
from millstream.taskmanager.worker.network.credit import CreditSender
from millstream.taskmanager.worker.network.frames import Backlog, Data, Frame
from millstream.taskmanager.worker.network.inputs import LocalInputChannel
from millstream.taskmanager.worker.network.output_channel import OutputChannel
from millstream.taskmanager.worker.network.overtaking import Passage, overtake
from millstream.taskmanager.worker.network.signals import is_signal
from millstream.taskmanager.worker.partitioning import Router

BUFFERS_PER_CHANNEL = 2
_PARTS = 16  # of a buffer, encoded at once, so that small batches are not encoded one by one


class LocalOutputChannel(OutputChannel):
    """Passes elements to a task of the same worker by reference."""

    __slots__ = ("target",)
    by_reference = True

    def __init__(self, name: str, target: LocalInputChannel) -> None:
        super().__init__(target.channel_id, name, target.queue)
        self.target = target

    @property
    def limit(self) -> int:
        """The limit that the consumer has set."""
        return self.target.limit

    def emit(self, batch: Batch) -> None:
        """Delivers the batch at once: waiting gains nothing."""
        self.target.put(batch)

    def signal(self, signal: Signal) -> None:
        """Delivers the signal behind the batches."""
        self.target.put(signal)

    @property
    def is_full(self) -> bool:
        """Whether the consumer's queue is full, of elements or of rows."""
        target = self.target
        if len(target.queue) >= target.CAPACITY:
            return True
        if not target.limit:
            return False
        return sum(len(e) for e in target.queue if not isinstance(e, Signal)) >= target.limit * target.PLACES


class Written:
    """Rows for one buffer, encoded in parts as they arrive.

    All have the same codec, and all or none have timestamps.
    """

    __slots__ = ("kind", "parts", "size")

    def __init__(self) -> None:
        self.kind: tuple[int, bool] | None = None
        self.parts: list[bytes] = []
        self.size = 0

    def add(self, kind: tuple[int, bool], payload: bytes) -> None:
        """Adds rows of the same kind as those before them."""
        self.kind = kind
        self.parts.append(payload)
        self.size += len(payload)

    def take(self) -> tuple[int, bytes]:
        """Removes all rows; returns their codec and payload."""
        assert self.kind is not None, "there are some"
        codec, payload = self.kind[0], b"".join(self.parts)
        self.kind, self.size = None, 0
        self.parts.clear()
        return codec, payload


class RemoteOutputChannel(OutputChannel):
    """Buffers, encodes and queues elements for a task of another worker."""

    __slots__ = (
        "_asked",
        "_codec",
        "_compress",
        "_gathered",
        "_in_batch",
        "_limit",
        "_row_bytes",
        "_rows",
        "_segment",
        "_send",
        "_sequence",
        "_start",
        "_waiting_since",
        "_written",
        "bytes_out",
        "credit",
        "peer",
    )  # fmt: skip
    is_buffered = True
    queue: deque[Data]
    bytes_out: int

    def __init__(
        self, channel_id: ChannelId, name: str, peer: str, codec: ElementCodec, segment: int, compressed: bool,
        send: Callable[[str, Frame], None], limit: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(channel_id, name, deque[Data]())
        self.peer = peer
        self.credit = CreditSender()
        self._waiting_since: float | None = None
        self.bytes_out = 0
        self._codec = codec
        self._segment = segment
        self._compress = compressed
        self._send = send
        self._sequence = 0
        self._in_batch = False
        self._written = Written()
        self._gathered: deque[Batch] = deque()
        self._start = 0  # offset of the remaining rows in the first batch
        self._rows = 0  # of all batches
        self._row_bytes = 64.0
        self._asked = self._limit = limit

    @property
    def buffers_out(self) -> int:
        """The number of buffers sent."""
        return self._sequence

    @property
    def unused_credit(self) -> int:
        """The credit that the consumer has granted."""
        return self.credit.credit

    @property
    def limit(self) -> int:
        """The consumer's limit, unless fewer rows fill a buffer."""
        return self._limit

    def emit(self, batch: Batch) -> None:
        """Buffers rows; columns are sent as a buffer of their own."""
        rows = len(batch)
        if not rows:
            return
        self._rows += rows
        last = self._gathered[-1] if self._gathered else None
        if isinstance(batch, ColumnBatch):
            self._gathered.append(batch)
        elif (
            isinstance(last, RowBatch)
            and last.is_timed == batch.is_timed
            and not (self._start and len(self._gathered) == 1)  # it would grow at its end as it shrinks at its start
        ):
            last.extend(batch)
        else:
            self._gathered.append(batch.slice(0))
        while not self._limit and self._encode_next():
            self.pump()
        if self._limit:
            self.pump()

    def signal(self, signal: Signal) -> None:
        """Flushes first, so that the order is kept."""
        self.flush()
        self._encode(signal)
        self.pump()

    def barrier(self, barrier: Barrier, consumer: int, overtakable: bool) -> Passage | None:
        """Sends a barrier, which stays queued without credit.

        Where it keeps its queue position, the consumer is notified of an urgent one: see `InputGate.is_pressed`.
        """
        self.flush()
        self._encode(barrier)
        frame = self.queue[-1]
        self.pump()
        if overtakable:
            passage = Passage(self, consumer, frame)
            if barrier.unaligned:
                passage.hurry(barrier)
            return passage
        if barrier.may_overtake and self.queue:
            self._send(self.peer, Backlog(self.channel_id, self._backlog(), barrier.checkpoint_id))
        return None

    def hurry(self, frame: Data, barrier: Barrier) -> list[Data]:
        """Lets a queued barrier overtake the buffers ahead of it; returns those."""
        _, frame.payload = self._codec.encode(replace(barrier, alignment=Alignment.UNALIGNED))
        passed = overtake(self.queue, frame, self._in_batch)
        frame.priority = True
        self.pump()
        return passed

    @property
    def has_gathered(self) -> bool:
        """Whether rows wait for their buffer to fill."""
        return bool(self._gathered or self._written.parts)

    @property
    def is_drained(self) -> bool:
        """Whether all buffers and rows were sent."""
        return not (self.queue or self.has_gathered)

    @property
    def is_full(self) -> bool:
        """Whether the consumer has requested small batches, and one already waits behind a buffer."""
        return bool(self._limit and self.queue and self._rows >= self._limit)

    def flush_due(self, now: float, timeout: float) -> float | None:
        """Flushes the buffered rows after the timeout, unless buffers before them wait for credit."""
        if not (self._gathered or self._written.parts):
            return None
        if self.queue:
            self._waiting_since = None  # more rows may join them meanwhile
            return None
        if self._waiting_since is None:
            self._waiting_since = now
        due = self._waiting_since + timeout
        if due > now:
            return due
        self.flush()
        return None

    def flush(self) -> None:
        """Encodes the buffered rows."""
        self._waiting_since = None
        if self.has_gathered:
            if self._may_write:
                self._write()
            while self._gathered:
                self._encode_rows(self._rows)
            self._end_written()
            self.pump()

    def granted(self, buffers: int, limit: int = 0) -> None:
        """The consumer has granted credit, for buffers of at most `limit` rows."""
        self.credit.granted(buffers)
        self._asked = limit
        self._set_limit()
        self.pump()

    def pump(self) -> None:
        """Sends queued buffers while there is credit; a barrier with priority needs none."""
        queue, credit = self.queue, self.credit
        while True:
            while queue and (credit.credit or queue[0].priority):
                data = queue.popleft()
                backlog = self._backlog()
                data.backlog = backlog
                data.sequence = self._sequence
                self._sequence += 1
                self._in_batch = data.more
                if not data.priority:
                    credit.spend(backlog)
                self._send(self.peer, data)
            if queue or not self._encode_next():
                break
        announced = credit.announcement(self._backlog())
        if announced is not None:
            self._send(self.peer, Backlog(self.channel_id, announced))

    def _backlog(self) -> int:
        return len(self.queue) + (self._rows // self._limit if self._limit else 0)

    def _set_limit(self) -> None:
        self._limit = self._asked if self._asked * self._row_bytes < self._segment else 0

    def _encode_next(self) -> bool:
        """Encodes some of the buffered rows, if there are enough; returns whether a buffer is ready."""
        gathered, limit = self._gathered, self._limit
        if not gathered:
            return False
        if not limit and self._may_write:
            return self._write_next()
        is_all = len(gathered) == 1 and isinstance(gathered[0], RowBatch)  # more rows may join it
        if is_all and (self._rows < limit if limit else self._rows * self._row_bytes < self._segment):
            return False
        self._encode_rows(limit or self._rows)
        return True

    @property
    def _may_write(self) -> bool:
        """Whether the buffered rows can share a buffer with the rows encoded before, and follow them."""
        gathered = self._gathered
        return len(gathered) == 1 and isinstance(gathered[0], RowBatch) and self._codec.pickles(gathered[0])

    def _write_next(self) -> bool:
        """Encodes rows while they are in the processor's cache, to share a buffer with those before and after them."""
        expected = self._rows * self._row_bytes
        is_ready = self._written.size + expected > self._segment and self._end_written()
        if expected * _PARTS < self._segment:
            return is_ready
        is_ready |= self._write()
        if max(expected, self._written.size) >= self._segment:
            is_ready = self._end_written()
        return is_ready

    def _write(self) -> bool:
        """Encodes all buffered rows; returns whether the rows encoded before are of another kind, and ready."""
        batch = self._cut(self._rows)
        codec, payload = self._codec.encode(batch)
        kind = (codec, batch.is_timed)
        is_ready = kind != self._written.kind and self._end_written()
        self._written.add(kind, payload)
        self._learn(len(payload), len(batch))
        return is_ready

    def _end_written(self) -> bool:
        """Queues the encoded rows as one buffer, if there are any: no more rows are added to it."""
        if not self._written.parts:
            return False
        codec, payload = self._written.take()
        self._enqueue(codec, payload)
        self._waiting_since = None
        return True

    def _encode_rows(self, most: int) -> None:
        """Encodes the first buffered rows, at most `most`, as a buffer."""
        self._end_written()
        batch = self._cut(most)
        self._learn(self._encode(batch), len(batch))
        self._waiting_since = None

    def _cut(self, most: int) -> Batch:
        """Removes the first buffered rows, at most `most`."""
        batch, start = self._gathered[0], self._start
        end = min(start + most, len(batch))
        if end == len(batch):
            self._gathered.popleft()
            self._start = 0
        else:
            self._start = end
        self._rows -= end - start
        return batch if end - start == len(batch) else batch.slice(start, end)

    def _learn(self, size: int, rows: int) -> None:
        self._row_bytes = max(1.0, size / max(1, rows))
        self._set_limit()

    def _encode(self, element: Element) -> int:
        return self._enqueue(*self._codec.encode(element))

    def _enqueue(self, codec: int, payload: bytes) -> int:
        whole = is_signal(codec)  # so that it is known when it arrives
        compressed = self._compress and len(payload) > 512 and not whole
        if compressed:
            payload = compress(payload)
        size = len(payload)
        self.bytes_out += size
        segment = max(size, 1) if whole else self._segment
        number = int(codec)  # not a member of `Codec`: it may be stored in a snapshot
        for start in range(0, max(size, 1), segment):
            part = payload if size <= segment else payload[start : start + segment]
            self.queue.append(
                Data(
                    self.channel_id, codec=number, compressed=compressed, payload=part,
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
        """The operator that emits these records, and the name of the edge."""
        self._router = router
        self._channels = channels
        self._buffered = [c for c in channels if c.is_buffered]
        self._unbuffered = [c for c in channels if not c.is_buffered]
        self._timeout = buffer_timeout
        self._shared = shared_buffers
        self._overtakable = overtakable
        self.records_out = 0
        self.watermark = MIN_TIMESTAMP
        """The last watermark that was sent."""
        self._crowding = 0.0
        self._marked = -1  # the channel of the last latency marker

    @property
    def channels(self) -> Sequence[OutputChannel]:
        """The channels in the order of the deployment."""
        return self._channels

    @property
    def passes_references(self) -> bool:
        """Whether some consumers receive the records themselves: those may change them."""
        return any(channel.by_reference for channel in self._channels)

    @property
    def bytes_out(self) -> int:
        """The number of encoded bytes."""
        return sum(c.bytes_out for c in self._channels)

    @property
    def buffers_out(self) -> int:
        """The number of buffers sent."""
        return sum(c.buffers_out for c in self._channels)

    @property
    def queued(self) -> int:
        """The number of buffers that are to be sent."""
        return sum(len(c.queue) for c in self._buffered)

    @property
    def capacity(self) -> int:
        """How many buffers may be queued before the task is backpressured."""
        return BUFFERS_PER_CHANNEL * len(self._buffered) + self._shared if self._buffered else 0

    @property
    def credit(self) -> int:
        """The unused credit of all consumers."""
        return sum(c.unused_credit for c in self._channels)

    def emit(self, batch: Batch) -> None:
        """Distributes a batch to the channels."""
        self.records_out += len(batch)
        channels = self._channels
        most = 0.0
        for index, part in self._router.route(batch):
            channel = channels[index]
            if (limit := channel.limit) and len(part) > most * limit:
                most = len(part) / limit
            channel.emit(part)
        self._crowding += most

    def take_crowding(self) -> float:
        """The highest ratio, since the last call, of what a consumer was sent to what it wants in one batch."""
        crowding, self._crowding = self._crowding, 0.0
        return crowding

    def barrier(self, barrier: Barrier) -> list[Passage]:
        """Emits a barrier to every consumer, behind the records emitted before it or, if unaligned, ahead of them.

        Returns its passages through the channels in which it overtakes records or may do so later. Inside of a worker
        it overtakes nothing: the consumer is notified of it, and finds the records in its own queue.
        """
        overtakable = self._overtakable and barrier.may_overtake
        passages = [channel.barrier(barrier, number, overtakable) for number, channel in enumerate(self._channels)]
        return [passage for passage in passages if passage is not None]

    def signal(self, signal: EndOfInput | StreamSignal) -> None:
        """Emits a signal to every consumer, behind the records emitted before it. Barriers are emitted by `barrier`."""
        if isinstance(signal, Watermark):
            self.watermark = signal.timestamp
        elif isinstance(signal, LatencyMarker):  # sent to all channels, their number would be quadratic
            self._marked = (self._marked + 1) % len(self._channels)
            self._channels[self._marked].signal(signal)
            return
        for channel in self._channels:
            channel.signal(signal)

    def has_room(self) -> bool:
        """Whether the task may emit more."""
        for channel in self._unbuffered:
            if channel.is_full:
                return False
        over = 0
        for channel in self._buffered:
            queued = len(channel.queue)
            if queued and channel.is_full:
                return False
            if queued > BUFFERS_PER_CHANNEL:
                over += queued - BUFFERS_PER_CHANNEL
        return over < self._shared

    def is_drained(self) -> bool:
        """Whether everything was sent to its consumers."""
        return all(channel.is_drained for channel in self._channels)

    def flush_due(self, now: float) -> float | None:
        """Flushes the channels whose buffer timeout has expired; returns when to call this again, or None."""
        timeout = self._timeout
        if timeout < 0:
            return None
        next_due: float | None = None
        for channel in self._buffered:
            due = channel.flush_due(now, timeout)
            if due is not None and (next_due is None or due < next_due):
                next_due = due
        return next_due
