"""The receiving side of a task: channels, and the gate that reads from them in turn.

Owned by the worker's loop. A local channel holds elements by reference; a remote one holds buffers, which are decoded
when the task takes them, so that credit is returned only when there is room again; the rest of a partly taken buffer
comes first. A barrier is announced when it arrives, and taken in order: its position in the queue divides the channel,
whether or not the task waits until it is reached.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, assert_never

from millstream.core.jobs.ids import ChannelId
from millstream.core.overriding import override
from millstream.core.records.batches import (
    Barrier,
    Batch,
    Element,
    EndOfInput,
    RowBatch,
    Signal,
    StreamSignal,
)
from millstream.taskmanager.worker.network.codecs import COLUMNS, PICKLED, Codec, ElementCodec, PickledRows, decompress
from millstream.taskmanager.worker.network.credit import CreditReceiver, CreditViolationError
from millstream.taskmanager.worker.network.debloating import SENDING, Allowance, Debloater
from millstream.taskmanager.worker.network.frames import Data
from millstream.taskmanager.worker.network.recording import Recording
from millstream.taskmanager.worker.network.signals import UnknownSignalError, decode_signal, is_signal

if TYPE_CHECKING:
    from millstream.taskmanager.worker.tasks.hot_keys import KeySketch

_CODECS = frozenset(Codec)


class ProtocolError(Exception):
    """A peer sent an invalid frame: its stream has to be closed."""


class InputChannel:
    """The elements of one producer for one task: the base of all kinds.

    What has arrived is in its `queue`, in the form of the kind, from which `take` makes elements.
    """

    capacity: ClassVar[int] = 0
    """How many elements its queue holds; 0 if that is a matter of the gate's credit."""
    uses_credit: ClassVar[bool] = False
    """Whether its producer sends against credit that the gate grants."""
    peer: str = ""
    """The address of the worker that it comes from; empty if it comes from none, or from this one."""

    __slots__ = (
        "announced", "blocked", "channel_id", "ended", "has_all", "name", "pressing", "producer_subtask", "queue",
        "recording",
    )  # fmt: skip

    def __init__(self, channel_id: ChannelId, name: str) -> None:
        self.channel_id = channel_id
        self.name = name
        self.queue: deque[Any] = deque()
        self.ended = False
        """Whether the end of the input was taken."""
        self.has_all = False
        """Whether the end of the input has arrived, taken or still queued: the producer sends nothing more."""
        self.blocked = False
        """Whether the gate takes nothing from the channel for now.

        Data that arrives is queued, and credit is still granted.
        """
        self.producer_subtask = 0
        self.recording: Recording | None = None
        """Also receives what arrives, while an unaligned checkpoint waits for the channel's barrier."""
        self.announced: list[Barrier] = []
        """Barriers that have arrived since the last call; one list for all of its channels."""
        self.pressing: set[int] = set()
        """The checkpoints whose barriers wait here or at the sender, if others may have overtaken records elsewhere."""

    def take(self, gate: InputGate, like: Batch | None) -> Element | None:
        """Removes the next element of a queue that is not empty.

        Returns None if it has not arrived as a whole, or if a batch of the kind of `like` was requested and it is
        something else.
        """
        raise NotImplementedError

    def limit_to(self, rows: int) -> None:
        """Requests batches of at most so many rows from a producer that does not receive the limit with its credit."""

    def announce(self, signal: Signal) -> None:
        """A signal has arrived, behind the queued elements."""
        match signal:
            case EndOfInput():
                self.has_all = True
            case Barrier():
                self.announced.append(signal)
                if signal.may_overtake:
                    self.pressing.add(signal.checkpoint_id)
            case StreamSignal():
                pass  # not needed before it is taken
            case _:
                assert_never(signal)

    def passed(self, barrier: Barrier) -> None:
        """The barrier was taken; earlier ones will not be."""
        self.pressing = {number for number in self.pressing if number > barrier.checkpoint_id}


class LocalInputChannel(InputChannel):
    """The channel from a task of the same worker."""

    __slots__ = ("limit",)
    capacity = CAPACITY = 8  # elements; a batch is at most execution.batch.max-rows rows
    PLACES = 2 + SENDING  # batches of `limit` rows

    def __init__(self, channel_id: ChannelId, name: str, limit: int = 0) -> None:
        super().__init__(channel_id, name)
        self.limit = limit
        """The most rows that a batch should have for now; 0: unlimited."""

    @override
    def take(self, gate: InputGate, like: Batch | None) -> Element | None:
        queue = self.queue
        if like is not None and type(queue[0]) is not type(like):
            return None
        return queue.popleft()  # type: ignore[no-any-return]  # it holds elements

    @override
    def limit_to(self, rows: int) -> None:
        self.limit = rows

    def put(self, element: Element) -> None:
        """Called by the producer; signals are announced."""
        self.queue.append(element)
        if self.recording is not None:
            self.recording.add(element)
        if isinstance(element, Signal):
            self.announce(element)


