"""What a task's output needs of a channel, whatever its consumer: another task, here or elsewhere, or a file.

Owned by the worker's loop.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import ClassVar

from millstream.core.jobs.ids import ChannelId
from millstream.core.records.batches import Barrier, Batch, Signal
from millstream.taskmanager.worker.network.overtaking import Passage


class OutputChannel:
    """The channel to one consumer: the base of all kinds, whose defaults suit a channel that buffers nothing.

    A kind of channel declares with `is_buffered` which of two contracts it follows. A buffered one gathers records,
    encodes them, and queues buffers: these count against the pool that the channels of an edge share, and `flush_due`
    is called for the rest. The producer waits for a channel that is not buffered only while it `is_full`.
    """

    __slots__ = ("channel_id", "name", "queue")

    by_reference: ClassVar[bool] = False
    """Whether the consumer receives the records themselves, and may change them."""
    is_buffered: ClassVar[bool] = False
    """Whether what it takes is gathered and queued in buffers."""
    peer: str = ""
    """The address of the worker that it leads to; empty if it leads to none, or to this one."""

    def __init__(self, channel_id: ChannelId, name: str, queue: Sized = ()) -> None:
        self.channel_id = channel_id
        self.name = name
        self.queue = queue
        """What waits for its consumer: of a buffered channel, the buffers that are to be sent."""

    @property
    def limit(self) -> int:
        """The most rows of a batch that the consumer wants for now; 0: unlimited."""
        raise NotImplementedError

    def emit(self, batch: Batch) -> None:
        """Takes a batch; never blocks."""
        raise NotImplementedError

    def signal(self, signal: Signal) -> None:
        """Takes a signal, behind everything emitted before it."""
        raise NotImplementedError

    def barrier(self, barrier: Barrier, consumer: int, overtakable: bool) -> Passage | None:
        """Takes a barrier: `consumer` is the number of the channel, `overtakable` whether it may overtake records here.

        Returns its passage, if it overtakes records or may do so later.
        """
        self.signal(barrier)
        return None

    @property
    def is_full(self) -> bool:
        """Whether the producer has to wait, whatever its other channels have room for."""
        return False

    @property
    def is_drained(self) -> bool:
        """Whether nothing is left to be sent: before that, the producer must not go."""
        return True

    def flush_due(self, now: float, timeout: float) -> float | None:
        """Flushes records gathered for longer than `timeout`; returns when to call this again, or None."""
        return None

    @property
    def bytes_out(self) -> int:
        """The number of encoded bytes."""
        return 0

    @property
    def buffers_out(self) -> int:
        """The number of buffers sent."""
        return 0

    @property
    def unused_credit(self) -> int:
        """How many buffers its consumer has room for."""
        return 0
