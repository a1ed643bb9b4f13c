"""All checkpoints under way, and what is still owed to those that were given up. Owned by the coordinator.

Accounts for every state that a task acknowledged: it belongs to a checkpoint here, went into a completed one, or is
discarded once. Only one pointer is stored at a time, the oldest first.
"""

from __future__ import annotations

from collections.abc import Iterator

from millstream.jobmanager.checkpoints import events as ev
from millstream.jobmanager.checkpoints.model import CheckpointId
from millstream.jobmanager.checkpoints.pending import EndedCheckpoints, PendingCheckpoint, Phase


class CheckpointsUnderWay:
    """Ordered by id."""

    def __init__(self) -> None:
        self._pending: dict[CheckpointId, PendingCheckpoint] = {}
        self._abandoned: dict[CheckpointId, PendingCheckpoint] = {}
        self._ended = EndedCheckpoints()

    def __len__(self) -> int:
        return len(self._pending)

    def __iter__(self) -> Iterator[PendingCheckpoint]:
        """Those of this moment, oldest first; they may end while one goes through them."""
        return iter(tuple(self._pending.values()))

    def add(self, pending: PendingCheckpoint) -> None:
        """A checkpoint begins."""
        self._pending[pending.id] = pending

    def get(self, checkpoint_id: CheckpointId) -> PendingCheckpoint | None:
        """The checkpoint, if it is under way."""
        return self._pending.get(checkpoint_id)

    def in_phase(self, checkpoint_id: CheckpointId, phase: Phase) -> PendingCheckpoint | None:
        """The checkpoint, if it is under way and just there."""
        pending = self._pending.get(checkpoint_id)
        return pending if pending is not None and pending.phase is phase else None

    @property
    def settled(self) -> bool:
        """Whether no pointer is being stored."""
        return all(pending.phase is not Phase.STORING for pending in self)

    def deadlines(self) -> list[int]:
        """When checkpoints time out."""
        return [pending.deadline_ms for pending in self if pending.phase is not Phase.STORING]

    def expired(self, now_ms: int) -> list[PendingCheckpoint]:
        """Those that have taken too long. One whose pointer is being stored cannot be given up."""
        return [p for p in self if p.deadline_ms <= now_ms and p.phase is not Phase.STORING]

    def stray(self, acknowledgement: ev.Acknowledged) -> list[ev.Effect]:
        """A state that no checkpoint takes is discarded, once."""
        checkpoint_id, attempt, state = (
            acknowledgement.checkpoint_id,
            acknowledgement.attempt_id,
            acknowledgement.state,
        )
        pending = self._pending.get(checkpoint_id)
        is_stray = pending.is_stray(attempt) if pending else self._ended.is_stray(checkpoint_id, attempt)
        return [ev.DiscardState(checkpoint_id, (state,))] if is_stray and state is not None else []

    def store_next(self) -> list[ev.Effect]:
        """Has the next pointer stored, if there is one and none is being stored."""
        for pending in self:
            if pending.phase is Phase.WRITTEN and self.settled:
                assert pending.pointer is not None
                pending.phase = Phase.STORING
                return [ev.StorePointer(pending.id, pending.pointer)]
        return []

    def end(self, pending: PendingCheckpoint) -> None:
        """The checkpoint is complete, or about to be discarded."""
        del self._pending[pending.id]
        self._ended.add(pending)

    def discard(self, pending: PendingCheckpoint) -> list[ev.Effect]:
        """Gives up what an ended checkpoint has collected; while its metadata is being written, that is done later."""
        match pending.phase:
            case Phase.PREPARING:
                return []  # no task has heard of it
            case Phase.WRITING:
                self._abandoned[pending.id] = pending
                return []
            case _:
                return [ev.DiscardState(pending.id, pending.states(), pending.pointer)]

    def discard_abandoned(self, checkpoint_id: CheckpointId, pointer: str | None = None) -> list[ev.Effect]:
        """The writing of metadata has ended: what was given up meanwhile is discarded, the metadata with it."""
        pending = self._abandoned.pop(checkpoint_id, None)
        return [ev.DiscardState(checkpoint_id, pending.states(), pointer)] if pending is not None else []