class RemoteInputChannel(InputChannel):
    """The channel from a task of another worker."""

    __slots__ = ("_incomplete", "_sequence", "peer")
    uses_credit = True

    def __init__(self, channel_id: ChannelId, name: str, peer: str) -> None:
        super().__init__(channel_id, name)
        self.peer = peer
        self._sequence = 0
        self._incomplete = 0

    def arrived(self, data: Data) -> None:
        """Queues a buffer. Raises ProtocolError if it is out of sequence."""
        if data.sequence != self._sequence:
            raise ProtocolError(
                f"buffer {data.sequence} on channel {self.channel_id} instead of {self._sequence}"
            )
        self._sequence += 1
        self.queue.append(data)
        self._incomplete = self._incomplete + 1 if data.more else 0
        if self.recording is not None:
            self.recording.add(data)

    @property
    def is_in_batch(self) -> bool:
        """Whether the last batch is incomplete."""
        return self._incomplete > 0

    @override
    def take(self, gate: InputGate, like: Batch | None) -> Element | None:
        queue = self.queue
        if len(queue) <= self._incomplete or (like is not None and not _is_alike(like, queue[0])):
            return None
        first: Data | PickledRows = queue.popleft()
        if isinstance(first, PickledRows):
            return self._next_of(first)
        codec, payload = self._received(gate, first)
        if codec in PICKLED:
            return self._next_of(PickledRows(codec, payload))
        return gate.codec.decode(codec, payload)

    def _next_of(self, pickled: PickledRows) -> RowBatch:
        batch = pickled.next()
        if not pickled.is_over:
            self.queue.appendleft(pickled)
        return batch

    def _received(self, gate: InputGate, data: Data) -> tuple[int, bytes]:
        """The codec and the payload of an element that starts in this buffer."""
        payload = data.payload
        if data.more:
            parts = [payload]
            while data.more:
                data = self.queue.popleft()
                parts.append(data.payload)
            payload = b"".join(parts)
        gate.bytes_in += len(payload)
        if not data.priority:
            gate.consumed(self)
        return data.codec, decompress(payload) if data.compressed else payload


