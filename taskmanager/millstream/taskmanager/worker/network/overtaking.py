"""Barriers that overtake the records of their channel, on the sending side.

Owned by the worker's loop. Barriers overtake records only on exchanges whose records can be redistributed under another
parallelism: those that partition records over all consumers by their content or round-robin. On the others a barrier
keeps its position, because a record in flight there belongs to one pair of subtasks, or, when broadcast, would be
duplicated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct, field

from millstream.core.jobs.plan import plan
from millstream.core.records.batches import Barrier
from millstream.taskmanager.worker.network.frames import Data

_OVERTAKABLE = (
    plan.HashPartitioner, plan.RebalancePartitioner, plan.ShufflePartitioner, plan.GlobalPartitioner,
)  # fmt: skip


def is_overtakable(partitioner: plan.Partitioner) -> bool:
    """Whether barriers may overtake records on an edge."""
    return isinstance(partitioner, _OVERTAKABLE)


def overtake(queue: deque[Data], frame: Data, in_batch: bool) -> list[Data]:
    """Moves a queued frame to the front; returns the buffers that it overtook, in order.

    The rest of a batch that was sent in part (`in_batch`) stays ahead of it, and so do earlier frames that have
    overtaken others.
    """
    buffers = list(queue)
    end = next(index for index, buffer in enumerate(buffers) if buffer is frame)
    start = 0
    if in_batch:
        start = next(index for index, buffer in enumerate(buffers) if not buffer.more) + 1
    while buffers[start].priority:
        start += 1
    passed = buffers[start:end]
    queue.clear()
    queue.extend([*buffers[:start], frame, *passed, *buffers[end + 1 :]])
    return passed


class OvertakableChannel(Protocol):
    """A channel in which a queued barrier can overtake buffers."""

    @property
    def queue(self) -> Iterable[Data]:
        """The buffers that are to be sent."""

    def hurry(self, frame: Data, barrier: Barrier) -> list[Data]:
        """Lets a queued barrier overtake the buffers ahead of it; returns those."""


class Passage(Struct):
    """The passage of one barrier through one channel: queued as `frame`, or sent; with the buffers it overtook."""

    channel: OvertakableChannel
    consumer: int
    frame: Data
    overtaken: list[Data] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        """Whether the barrier waits behind buffers; one with priority waits at most for the rest of a batch."""
        return not self.frame.priority and any(buffer is self.frame for buffer in self.channel.queue)

    def hurry(self, barrier: Barrier) -> None:
        """Lets the barrier overtake the buffers ahead of it, if it is still queued."""
        if self.is_open:
            self.overtaken = self.channel.hurry(self.frame, barrier)
