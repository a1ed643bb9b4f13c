"""The completed checkpoints that a job can be restored from, oldest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from millstream.core.jobs.ids import AttemptId
from millstream.jobmanager.checkpoints.events import DeleteCheckpoint, ReleasePointer, StopOutcome
from millstream.jobmanager.checkpoints.model import CompletedCheckpoint
from millstream.jobmanager.checkpoints.settings import CheckpointSettings, Retention


class CompletedCheckpoints:
    """Mirrors the pointers in the HA store. Ids ascend. Only what the job owns counts towards `num-retained`."""

    def __init__(self, settings: CheckpointSettings, retained: Sequence[CompletedCheckpoint]) -> None:
        self._settings = settings
        self._entries = sorted(retained, key=lambda c: c.checkpoint_id)

    @property
    def entries(self) -> tuple[CompletedCheckpoint, ...]:
        """All retained checkpoints, oldest first."""
        return tuple(self._entries)

    @property
    def latest(self) -> CompletedCheckpoint | None:
        """The restore point."""
        return self._entries[-1] if self._entries else None

    @property
    def oldest_owned(self) -> int:
        """The id of the oldest checkpoint that the job owns; 0 when there is none."""
        return next((c.checkpoint_id for c in self._entries if c.owned), 0)

    def ended_attempts(self) -> frozenset[AttemptId]:
        """The attempts whose end one of the checkpoints holds."""
        return frozenset(s.task.attempt_id for c in self._entries for s in c.content.snapshots if s.ended)

    def add(self, checkpoint: CompletedCheckpoint) -> list[DeleteCheckpoint | ReleasePointer]:
        """Adds a new restore point; returns the effects that drop what is no longer needed."""
        assert not self._entries or self._entries[-1].checkpoint_id < checkpoint.checkpoint_id
        dropped = [c for c in self._entries if not c.owned]
        owned = [c for c in self._entries if c.owned] + ([checkpoint] if checkpoint.owned else [])
        dropped += owned[: max(0, len(owned) - self._settings.num_retained)]
        self._entries = [c for c in self._entries if c not in dropped] + [checkpoint]
        return [_drop(c) for c in dropped]

    def stop(self, outcome: StopOutcome) -> list[DeleteCheckpoint | ReleasePointer]:
        """Returns the effects that drop what a job that has ended does not keep for its user."""
        if is_kept(self._settings.retention, outcome):
            return []
        dropped, self._entries = self._entries, []
        return [_drop(c) for c in dropped]


def is_kept(retention: Retention, outcome: StopOutcome) -> bool:
    """Whether the checkpoints of a job with this outcome are kept for its user."""
    match outcome:
        case StopOutcome.SUSPENDED:
            return True
        case StopOutcome.FINISHED:
            return False
        case StopOutcome.CANCELED:
            return retention is Retention.RETAIN_ON_CANCELLATION
        case StopOutcome.FAILED:
            return retention is not Retention.NO_EXTERNALIZED_CHECKPOINTS
    assert_never(outcome)


def _drop(checkpoint: CompletedCheckpoint) -> DeleteCheckpoint | ReleasePointer:
    return DeleteCheckpoint(checkpoint) if checkpoint.owned else ReleasePointer(checkpoint.checkpoint_id)
