"""Why checkpoints fail, and how many failures in a row a job tolerates. Pure.

As in Flink, failures of storage, failures of tasks' snapshots and timeouts count. A savepoint counts only when a task
declined it: other reasons for which a savepoint fails are no sign that the job needs a restart.
"""

from __future__ import annotations

from enum import StrEnum


class CheckpointFailureReason(StrEnum):
    """Every reason for which a checkpoint fails or is not triggered, with Flink's names."""

    # before a task was triggered
    PERIODIC_SCHEDULER_SHUTDOWN = "PERIODIC_SCHEDULER_SHUTDOWN"
    TOO_MANY_CHECKPOINT_REQUESTS = "TOO_MANY_CHECKPOINT_REQUESTS"
    NOT_ALL_REQUIRED_TASKS_RUNNING = "NOT_ALL_REQUIRED_TASKS_RUNNING"
    TASKS_FINISHED = "TASKS_FINISHED"  # not in Flink, which reports the one before
    TRIGGER_CHECKPOINT_FAILURE = "TRIGGER_CHECKPOINT_FAILURE"
    # reported by tasks
    CHECKPOINT_DECLINED = "CHECKPOINT_DECLINED"
    CHECKPOINT_ASYNC_EXCEPTION = "CHECKPOINT_ASYNC_EXCEPTION"
    CHANNEL_STATE_SHARED_STREAM_EXCEPTION = "CHANNEL_STATE_SHARED_STREAM_EXCEPTION"
    CHECKPOINT_DECLINED_TASK_NOT_READY = "CHECKPOINT_DECLINED_TASK_NOT_READY"
    CHECKPOINT_DECLINED_TASK_CLOSING = "CHECKPOINT_DECLINED_TASK_CLOSING"
    CHECKPOINT_DECLINED_SUBSUMED = "CHECKPOINT_DECLINED_SUBSUMED"
    CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER = "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER"
    CHECKPOINT_DECLINED_INPUT_END_OF_STREAM = "CHECKPOINT_DECLINED_INPUT_END_OF_STREAM"
    TASK_CHECKPOINT_FAILURE = "TASK_CHECKPOINT_FAILURE"
    # decided by the coordinator
    CHECKPOINT_EXPIRED = "CHECKPOINT_EXPIRED"
    CHECKPOINT_SUBSUMED = "CHECKPOINT_SUBSUMED"
    CHECKPOINT_COORDINATOR_SUSPEND = "CHECKPOINT_COORDINATOR_SUSPEND"
    CHECKPOINT_COORDINATOR_SHUTDOWN = "CHECKPOINT_COORDINATOR_SHUTDOWN"
    JOB_FAILOVER_REGION = "JOB_FAILOVER_REGION"
    FINALIZE_CHECKPOINT_FAILURE = "FINALIZE_CHECKPOINT_FAILURE"

    @property
    def counts(self) -> bool:
        """Whether it counts as a failure: failures of storage and snapshots do, cancellations and restarts do not."""
        return self in _COUNTED

    @property
    def description(self) -> str:
        """A description in one line."""
        return _DESCRIPTIONS[self]

    @property
    def advice(self) -> str:
        """What the user who requested the snapshot can do; empty where another attempt would not help."""
        return "try again when the job is RUNNING" if self in _PASSING else ""

    def explain(self, message: str) -> str:
        """The description, followed by the message if there is one."""
        return f"{self.description}: {message}" if message else self.description


_R = CheckpointFailureReason
_COUNTED = frozenset(
    {
        _R.TRIGGER_CHECKPOINT_FAILURE,
        _R.CHECKPOINT_DECLINED,
        _R.CHECKPOINT_ASYNC_EXCEPTION,
        _R.CHECKPOINT_EXPIRED,
        _R.FINALIZE_CHECKPOINT_FAILURE,
    }
)
_PASSING = frozenset(
    {
        _R.NOT_ALL_REQUIRED_TASKS_RUNNING,
        _R.CHECKPOINT_DECLINED_TASK_NOT_READY,
        _R.TASK_CHECKPOINT_FAILURE,
        _R.JOB_FAILOVER_REGION,
    }
)
_DESCRIPTIONS: dict[CheckpointFailureReason, str] = {
    _R.PERIODIC_SCHEDULER_SHUTDOWN: "no checkpoint is started while the job is stopping or failing",
    _R.TOO_MANY_CHECKPOINT_REQUESTS: "too many checkpoint requests are queued",
    _R.NOT_ALL_REQUIRED_TASKS_RUNNING: "not all tasks of the job are running",
    _R.TASKS_FINISHED: "tasks of the job have finished, and "
    "execution.checkpointing.checkpoints-after-tasks-finish.enabled is false",
    _R.TRIGGER_CHECKPOINT_FAILURE: "the snapshot could not be started",
    _R.CHECKPOINT_DECLINED: "a task declined the checkpoint",
    _R.CHECKPOINT_ASYNC_EXCEPTION: "a task could not write its state",
    _R.CHANNEL_STATE_SHARED_STREAM_EXCEPTION: "another task could not write the channel state that is written together",
    _R.CHECKPOINT_DECLINED_TASK_NOT_READY: "a task was not ready for the checkpoint",
    _R.CHECKPOINT_DECLINED_TASK_CLOSING: "a task was closing",
    _R.CHECKPOINT_DECLINED_SUBSUMED: "a task received the barrier of a newer checkpoint first",
    _R.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER: "an input of a task aborted the checkpoint",
    _R.CHECKPOINT_DECLINED_INPUT_END_OF_STREAM: "an input of a task ended during the checkpoint",
    _R.TASK_CHECKPOINT_FAILURE: "a task failed while it took its snapshot",
    _R.CHECKPOINT_EXPIRED: "the checkpoint did not complete within execution.checkpointing.timeout",
    _R.CHECKPOINT_SUBSUMED: "a newer checkpoint completed first",
    _R.CHECKPOINT_COORDINATOR_SUSPEND: "the job is being stopped with a savepoint",
    _R.CHECKPOINT_COORDINATOR_SHUTDOWN: "the job has ended",
    _R.JOB_FAILOVER_REGION: "tasks of the job failed and are being restarted",
    _R.FINALIZE_CHECKPOINT_FAILURE: "the metadata or its pointer could not be stored",
}


class FailureCounter:
    """Failures in a row. Each checkpoint counts once; those older than `last_success` do not count."""

    def __init__(self, tolerable: int) -> None:
        self._tolerable = tolerable
        self._counted: set[int] = set()
        self.last_success = 0

    @property
    def count(self) -> int:
        """How many failures there were since the last success."""
        return len(self._counted)

    def succeeded(self, checkpoint_id: int) -> None:
        """Resets the count, because a checkpoint completed."""
        if checkpoint_id > self.last_success:
            self.last_success = checkpoint_id
            self._counted.clear()

    def failed(self, checkpoint_id: int, reason: CheckpointFailureReason) -> bool:
        """Counts a failure; when that exceeds what the job tolerates, returns true and resets the count."""
        if not reason.counts or checkpoint_id <= self.last_success:
            return False
        self._counted.add(checkpoint_id)
        if len(self._counted) <= self._tolerable:
            return False
        self._counted.clear()
        return True
