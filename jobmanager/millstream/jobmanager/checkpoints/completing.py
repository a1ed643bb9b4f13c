"""Completes an acknowledged checkpoint: metadata, pointer, commits, deletion of older checkpoints. Pure.

This order makes a crash at any point harmless; the module docstring of `coordinator` explains why.
"""

from __future__ import annotations

from collections.abc import Sequence

from millstream.core.clock import Instant
from millstream.jobmanager.checkpoints import events as ev
from millstream.jobmanager.checkpoints import responses
from millstream.jobmanager.checkpoints.aborting import abort, run_all_again
from millstream.jobmanager.checkpoints.coordinator_state import CoordinatorState
from millstream.jobmanager.checkpoints.failures import CheckpointFailureReason as Reason
from millstream.jobmanager.checkpoints.model import CheckpointId, CompletedCheckpoint
from millstream.jobmanager.checkpoints.pending import PendingCheckpoint, Phase
from millstream.jobmanager.checkpoints.policies.requests import Origin


class Completion:
    """Handles the results of `WriteMetadata` and `StorePointer` for the coordinator."""

    def __init__(self, state: CoordinatorState) -> None:
        self._state = state

    def metadata_written(self, checkpoint_id: CheckpointId, pointer: str, now: Instant) -> list[ev.Effect]:
        """Queues the pointer of a future restore point for storing; completes a snapshot that becomes none."""
        pending = self._state.pending.in_phase(checkpoint_id, Phase.WRITING)
        if pending is None:
            return self._state.pending.discard_abandoned(checkpoint_id, pointer)
        pending.pointer = pointer
        if not pending.options.becomes_restore_point:
            self._complete(pending, now)
            return responses.done(pending.request, pending.id, pointer)
        pending.phase = Phase.WRITTEN
        return self._state.pending.store_next()

    def metadata_failed(self, checkpoint_id: CheckpointId, message: str, now: Instant) -> list[ev.Effect]:
        """Aborts the checkpoint, because its metadata could not be written."""
        pending = self._state.pending.in_phase(checkpoint_id, Phase.WRITING)
        if pending is None:
            return self._state.pending.discard_abandoned(checkpoint_id)
        pending.phase = Phase.COLLECTING  # no write is in progress any longer
        return abort(self._state, pending, Reason.FINALIZE_CHECKPOINT_FAILURE, message, now)

    def pointer_stored(self, checkpoint_id: CheckpointId, now: Instant) -> list[ev.Effect]:
        """Makes the checkpoint the restore point: notifies tasks so that they commit, and drops older checkpoints."""
        pending = self._state.pending.in_phase(checkpoint_id, Phase.STORING)
        if pending is None:
            return []
        assert pending.pointer is not None
        self._complete(pending, now)
        effects: list[ev.Effect] = []
        attempts = tuple(a for a in pending.expected if self._state.tasks.is_active(a))
        if attempts:
            effects.append(ev.NotifyComplete(checkpoint_id, attempts))
            self._state.commits.forget(attempts)
        completed = CompletedCheckpoint(pending.content(), pending.pointer, owned=not pending.options.is_savepoint)
        unneeded = self._state.completed.add(completed)
        self._state.full_needed = not completed.owned
        if self._state.stopped is not ev.StopOutcome.SUSPENDED:  # the next leader may restore from them
            effects += self._drop(unneeded)
        for older in [p for p in self._state.pending if p.id < checkpoint_id and not p.options.is_savepoint]:
            message = f"checkpoint {checkpoint_id} completed first"
            effects += abort(self._state, older, Reason.CHECKPOINT_SUBSUMED, message, now)
        if pending.options.is_stop:
            effects += self._state.stop_with.completed(pending, job_ended=self._state.stopped is not None)
            if attempts and not self._state.stop_with.active:
                effects += run_all_again()
        else:
            effects += responses.done(pending.request, pending.id, pending.pointer)
        return effects + self.after_storing()

    def pointer_failed(self, checkpoint_id: CheckpointId, message: str, now: Instant) -> list[ev.Effect]:
        """Aborts the checkpoint, because its pointer could not be stored, and stores the next pointer."""
        pending = self._state.pending.in_phase(checkpoint_id, Phase.STORING)
        if pending is None:
            return []
        effects = abort(self._state, pending, Reason.FINALIZE_CHECKPOINT_FAILURE, message, now)
        return effects + self.after_storing()

    def after_storing(self) -> list[ev.Effect]:
        """Stores the next pointer; when the job has ended, drops the checkpoints that its retention does not keep."""
        if self._state.stopped is None:
            return self._state.pending.store_next()
        return self._drop(self._state.completed.stop(self._state.stopped))

    def _complete(self, pending: PendingCheckpoint, now: Instant) -> None:
        assert pending.pointer is not None
        self._state.end(pending, now)
        self._state.final_done = self._state.final_done or pending.request.origin is Origin.FINAL
        self._state.failures.succeeded(pending.id)
        self._state.failed_savepoints = [n for n in self._state.failed_savepoints if n > pending.id]
        self._state.statistics.completed(pending.id, pending.pointer, now)

    def _drop(self, dropped: Sequence[ev.DeleteCheckpoint | ev.ReleasePointer]) -> list[ev.Effect]:
        for effect in dropped:
            if isinstance(effect, ev.DeleteCheckpoint):
                self._state.statistics.discarded(effect.checkpoint.checkpoint_id)
        return list(dropped)
