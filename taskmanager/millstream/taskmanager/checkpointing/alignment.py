"""Barrier alignment of one task, as a pure machine.

Exactly-once: from the first barrier of a checkpoint until the last, channels that delivered theirs are blocked, so that
the snapshot holds the effect of exactly the records before the barrier. At-least-once: nothing is blocked, and the
snapshot is taken with the last barrier. A barrier of a newer checkpoint abandons an older one that is still incomplete
in exactly-once mode, and barriers of abandoned or completed checkpoints are ignored. A channel that ended counts as
having delivered every barrier to come.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from millstream.core.batches import Barrier


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

    def __init__(self, channels: Iterable[int], exactly_once: bool) -> None:
        self._open = set(channels)
        self._exactly_once = exactly_once
        self._pending: dict[int, tuple[Barrier, set[int]]] = {}
        self._newest_done = 0

    @property
    def is_aligning(self) -> bool:
        """Whether a checkpoint is under way here."""
        return bool(self._pending)

    def received(self, channel: int, barrier: Barrier) -> list[Action]:
        """A channel delivered a barrier."""
        number = barrier.checkpoint_id
        if number <= self._newest_done:
            return []
        actions: list[Action] = []
        if self._exactly_once:
            for older in [n for n in self._pending if n < number]:
                actions += self._abandon(older, f"overtaken by checkpoint {number}")
        _, arrived = self._pending.setdefault(number, (barrier, set()))
        arrived.add(channel)
        if self._exactly_once and self._open - arrived:
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
        self._newest_done = checkpoint_id
        actions: list[Action] = []
        for number in [n for n in self._pending if n <= checkpoint_id]:
            actions += self._abandon(number, "aborted")
        return actions

    def _abandon(self, number: int, reason: str) -> list[Action]:
        del self._pending[number]
        self._newest_done = max(self._newest_done, number)
        return [Unblock(), Abandon(number, reason)] if self._exactly_once else [Abandon(number, reason)]

    def _complete(self) -> list[Action]:
        actions: list[Action] = []
        for number in sorted(self._pending):
            barrier, arrived = self._pending[number]
            if self._open - arrived:
                break
            del self._pending[number]
            self._newest_done = number
            if self._exactly_once:
                actions.append(Unblock())
            actions.append(TakeSnapshot(barrier))
        return actions
