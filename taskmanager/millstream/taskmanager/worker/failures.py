"""Describes a failure for the user: the frames of user code only, with the operator, the subtask and the record."""

from __future__ import annotations

import reprlib
from typing import Any

from millstream.core.errors import UnrecoverableError
from millstream.core.jobs.failure_kinds import FailureKind
from millstream.core.jobs.failures import TaskFailure
from millstream.core.keys.key_groups import UnhashableKeyError
from millstream.core.logs.tracebacks import encodable, error_signature, one_line, user_traceback
from millstream.core.messages.deployment import TaskDeployment
from millstream.taskmanager.memory_limit import blamed_for
from millstream.taskmanager.worker.operators.base import NO_RECORD, OperatorError
from millstream.taskmanager.worker.outages import is_outage
from millstream.taskmanager.worker.partitioning import PartitioningError

_RECORD_LENGTH = 1000
_NO_REPR: Any = object.__repr__
_FINAL = (UnrecoverableError, ImportError, UnhashableKeyError)
"""Errors that a restart does not mend: something missing from the job's environment, and keys that cannot be used."""


class PeerLostError(Exception):
    """A task of another slot worker that exchanges data with this one is lost."""


def _short(record: Any) -> str:
    """The repr of a record; if its class defines none, the fields, which identify it."""
    printer = reprlib.Repr()
    printer.maxstring = printer.maxother = printer.maxlong = _RECORD_LENGTH
    printer.maxtuple = printer.maxlist = printer.maxdict = 50
    try:
        if type(record).__repr__ is _NO_REPR and hasattr(record, "__dict__"):
            fields = ", ".join(f"{name}={printer.repr(value)}" for name, value in vars(record).items())
            text = f"{type(record).__qualname__}({fields})"
        else:
            text = printer.repr(record)
    except BaseException as error:
        text = f"<{type(record).__qualname__} whose repr failed: {one_line(error)}>"
    return encodable(text[:_RECORD_LENGTH])


def _explained(error: OperatorError | PartitioningError, where: str) -> BaseException:
    """The cause of the error; for a mutable key, an explanation instead of Python's "unhashable"."""
    cause = error.__cause__ or error
    if error.key_of is None or not isinstance(cause, TypeError) or "unhashable" not in str(cause):
        return cause
    try:
        key = error.key_of(error.record)
    except BaseException:
        return cause
    try:
        hash(key)
    except BaseException:
        return UnhashableKeyError(
            f"the key selector of '{where}' returned {_short(key)}, a {type(key).__qualname__}, which can be changed, "
            "and a key must stay as it is: return a tuple of its values, a dataclass with frozen=True, or one field"
        ).with_traceback(cause.__traceback__)
    return cause


def describe_failure(error: BaseException, deployment: TaskDeployment, now_ms: int, records: int = 0) -> TaskFailure:
    """The failure of a task that had taken so many records, ready to be reported."""
    operator_name, record, cause = "", NO_RECORD, error
    if isinstance(error, OperatorError):
        operator_name, record = error.operator_name, error.record
        cause = _explained(error, operator_name)
    elif isinstance(error, PartitioningError):
        operator_name, record = f"{deployment.task_name} (key selector or partitioner)", error.record
        cause = _explained(error, deployment.task_name)
    exception, memory = one_line(cause), blamed_for(cause)
    if memory:
        exception = f"{exception}: {memory}"
        cause.add_note(memory)
    return TaskFailure(
        job_id=deployment.job_id,
        vertex_id=deployment.vertex_id,
        task_name=deployment.task_name,
        operator_name=operator_name,
        subtask=deployment.subtask,
        attempt=deployment.attempt,
        exception=exception,
        traceback=user_traceback(cause),
        record="" if record is NO_RECORD else _short(record),
        timestamp=now_ms,
        final=isinstance(cause, _FINAL),
        signature=error_signature(cause),
        records=records,
        kind=_kind(error, cause),
    )


def _kind(error: BaseException, cause: BaseException) -> FailureKind:
    if isinstance(cause, PeerLostError):
        return FailureKind.PEER_LOST
    if is_outage(cause) or (isinstance(error, OperatorError) and error.is_outage):
        return FailureKind.OUTAGE
    return FailureKind.ORDINARY
