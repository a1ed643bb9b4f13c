"""Stops a job with a savepoint: from the request until the job has ended, or continues after all.

The request succeeds only when the savepoint is complete and the job has finished. When tasks fail in between, the
savepoint is the restore point, so the job continues from it, and the response reports that with the savepoint's path.
"""

from __future__ import annotations

from millstream.jobmanager.checkpoints import events as ev
from millstream.jobmanager.checkpoints import responses
from millstream.jobmanager.checkpoints.failures import CheckpointFailureReason
from millstream.jobmanager.checkpoints.model import CheckpointId, TriggerId
from millstream.jobmanager.checkpoints.pending import PendingCheckpoint


class StopWithSavepoint:
    """Tracks the savepoint that stops the job, at most one at a time. While `active`, no other is triggered."""

    def __init__(self) -> None:
        self._checkpoint_id: CheckpointId | None = None
        self._complete: PendingCheckpoint | None = None

    @property
    def active(self) -> bool:
        """Whether the job is being stopped."""
        return self._checkpoint_id is not None

    def begin(self, checkpoint_id: CheckpointId) -> None:
        """Begins stopping the job with this savepoint."""
        self._checkpoint_id = checkpoint_id

    def failed(self, checkpoint_id: CheckpointId) -> bool:
        """Handles the failure of a savepoint; returns whether the job continues because of it."""
        if checkpoint_id != self._checkpoint_id:
            return False
        self._checkpoint_id = None
        return True

    def holds(self, trigger_id: TriggerId) -> bool:
        """Whether the savepoint of this request is complete but the job has not ended yet."""
        return self._complete is not None and self._complete.request.trigger_id == trigger_id

    def completed(self, pending: PendingCheckpoint, job_ended: bool) -> list[ev.Effect]:
        """Handles the completed savepoint: it is the restore point, and tasks finish once they have committed it."""
        if pending.id == self._checkpoint_id and not job_ended:
            self._complete = pending
            return []
        return _incomplete(pending, CheckpointFailureReason.JOB_FAILOVER_REGION, "the job did not stop with it")

    def fall_through(self, reason: CheckpointFailureReason, message: str) -> list[ev.Effect]:
        """Responds that the savepoint is complete but the job continues, or ended in another way."""
        pending, self._complete, self._checkpoint_id = self._complete, None, None
        return _incomplete(pending, reason, message) if pending is not None else []

    def ended(self, outcome: ev.StopOutcome) -> list[ev.Effect]:
        """Responds once the job has ended, with success if it finished."""
        pending = self._complete
        if outcome is not ev.StopOutcome.FINISHED or pending is None:
            reason = CheckpointFailureReason.CHECKPOINT_COORDINATOR_SHUTDOWN
            return self.fall_through(reason, f"the job ended in another way ({outcome.lower()})")
        assert pending.pointer is not None
        self._complete = None
        return responses.done(pending.request, pending.id, pending.pointer)


def _incomplete(pending: PendingCheckpoint, reason: CheckpointFailureReason, message: str) -> list[ev.Effect]:
    return responses.failed(pending.request, reason, f"the savepoint {pending.pointer} is complete, but {message}")
