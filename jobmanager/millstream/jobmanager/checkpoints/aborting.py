"""Giving a checkpoint up: who is told, what is discarded, and what it means for the job. Pure."""

from __future__ import annotations

from millstream.core.clock import Instant
from millstream.core.jobs.failures import TaskFailure
from millstream.jobmanager.checkpoints import answers
from millstream.jobmanager.checkpoints import events as ev
from millstream.jobmanager.checkpoints.coordinator_state import CoordinatorState
from millstream.jobmanager.checkpoints.failures import CheckpointFailureReason as Reason
from millstream.jobmanager.checkpoints.pending import PendingCheckpoint


def abort(
    state: CoordinatorState,
    pending: PendingCheckpoint,
    reason: Reason,
    message: str,
    now: Instant,
    answer: ev.Declined | ev.EnumeratorsFailed | None = None,
) -> list[ev.Effect]:
    """Ends a checkpoint that will not be, because of an answer or not.

    Not one whose pointer is being stored: its outcome is not known.
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
    effects += answers.failed(pending.request, reason, message)
    return effects + _consequences(state, pending, reason, message, now, answer)


def _consequences(
    state: CoordinatorState,
    pending: PendingCheckpoint,
    reason: Reason,
    message: str,
    now: Instant,
    answer: ev.Declined | ev.EnumeratorsFailed | None,
) -> list[ev.Effect]:
    """What a failed checkpoint means for the job."""
    if state.stopped is not None or not state.running:
        return []
    cause = answer.cause if answer is not None else None
    counts = isinstance(answer, ev.Declined) or not pending.options.is_savepoint
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
                "time, which was advanced to its end for it, goes back only by a restart",
                cause,
            )
    return []


def fail_job(state: CoordinatorState, message: str, cause: TaskFailure | None = None) -> list[ev.Effect]:
    """Has the job restart, unless it is about to anyway."""
    if state.failing:
        return []
    state.failing = True
    return [ev.FailJob(message, cause)]


def run_all_again() -> list[ev.Effect]:
    """Tasks that a savepoint has drained or ended do not continue by themselves when others restart."""
    return [ev.FailJob("tasks failed while a savepoint was to stop the job: all tasks run again")]
