"""The pending checkpoints, and the aborted ones whose states are still to be discarded. Owned by the coordinator.

Accounts for every state that a task acknowledged: it belongs to a pending checkpoint, to a completed one, or is
discarded once. Only one pointer is stored at a time, the oldest first.
"""

from __future__ import annotations

from collections.abc import Iterator

from millstream.jobmanager.checkpoints import events as ev
from millstream.jobmanager.checkpoints.model import CheckpointId
from millstream.jobmanager.checkpoints.pending import EndedCheckpoints, PendingCheckpoint, Phase


class CheckpointsUnderWay:
    """The pending checkpoints, ordered by id."""

    def __init__(self) -> None:
        self._pending: dict[CheckpointId, PendingCheckpoint] = {}
        self._abandoned: dict[CheckpointId, PendingCheckpoint] = {}
        self._ended = EndedCheckpoints()

    def __len__(self) -> int:
        return len(self._pending)

    def __iter__(self) -> Iterator[PendingCheckpoint]:
        """Iterates over a copy, oldest first; checkpoints may end during the iteration."""
        return iter(tuple(self._pending.values()))

    def add(self, pending: PendingCheckpoint) -> None:
        """Adds a checkpoint that has been started."""
        self._pending[pending.id] = pending

    def get(self, checkpoint_id: CheckpointId) -> PendingCheckpoint | None:
        """Returns the checkpoint if it is pending."""
        return self._pending.get(checkpoint_id)

    def in_phase(self, checkpoint_id: CheckpointId, phase: Phase) -> PendingCheckpoint | None:
        """Returns the checkpoint if it is pending and in this phase."""
        pending = self._pending.get(checkpoint_id)
        return pending if pending is not None and pending.phase is phase else None

    @property
    def settled(self) -> bool:
        """Whether no pointer is being stored."""
        return all(pending.phase is not Phase.STORING for pending in self)

    def deadlines(self) -> list[int]:
        """The times at which pending checkpoints expire."""
        return [pending.deadline_ms for pending in self if pending.phase is not Phase.STORING]

    def expired(self, now_ms: int) -> list[PendingCheckpoint]:
        """Returns the checkpoints that have expired. One whose pointer is being stored cannot be aborted."""
        return [p for p in self if p.deadline_ms <= now_ms and p.phase is not Phase.STORING]

    def stray(self, acknowledgement: ev.Acknowledged) -> list[ev.Effect]:
        """Discards, once, a state that belongs to no checkpoint."""
        checkpoint_id, attempt, state = (
            acknowledgement.checkpoint_id,
            acknowledgement.attempt_id,
            acknowledgement.state,
        )
        pending = self._pending.get(checkpoint_id)
        is_stray = pending.is_stray(attempt) if pending else self._ended.is_stray(checkpoint_id, attempt)
        return [ev.DiscardState(checkpoint_id, (state,))] if is_stray and state is not None else []

    def store_next(self) -> list[ev.Effect]:
        """Stores the next pointer, if there is one and none is being stored."""
        for pending in self:
            if pending.phase is Phase.WRITTEN and self.settled:
                assert pending.pointer is not None
                pending.phase = Phase.STORING
                return [ev.StorePointer(pending.id, pending.pointer)]
        return []

    def end(self, pending: PendingCheckpoint) -> None:
        """Removes a checkpoint that has completed or is about to be discarded."""
        del self._pending[pending.id]
        self._ended.add(pending)

    def discard(self, pending: PendingCheckpoint) -> list[ev.Effect]:
        """Discards what an aborted checkpoint has collected; if its metadata is being written, after the write."""
        match pending.phase:
            case Phase.PREPARING:
                return []  # no task has been triggered yet
            case Phase.WRITING:
                self._abandoned[pending.id] = pending
                return []
            case _:
                return [ev.DiscardState(pending.id, pending.states(), pending.pointer)]

    def discard_abandoned(self, checkpoint_id: CheckpointId, pointer: str | None = None) -> list[ev.Effect]:
        """Discards a checkpoint that was aborted while its metadata was being written, metadata included."""
        pending = self._abandoned.pop(checkpoint_id, None)
        return [ev.DiscardState(checkpoint_id, pending.states(), pointer)] if pending is not None else []
