"""The barriers of one task, as a pure machine: which channels are blocked, and when the snapshot is taken.

Aligned (exactly-once): from the first barrier of a checkpoint until the last, channels that have delivered theirs are
blocked, so that the snapshot contains the effect of exactly the records before the barrier. Not aligned
(at-least-once): nothing is blocked, and the snapshot is taken with the last barrier. Each barrier carries its mode. A
barrier of a newer checkpoint abandons an older aligned one that is incomplete: its channel would have been blocked if
it had delivered the older barrier, so it never will deliver it. For the same reason a checkpoint whose first barrier
arrives behind one of a newer checkpoint is ignored, as are barriers of abandoned and completed checkpoints. In every
mode, a checkpoint that completes abandons the older ones, so that snapshots are taken in the order of their ids. A
channel that has ended counts as having delivered every future barrier.

Unaligned (exactly-once without waiting): the snapshot is taken as soon as a barrier is known, which may still be behind
records in its queue. The channels that have not delivered theirs are recorded, from the next record to be taken until
their barrier or their end arrives, and the checkpoint contains those records too. Channels that must not be recorded
are aligned as usual, and until then the others are blocked behind their barriers. An aligned barrier with a timeout
makes its checkpoint unaligned when the timeout expires.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field
from msgspec.structs import replace

from millstream.core.jobs.barriers import Alignment
from millstream.core.records.batches import Barrier

COORDINATOR = -1
"""Identifies the coordinator as the origin of a trigger: the task then waits for its open channels to end."""


class Block(Struct, frozen=True):
    """Take nothing from this channel until `Unblock`."""

    channel: int


class Unblock(Struct, frozen=True):
    """All channels are unblocked."""


class TakeSnapshot(Struct, frozen=True):
    """Take the snapshot, and emit the barrier. In-flight data of the `recorded` channels is part of the checkpoint."""

    barrier: Barrier
    recorded: frozenset[int] = frozenset()


class AllDelivered(Struct, frozen=True):
    """Every recorded channel of the checkpoint has delivered its barrier or its end."""

    checkpoint_id: int


class Abandon(Struct, frozen=True):
    """The task will not take the checkpoint, or not complete it."""

    checkpoint_id: int
    reason: str


Action = Block | Unblock | TakeSnapshot | AllDelivered | Abandon


class _Pending(Struct):
    barrier: Barrier
    arrived: set[int] = field(default_factory=set)

    @property
    def turns_at(self) -> int | None:
        """When it becomes unaligned, by the coordinator's clock."""
        timeout = self.barrier.aligned_timeout_ms
        return None if timeout is None or self.barrier.unaligned else self.barrier.timestamp + timeout