class InputGate:
    """All channels of one edge into a task; `input_index` is the task's input that the edge leads to.

    `edge` is the operator that emits these records, and the name of the edge. On an `overtakable` edge, an unaligned
    checkpoint takes what is in flight as part of that operator's state.
    """

    def __init__(
        self,
        channels: list[InputChannel],
        codec: ElementCodec,
        credit: CreditReceiver,
        grant: Callable[[InputChannel, int, int], None],
        input_index: int = 0,
        edge: tuple[str, str] = ("", "0"),
        overtakable: bool = False,
        debloater: Debloater | None = None,
        keys: KeySketch | None = None,
    ) -> None:
        self.input_index = input_index
        self.keys = keys
        """Tracks the most frequent keys; None: not requested."""
        self.edge = edge
        self.overtakable = overtakable
        self._announced: list[Barrier] = []
        for channel in channels:
            self._announced += channel.announced  # a local producer may have created it before
            channel.announced = self._announced
        self._channels = channels
        self._credited: dict[int, InputChannel] = {c.channel_id: c for c in channels if c.uses_credit}
        self.codec = codec
        """For channels that receive encoded elements."""
        self._credit = credit
        self._grant = grant
        self._debloater = debloater
        self._limit = 0
        self._turn = 0
        self._open = len(channels)
        self.bytes_in = 0

    def start(self) -> None:
        """Grants the first credit."""
        if self._debloater is not None:
            self._allow(self._debloater.allowance)
        else:
            self._send(self._credit.start())

    @property
    def channels(self) -> list[InputChannel]:
        """The channels in the order of the deployment."""
        return self._channels

    @property
    def queued(self) -> int:
        """The number of buffers and batches that wait for the task."""
        return sum(len(channel.queue) for channel in self._channels)

    @property
    def capacity(self) -> int:
        """The number of buffers and batches that fit."""
        return self._credit.capacity + sum(channel.capacity for channel in self._channels)

    @property
    def all_ended(self) -> bool:
        """Whether every channel has ended."""
        return self._open == 0

    def arrived(self, channel: RemoteInputChannel, data: Data) -> None:
        """A buffer was received from the network."""
        if channel.has_all:
            raise ProtocolError(f"a buffer after the end of channel {channel.channel_id}")
        signal = _signal_of(channel, data)
        if data.priority:
            if not isinstance(signal, Barrier):
                raise ProtocolError(f"priority on channel {channel.channel_id} for no barrier")
            channel.arrived(data)
        else:
            try:
                grants = self._credit.arrived(channel.channel_id, data.backlog)
            except CreditViolationError as error:
                raise ProtocolError(str(error)) from None
            channel.arrived(data)
            self._send(grants)
        if signal is not None:
            channel.announce(signal)
        if data.more:
            # A batch that is larger than the channel's credit must be received completely: its fragments do not wait
            # for the task.
            self.consumed(channel)

    def consumed(self, channel: InputChannel) -> None:
        """A buffer of the channel was taken: grants the credit for another one."""
        self._send(self._credit.consumed(channel.channel_id))

    def announced(self, channel: InputChannel, backlog: int, pressing: int) -> None:
        """A sender reported its backlog, and the checkpoint of an urgent barrier in it."""
        if pressing:
            channel.pressing.add(pressing)
        self._send(self._credit.announced(channel.channel_id, backlog))

    def stepped(self, rows: int, seconds: float, wanted: int) -> None:
        """The task has processed rows of this gate: see `Debloater.stepped`."""
        allowance = self._debloater.stepped(rows, seconds, wanted) if self._debloater is not None else None
        if allowance is not None:
            self._allow(allowance)

    def take_announced(self) -> list[Barrier]:
        """The barriers that have arrived since the last call; some may have been taken already."""
        announced = self._announced[:]
        self._announced.clear()
        return announced

    def record(self, channel: InputChannel, checkpoint_id: int, begun: Batch | None) -> Recording:
        """Records the channel up to the checkpoint's barrier: what is `begun`, what is queued, and what arrives."""
        recording = Recording(checkpoint_id, self.codec)
        for item in [*([] if begun is None else [begun]), *channel.queue]:
            recording.add(item)
        channel.recording = None if recording.is_complete else recording
        return recording

    @property
    def is_pressed(self) -> bool:
        """Whether an urgent barrier keeps its position here, while others of its checkpoint may overtake records.

        Those may block the very tasks that the consumer of this gate waits for: it must not wait for them.
        """
        return not self.overtakable and any(channel.pressing for channel in self._channels)

    def poll(self, like: Batch | None = None, pressed: bool = False) -> tuple[InputChannel, Element] | None:
        """The next element, channels taking turns; None if there is none, or none of the requested kind of batch.

        With `pressed`, only from the channels with an urgent barrier.
        """
        channels = self._channels
        count = len(channels)
        for offset in range(count):
            channel = channels[(self._turn + offset) % count]
            if channel.blocked or not channel.queue or (pressed and (self.overtakable or not channel.pressing)):
                continue
            element = channel.take(self, like)
            if element is not None:
                self._turn = (self._turn + offset + 1) % count
                return channel, element
        return None

    def end(self, channel: InputChannel) -> None:
        """The channel's end of input was taken."""
        channel.ended = channel.has_all = True
        self._open -= 1
        if channel.uses_credit:
            self._send(self._credit.closed(channel.channel_id))

    def _allow(self, allowance: Allowance) -> None:
        self._limit = allowance.rows
        for channel in self._channels:
            channel.limit_to(allowance.rows)
        grants, credited = dict(self._credit.resize(allowance.floating)), self._credited.items()
        self._send([(number, grants.get(number, 0)) for number, channel in credited if not channel.has_all])

    def _send(self, grants: Iterable[tuple[int, int]]) -> None:
        for channel_id, buffers in grants:
            self._grant(self._credited[channel_id], buffers, self._limit)


def _is_alike(batch: Batch, data: Data | PickledRows) -> bool:
    return not is_signal(data.codec) and (data.codec in COLUMNS) == batch.in_columns


def _signal_of(channel: RemoteInputChannel, data: Data) -> Signal | None:
    """The signal in a buffer; None for a batch, or a part of one."""
    if data.codec in _CODECS:
        return None
    number = channel.channel_id
    if not is_signal(data.codec):
        raise ProtocolError(f"a buffer of the unknown codec {data.codec} on channel {number}")
    if data.more or data.compressed or channel.is_in_batch:
        raise ProtocolError(f"a signal on channel {number} in parts, compressed, or within a batch")
    try:
        return decode_signal(data.codec, data.payload)
    except UnknownSignalError as error:
        raise ProtocolError(f"{error}, on channel {number}") from error
