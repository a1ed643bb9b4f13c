"""The messages of a job's checkpoints to its tasks: triggers, and notices of the outcome."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from millstream.core.errors import MillstreamError
from millstream.core.jobs.ids import AttemptId, TaskManagerId
from millstream.core.messages.task_manager import JobManagerCommand
from millstream.jobmanager import checkpoint_messages as messages
from millstream.jobmanager.checkpoints import events as ev
from millstream.jobmanager.checkpoints.failures import CheckpointFailureReason as Reason
from millstream.jobmanager.checkpoints.model import CheckpointId
from millstream.jobmanager.job_checkpoints.context import CheckpointedJob


def trigger(job: CheckpointedJob, effect: ev.TriggerBarrier) -> None:
    """Triggers a checkpoint; one that cannot be triggered counts as declined."""
    why = ""
    if not job.restore_points.may_use(effect.checkpoint_id):
        why = "the job manager is still reserving ids for the job's checkpoints"
    elif effect.options.target_directory is None and not job.files.is_prepared:
        why = "the job manager is still reading the job's folder of checkpoints"
    try:
        if why:
            reason = Reason.CHECKPOINT_DECLINED_TASK_NOT_READY
            job.handle(ev.Declined(effect.checkpoint_id, effect.attempts[0], reason, why))
            return
        location = job.files.location(effect.checkpoint_id, effect.options)
    except (MillstreamError, OSError) as error:
        reason = Reason.TRIGGER_CHECKPOINT_FAILURE
        job.handle(ev.Declined(effect.checkpoint_id, effect.attempts[0], reason, str(error)))
    else:
        _command(job, messages.triggers(effect, location, job.master.place_of_attempt))


def notify(job: CheckpointedJob, checkpoint_id: CheckpointId, attempts: Collection[AttemptId], completed: bool) -> None:
    """Notifies tasks that a checkpoint has completed or was aborted."""
    _command(job, messages.notices(checkpoint_id, attempts, completed, job.master.place_of_attempt))


def _command(job: CheckpointedJob, commands: Iterable[tuple[TaskManagerId, JobManagerCommand]]) -> None:
    for task_manager, command in commands:
        job.surroundings.command(task_manager, command)
