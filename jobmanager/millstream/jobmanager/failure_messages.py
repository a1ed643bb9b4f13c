"""The failures of a job between the messages that carry them and the exception history. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.core.jobs.failure_kinds import FailureKind, WorkerEnd
from millstream.core.jobs.ids import VertexId
from millstream.core.logs.tracebacks import LONGEST_LINE, shortened
from millstream.jobmanager.execution_graph import Execution
from millstream.jobmanager.failover.history import ExceptionHistory, Failure
from millstream.jobmanager.failover.topology import Subtask
from millstream.proto import status_pb2

_NAMED = 8
_LONGEST_NAME = 80


def job_failure(job_id: str, exception: str, now_ms: int, task_manager: str = "") -> status_pb2.TaskFailure:
    """A failure of the job as such, which comes from no task of its own."""
    return status_pb2.TaskFailure(
        job_id=job_id, exception=exception, traceback=exception, timestamp=now_ms, task_manager=task_manager
    )


def task_failure(
    execution: Execution, reported: status_pb2.TaskFailure, task_manager: str, now_ms: int
) -> status_pb2.TaskFailure:
    """What a task reported of its failure, with where and when that was."""
    failure = status_pb2.TaskFailure()
    failure.CopyFrom(reported)
    failure.task_manager = task_manager
    failure.vertex_id, failure.subtask = execution.vertex.id, execution.subtask
    failure.attempt = execution.attempt
    failure.timestamp = failure.timestamp or now_ms
    return failure


def lost_failure(
    job_id: str, reason: str, now_ms: int, task_manager: str, executions: Sequence[Execution],
    end: WorkerEnd = WorkerEnd.LOST,
) -> status_pb2.TaskFailure:
    """Workers are gone with these executions, which they had or were to get; all of them are named, up to a number."""
    if len(executions) > 1:
        names = [_brief(e.name) for e in executions[:_NAMED]]
        more = f" and {len(executions) - _NAMED} more" if len(executions) > _NAMED else ""
        reason = f"{reason}. Its tasks: {', '.join(names)}{more}"
    failure = job_failure(job_id, f"SlotLost: {reason}", now_ms, task_manager)
    failure.final = end is WorkerEnd.IMPOSSIBLE
    if end is WorkerEnd.CRASHED:
        failure.kind = FailureKind.CRASHED.value
    if executions:
        first = executions[0]
        failure.task_name, failure.vertex_id = first.name, first.vertex.id
        failure.subtask, failure.attempt = first.subtask, first.attempt
    return failure


def _brief(name: str) -> str:
    """Of a long chain of operators the beginning, and which subtask it is."""
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 15]}...{name[-12:]}"


def checkpoint_failure(
    job_id: str, reason: str, now_ms: int, declined: status_pb2.TaskFailure | None
) -> status_pb2.TaskFailure:
    """Too many checkpoints failed, the last one because of what was raised in a task, if it was declined."""
    failure = job_failure(job_id, f"CheckpointFailure: {reason}", now_ms)
    if declined is not None:
        failure.traceback = f"{declined.traceback.rstrip()}\n\n{failure.exception}"
        failure.task_name, failure.operator_name = declined.task_name, declined.operator_name
        failure.vertex_id, failure.subtask, failure.attempt = declined.vertex_id, declined.subtask, declined.attempt
        failure.signature, failure.records, failure.final = declined.signature, declined.records, declined.final
    return failure


def to_failure(message: status_pb2.TaskFailure) -> Failure:
    """On the way in."""
    return Failure(
        exception=shortened(message.exception, LONGEST_LINE),
        stacktrace=shortened(message.traceback),
        timestamp_ms=message.timestamp,
        subtask=Subtask(VertexId(message.vertex_id), message.subtask) if message.vertex_id else None,
        attempt=message.attempt,
        task_name=message.task_name,
        operator_name=message.operator_name,
        task_manager=message.task_manager,
        record=message.record,
        kind=FailureKind(message.kind),
        signature=message.signature,
        records=message.records,
    )


def root_causes(history: ExceptionHistory, job_id: str) -> list[status_pb2.TaskFailure]:
    """On the way out: the newest root cause first, each with the failures that came along with it."""
    messages = []
    for entry in reversed(history.entries):
        message = _to_message(entry.failure, job_id)
        message.restart, message.restart_delay_ms = entry.restart, entry.restart_delay_ms
        message.concurrent.extend(_to_message(failure, job_id) for failure in entry.concurrent)
        messages.append(message)
    return messages


def _to_message(failure: Failure, job_id: str) -> status_pb2.TaskFailure:
    return status_pb2.TaskFailure(
        job_id=job_id,
        vertex_id=failure.subtask.vertex_id if failure.subtask is not None else "",
        subtask=failure.subtask.index if failure.subtask is not None else 0,
        attempt=failure.attempt,
        task_name=failure.task_name,
        operator_name=failure.operator_name,
        task_manager=failure.task_manager,
        exception=failure.exception,
        traceback=failure.stacktrace,
        record=failure.record,
        timestamp=failure.timestamp_ms,
        signature=failure.signature,
        times=failure.times,
        kind=failure.kind.value,
    )
