"""Builds the failures of a job from what tasks, workers and checkpoints report. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from millstream.core.jobs.failure_kinds import FailureKind, WorkerEnd
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.ids import JobId
from millstream.core.jobs.states import ExecutionState
from millstream.jobmanager.job_master.execution_graph import Execution

_NAMED = 8
_LONGEST_NAME = 80
_NOT_OPENED = (ExecutionState.DEPLOYING, ExecutionState.INITIALIZING)


def job_failure(job_id: JobId, exception: str, now_ms: int, task_manager: str = "", final: bool = False) -> TaskFailure:
    """Builds a failure of the job that belongs to no task."""
    return TaskFailure(
        job_id=job_id,
        exception=exception,
        traceback=exception,
        timestamp=now_ms,
        task_manager=task_manager,
        final=final,
    )


def task_failure(
    job_id: JobId, execution: Execution, reported: TaskFailure | None, task_manager: str, now_ms: int
) -> TaskFailure:
    """Builds a failure from a task's report, with the place and the time."""
    failure = reported or TaskFailure()
    return replace(
        failure,
        job_id=job_id,
        task_manager=task_manager,
        vertex_id=execution.vertex.id,
        subtask=execution.subtask,
        attempt=execution.attempt,
        timestamp=failure.timestamp or now_ms,
    )


def lost_failure(
    job_id: JobId, reason: str, now_ms: int, task_manager: str, executions: Sequence[Execution],
    end: WorkerEnd = WorkerEnd.LOST,
) -> TaskFailure:  # fmt: skip
    """Builds the failure of lost workers; it names their executions, up to a maximum.

    A worker that ended by itself may have done so at a record only if all its deployed tasks had been opened: it opens
    them before any of them takes a step.
    """
    if len(executions) > 1:
        names = [_brief(e.name) for e in executions[:_NAMED]]
        more = f" and {len(executions) - _NAMED} more" if len(executions) > _NAMED else ""
        reason = f"{reason}. Its tasks: {', '.join(names)}{more}"
    at_a_record = any(e.is_deployed for e in executions) and not any(e.state in _NOT_OPENED for e in executions)
    failure = replace(
        job_failure(job_id, f"SlotLost: {reason}", now_ms, task_manager, final=end is WorkerEnd.IMPOSSIBLE),
        kind=FailureKind.CRASHED if end is WorkerEnd.CRASHED and at_a_record else FailureKind.ORDINARY,
    )
    if not executions:
        return failure
    first = executions[0]
    return replace(
        failure, task_name=first.name, vertex_id=first.vertex.id, subtask=first.subtask, attempt=first.attempt
    )


def _brief(name: str) -> str:
    """Shortens the name of a long chain of operators, but keeps the index of the subtask."""
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 15]}...{name[-12:]}"


def checkpoint_failure(job_id: JobId, reason: str, now_ms: int, declined: TaskFailure | None) -> TaskFailure:
    """Builds the failure of too many failed checkpoints, with the error of the task if the last was declined."""
    failure = job_failure(job_id, f"CheckpointFailure: {reason}", now_ms)
    if declined is None:
        return failure
    return replace(
        failure,
        traceback=f"{declined.traceback.rstrip()}\n\n{failure.exception}",
        task_name=declined.task_name,
        operator_name=declined.operator_name,
        vertex_id=declined.vertex_id,
        subtask=declined.subtask,
        attempt=declined.attempt,
        signature=declined.signature,
        records=declined.records,
        final=declined.final,
    )