class BarrierAligner:
    """The alignment of one task over all its input channels, of which only the `overtakable` may be recorded."""

    def __init__(self, channels: Iterable[int], overtakable: Iterable[int] = ()) -> None:
        self._open = set(channels)
        self._overtakable = frozenset(overtakable)
        self._pending: dict[int, _Pending] = {}
        self._recorded: dict[int, set[int]] = {}
        self._newest_done = 0
        self._aborted: set[int] = set()

    @property
    def is_aligning(self) -> bool:
        """Whether the snapshot of a checkpoint in progress is still to be taken."""
        return bool(self._pending)

    @property
    def next_timeout(self) -> int | None:
        """When `tick` has to be called."""
        return min((at for p in self._pending.values() if (at := p.turns_at) is not None), default=None)

    def announced(self, barrier: Barrier) -> list[Action]:
        """A barrier has arrived behind records that were not taken yet."""
        if not barrier.may_overtake:
            return []
        return [] if self._join(barrier) is None else self._complete()

    def received(self, channel: int, barrier: Barrier) -> list[Action]:
        """A barrier was received on a channel: everything before it was taken."""
        number = barrier.checkpoint_id
        pending = self._join(barrier)
        if pending is None:
            return self._overtake(number) if barrier.aligned and number in self._aborted else []
        actions = self._overtake(number)
        pending.arrived.add(channel)
        if barrier.aligned and channel != COORDINATOR and self._missing(pending):
            actions.append(Block(channel))
        return actions + self._complete()

    def delivered(self, channel: int, checkpoint_id: int) -> list[Action]:
        """The barrier, or the end, of a recorded channel has arrived."""
        waiting = self._recorded.get(checkpoint_id, set())
        if channel not in waiting:
            return []
        waiting.remove(channel)
        if waiting:
            return []
        del self._recorded[checkpoint_id]
        return [AllDelivered(checkpoint_id)]

    def ended(self, channel: int) -> list[Action]:
        """A channel ended: it delivers no more barriers. Its recording is complete."""
        self._open.discard(channel)
        return self._complete()

    def tick(self, now_ms: int) -> list[Action]:
        """Makes aligned checkpoints unaligned whose timeout has expired."""
        for pending in self._pending.values():
            if (at := pending.turns_at) is not None and at <= now_ms:
                pending.barrier = replace(pending.barrier, alignment=Alignment.UNALIGNED)
        return self._complete()

    def aborted(self, checkpoint_id: int) -> list[Action]:
        """The coordinator aborted a checkpoint: its barriers are ignored, including those in flight."""
        if self._recorded.pop(checkpoint_id, None) is not None:
            return [Abandon(checkpoint_id, "aborted")]
        if checkpoint_id <= self._newest_done:
            return []
        self._aborted.add(checkpoint_id)
        return self._abandon(checkpoint_id, "aborted") if checkpoint_id in self._pending else []

    def _join(self, barrier: Barrier) -> _Pending | None:
        """The checkpoint that the barrier belongs to; None if it is ignored."""
        number = barrier.checkpoint_id
        if number <= self._newest_done or number in self._aborted:
            return None
        if number not in self._pending and any(n > number and p.arrived for n, p in self._pending.items()):
            return None
        pending = self._pending.setdefault(number, _Pending(barrier))
        if barrier.unaligned:
            pending.barrier = barrier
        return pending

    def _overtake(self, number: int) -> list[Action]:
        """A barrier arrived on a channel without those of older checkpoints: these were aborted upstream."""
        actions: list[Action] = []
        for older in [n for n, p in self._pending.items() if n < number and p.barrier.aligned]:
            actions += self._abandon(older, f"overtaken by checkpoint {number}")
            self._newest_done = max(self._newest_done, older)
        if number in self._aborted and not any(n < number for n in self._pending):
            self._newest_done = max(self._newest_done, number)
        return actions

    def _missing(self, pending: _Pending) -> set[int]:
        return self._open - pending.arrived

    def _abandon(self, number: int, reason: str) -> list[Action]:
        pending = self._pending.pop(number)
        blocks = pending.barrier.aligned and pending.arrived  # never those of two checkpoints at a time
        return [Unblock(), Abandon(number, reason)] if blocks else [Abandon(number, reason)]

    def _complete(self) -> list[Action]:
        actions: list[Action] = []
        for number in sorted(self._pending):
            pending = self._pending[number]
            missing = self._missing(pending)
            if missing and not (pending.barrier.unaligned and missing <= self._overtakable):
                continue
            reason = f"overtaken by checkpoint {number}"
            if missing:  # a channel is recorded for one checkpoint at a time
                actions += [Abandon(older, reason) for older in self._recorded]
                self._recorded = {number: missing}
            for older in [older for older in self._pending if older < number]:
                actions += self._abandon(older, reason)
            del self._pending[number]
            self._newest_done = number
            self._aborted = {aborted for aborted in self._aborted if aborted > number}
            if pending.barrier.aligned:
                actions.append(Unblock())
            actions.append(TakeSnapshot(pending.barrier, frozenset(missing)))
        return actions
