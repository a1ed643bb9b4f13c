"""Aborts a checkpoint: notifies tasks, discards states, and decides whether the job fails with it. Pure."""

from __future__ import annotations

from millstream.core.clock import Instant
from millstream.core.jobs.failures import TaskFailure
from millstream.jobmanager.checkpoints import events as ev
from millstream.jobmanager.checkpoints import responses
from millstream.jobmanager.checkpoints.coordinator_state import CoordinatorState
from millstream.jobmanager.checkpoints.failures import CheckpointFailureReason as Reason
from millstream.jobmanager.checkpoints.pending import PendingCheckpoint


def abort(
    state: CoordinatorState,
    pending: PendingCheckpoint,
    reason: Reason,
    message: str,
    now: Instant,
    failure: ev.Declined | ev.EnumeratorsFailed | None = None,
) -> list[ev.Effect]:
    """Aborts a pending checkpoint; `failure` is the event of a task or an enumerator that led to it, if one did.

    Must not be called while the checkpoint's pointer is being stored: its outcome is unknown then.
    """
    effects: list[ev.Effect] = []
    state.end(pending, now)
    state.statistics.failed(pending.id, reason.explain(message), now)
    if pending.options.is_savepoint and pending.id > state.failures.last_success:
        state.failed_savepoints.append(pending.id)
    attempts = tuple(a for a in pending.expected if state.tasks.is_active(a))
    if attempts:
        effects.append(ev.NotifyAborted(pending.id, attempts))
    effects += state.pending.discard(pending)
    effects += responses.failed(pending.request, reason, message)
    return effects + _consequences(state, pending, reason, message, now, failure)


def _consequences(
    state: CoordinatorState,
    pending: PendingCheckpoint,
    reason: Reason,
    message: str,
    now: Instant,
    failure: ev.Declined | ev.EnumeratorsFailed | None,
) -> list[ev.Effect]:
    """Returns the effects of a failed checkpoint on the job: whether it fails, and whether it continues after all."""
    if state.stopped is not None or not state.running:
        return []
    cause = failure.cause if failure is not None else None
    counts = isinstance(failure, ev.Declined) or not pending.options.is_savepoint
    if counts and state.failures.failed(pending.id, reason):
        return fail_job(
            state,
            f"checkpoint {pending.id} failed ({reason.explain(message)}), and no more than "
            f"{state.settings.tolerable_failures} may fail in a row "
            "(execution.checkpointing.tolerable-failed-checkpoints)",
            cause,
        )
    if pending.options.is_stop and state.stop_with.failed(pending.id):
        state.queue.start_schedule(now.steady_ms)
        if pending.has_drained:
            return fail_job(
                state,
                f"the savepoint to drain and stop the job failed ({reason.explain(message)}), and event "
                "time, which was advanced to its end for it, can only be reset by a restart",
                cause,
            )
    return []


def fail_job(state: CoordinatorState, message: str, cause: TaskFailure | None = None) -> list[ev.Effect]:
    """Fails the job, so that it restarts, unless it is already failing."""
    if state.failing:
        return []
    state.failing = True
    return [ev.FailJob(message, cause)]


def run_all_again() -> list[ev.Effect]:
    """Restarts all tasks: those that a savepoint has drained or ended do not continue when only others restart."""
    return [ev.FailJob("tasks failed while the job was being stopped with a savepoint: restarting all tasks")]
