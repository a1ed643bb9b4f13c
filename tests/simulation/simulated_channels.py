"""The channels between simulated tasks: records, barriers and ends arrive in the order in which they were sent.

What a worker has sent last may be lost with it. A consumer keeps what has arrived in a queue for each of its channels,
until it takes it. Of an unaligned checkpoint, the records that its barrier overtakes are recorded here.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from inputs import Row, key_group
from ledger import Ledger
from simulated_disk import SimulatedDisk
from world import World

from millstream.core.jobs.failure_kinds import FailureKind
from millstream.core.keys.key_groups import subtask_of
from millstream.core.messages.deployment import InputChannel, ResultPartition
from millstream.core.records.batches import Barrier, EndOfInput

if TYPE_CHECKING:
    from simulated_tasks import SimulatedTask

Element = tuple[Row, ...] | Barrier | EndOfInput
Channel = tuple[str, int]
"""The address of the worker that consumes it, and its id: no other has both."""
_LATENCIES = (0.01, 0.1, 0.4, 1.0)


class Recording:
    """What is in flight on one channel for one unaligned checkpoint, up to its barrier."""

    def __init__(self, checkpoint_id: int) -> None:
        self.checkpoint_id = checkpoint_id
        self.batches: list[tuple[Row, ...]] = []
        self.is_complete = False
        self.is_in_vain = False

    def add(self, element: Element) -> None:
        if self.is_complete or self.is_in_vain:
            return
        match element:
            case Barrier(number):
                self.is_complete = number == self.checkpoint_id
                self.is_in_vain = number > self.checkpoint_id
            case EndOfInput():
                self.is_complete = True
            case rows:
                self.batches.append(rows)


class Input:
    """A channel, as its consumer has it."""

    def __init__(self, channel: InputChannel, address: str, spec: bytes) -> None:
        strategy, _, self.producer = spec.decode().partition(":")
        self.channel_id = channel.channel_id
        self.address: Channel = (address, channel.channel_id)
        self.producer_subtask = channel.producer_subtask
        self.may_be_overtaken = strategy == "HASH"
        self.queue: deque[Element] = deque()
        self.is_blocked = False
        self.has_ended = False
        self.recordings: list[Recording] = []

    @property
    def is_ready(self) -> bool:
        return bool(self.queue) and not self.is_blocked

    def arrived(self, element: Element) -> None:
        self.queue.append(element)
        for recording in self.recordings:
            recording.add(element)

    def record(self, checkpoint_id: int) -> Recording:
        """From the next element that is taken on."""
        recording = Recording(checkpoint_id)
        for element in self.queue:
            recording.add(element)
        self.recordings = [*(r for r in self.recordings if not r.is_complete and not r.is_in_vain), recording]
        return recording


class Link:
    """A channel, as its producer has it."""

    def __init__(self, channel: Channel, latency: float) -> None:
        self.channel = channel
        self.latency = latency
        self.sent: deque[Element] = deque()


class Output:
    """All channels to one vertex."""

    def __init__(self, partition: ResultPartition, world: World) -> None:
        latencies = world.random.choices(_LATENCIES, k=len(partition.channels))
        self.links = [
            Link((c.consumer_address, c.channel_id), latency * world.scale)
            for c, latency in zip(partition.channels, latencies, strict=True)
        ]
        self._is_keyed = partition.spec.startswith(b"HASH")
        self._most = partition.max_parallelism

    def place(self, row: Row) -> int:
        """Which channel the record belongs to: that of its key, or any."""
        number, key = len(self.links), row.token.key
        return subtask_of(key_group(key, self._most), self._most, number) if self._is_keyed else key % number


class DataPlane:
    """Which task consumes which channel, and what came before it did; and what tasks write outside of it."""

    def __init__(self, world: World, disk: SimulatedDisk, ledger: Ledger, work: tuple[float, ...]) -> None:
        self.disk = disk
        self.ledger = ledger
        self.work = work
        self._world = world
        self._inputs: dict[Channel, tuple[Input, SimulatedTask]] = {}
        self._early: dict[Channel, list[Element]] = {}

    def register(self, source: Input, consumer: SimulatedTask) -> None:
        self._inputs[source.address] = source, consumer
        for element in self._early.pop(source.address, []):
            source.arrived(element)

    def send(self, producer: SimulatedTask, link: Link, element: Element) -> None:
        link.sent.append(element)
        producer.worker.later(link.latency, self._arrived, link)

    def _arrived(self, link: Link) -> None:
        element = link.sent.popleft()
        if link.channel in self._inputs:
            source, consumer = self._inputs[link.channel]
            source.arrived(element)
            consumer.received(source, element)
        else:
            self._early.setdefault(link.channel, []).append(element)

    def lost(self, producer: SimulatedTask) -> None:
        """With its worker. Its consumers may notice that before the task manager has reported it."""
        for output in producer.outputs:
            for link in output.links:
                if link.channel in self._inputs and self._world.mishap(0.5):
                    consumer = self._inputs[link.channel][1]
                    lost = "PeerLostError: the connection broke"
                    consumer.worker.later(0.05, consumer.fail, lost, FailureKind.PEER_LOST)
