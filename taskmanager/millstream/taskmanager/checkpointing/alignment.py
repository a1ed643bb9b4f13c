"""Barrier alignment of one task, as a pure machine.

Aligned (exactly-once): from the first barrier of a checkpoint until the last, channels that delivered theirs are
blocked, so that the snapshot holds the effect of exactly the records before the barrier. Not aligned (at-least-once):
nothing is blocked, and the snapshot is taken with the last barrier. Each barrier says which it is. A barrier of a newer
checkpoint abandons an older aligned one that is still incomplete: the channel that brought it would have been blocked
if it had delivered the older one, so it never will. For the same reason a checkpoint whose first barrier comes behind
one of a newer checkpoint is ignored, as are barriers of abandoned and completed checkpoints. A channel that ended
counts as having delivered every barrier to come.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from millstream.core.batches import Barrier

COORDINATOR = -1
"""Stands for a channel when the coordinator itself asks: channels that are still open are waited for to end."""


@dataclass(frozen=True, slots=True)
class Block:
    """Take nothing from this channel until `Unblock`."""

    channel: int


@dataclass(frozen=True, slots=True)
class Unblock:
    """All channels may be taken from again."""


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Every channel has delivered the barrier: snapshot, and send it on."""

    barrier: Barrier


@dataclass(frozen=True, slots=True)
class Abandon:
    """The checkpoint will not be taken by this task."""

    checkpoint_id: int
    reason: str


Action = Block | Unblock | TakeSnapshot | Abandon


class BarrierAligner:
    """The alignment of one task over all its input channels."""

    def __init__(self, channels: Iterable[int]) -> None:
        self._open = set(channels)
        self._pending: dict[int, tuple[Barrier, set[int]]] = {}
        self._newest_done = 0
        self._aborted: set[int] = set()

    @property
    def is_aligning(self) -> bool:
        """Whether a checkpoint is under way here."""
        return bool(self._pending)

    def received(self, channel: int, barrier: Barrier) -> list[Action]:
        """A channel delivered a barrier."""
        number = barrier.checkpoint_id
        if number <= self._newest_done or number in self._aborted:
            return []
        if number not in self._pending and any(newer > number for newer in self._pending):
            return []
        actions: list[Action] = []
        for older in [n for n, (pending, _) in self._pending.items() if n < number and pending.aligned]:
            actions += self._abandon(older, f"overtaken by checkpoint {number}")
            self._newest_done = max(self._newest_done, older)
        _, arrived = self._pending.setdefault(number, (barrier, set()))
        arrived.add(channel)
        if barrier.aligned and channel != COORDINATOR and self._open - arrived:
            actions.append(Block(channel))
        return actions + self._complete()

    def ended(self, channel: int) -> list[Action]:
        """A channel ended: it owes no barrier any more."""
        self._open.discard(channel)
        return self._complete()

    def aborted(self, checkpoint_id: int) -> list[Action]:
        """The coordinator gave a checkpoint up: its barriers count no more, also those still on their way."""
        if checkpoint_id <= self._newest_done:
            return []
        self._aborted.add(checkpoint_id)
        return self._abandon(checkpoint_id, "aborted") if checkpoint_id in self._pending else []

    def _abandon(self, number: int, reason: str) -> list[Action]:
        barrier, _ = self._pending.pop(number)
        return [Unblock(), Abandon(number, reason)] if barrier.aligned else [Abandon(number, reason)]

    def _complete(self) -> list[Action]:
        actions: list[Action] = []
        for number in sorted(self._pending):
            barrier, arrived = self._pending[number]
            if self._open - arrived:
                break
            del self._pending[number]
            self._newest_done = number
            self._aborted = {aborted for aborted in self._aborted if aborted > number}
            if barrier.aligned:
                actions.append(Unblock())
            actions.append(TakeSnapshot(barrier))
        return actions
