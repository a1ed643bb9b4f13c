"""Barriers that overtake the records of their channel, on the sending side.

Owned by the worker's loop. Only exchanges whose records may be placed again under another parallelism are overtaken:
those that spread records over all consumers by their content or in turn. On the others a barrier keeps its place,
because a record in flight there belongs to one pair of subtasks, or, when broadcast, would come twice.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from msgspec import Struct, field

from millstream.core.jobs.plan import plan
from millstream.core.records.batches import Barrier
from millstream.taskmanager.worker.network.frames import Data

if TYPE_CHECKING:
    from millstream.taskmanager.worker.network.outputs import RemoteOutputChannel

_OVERTAKABLE = (
    plan.HashPartitioner, plan.RebalancePartitioner, plan.ShufflePartitioner, plan.GlobalPartitioner,
)  # fmt: skip


def is_overtakable(partitioner: plan.Partitioner) -> bool:
    """Whether barriers may overtake records on an edge."""
    return isinstance(partitioner, _OVERTAKABLE)


def overtake(queue: deque[Data], frame: Data, in_batch: bool) -> list[Data]:
    """Moves a queued frame to the front; returns the buffers that it passed, in their order.

    The rest of a batch that has been sent in part (`in_batch`) stays ahead of it, and so do earlier frames that have
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


class Passage(Struct):
    """The way of one barrier through one channel: still `frame` in its queue, or gone, with what it has overtaken."""

    channel: RemoteOutputChannel
    consumer: int
    frame: Data
    overtaken: list[Data] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        """Whether the barrier waits behind buffers; one with priority waits for the rest of a batch at most."""
        return not self.frame.priority and any(buffer is self.frame for buffer in self.channel.queue)

    def hurry(self, barrier: Barrier) -> None:
        """Lets the barrier overtake what is ahead of it, if it has not left."""
        if self.is_open:
            self.overtaken = self.channel.hurry(self.frame, barrier)
