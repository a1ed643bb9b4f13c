"""How a failure is told: the user's frames first and alone, with the operator, the subtask and the record."""

from __future__ import annotations

import reprlib
from typing import Any

from millstream.core.errors import UnrecoverableError
from millstream.core.tracebacks import one_line, user_traceback
from millstream.proto import status_pb2, taskmanager_pb2
from millstream.taskmanager.operators.base import NO_RECORD, OperatorError
from millstream.taskmanager.partitioning import PartitioningError

_RECORD_LENGTH = 1000


class PeerLostError(Exception):
    """A task of another slot worker that this one exchanges data with is gone."""


def _short(record: Any) -> str:
    printer = reprlib.Repr()
    printer.maxstring = printer.maxother = printer.maxlong = _RECORD_LENGTH
    printer.maxtuple = printer.maxlist = printer.maxdict = 50
    try:
        text = printer.repr(record)
    except Exception as error:
        text = f"<{type(record).__qualname__} whose repr failed: {error!r}>"
    return text[:_RECORD_LENGTH]


def describe_failure(
    error: BaseException, deployment: taskmanager_pb2.TaskDeployment, now_ms: int
) -> status_pb2.TaskFailure:
    """The failure of a task, ready to be reported."""
    operator_name, record, cause = "", NO_RECORD, error
    if isinstance(error, OperatorError):
        operator_name, record = error.operator_name, error.record
        cause = error.__cause__ or error
    elif isinstance(error, PartitioningError):
        operator_name, record = f"{deployment.task_name} (key selector or partitioner)", error.record
        cause = error.__cause__ or error
    return status_pb2.TaskFailure(
        job_id=deployment.job_id,
        vertex_id=deployment.vertex_id,
        task_name=deployment.task_name,
        operator_name=operator_name,
        subtask=deployment.subtask,
        attempt=deployment.attempt,
        exception=one_line(cause),
        traceback=user_traceback(cause),
        record="" if record is NO_RECORD else _short(record),
        timestamp=now_ms,
        final=isinstance(cause, UnrecoverableError),
    )
