"""Failures of jobs and tasks: the error, its place and record, and its consequences."""

from __future__ import annotations

from msgspec import Struct

from millstream.core.jobs.failure_kinds import FailureKind


class TaskFailure(Struct, frozen=True):
    """A failure, as it is exchanged between services and shown to users."""

    job_id: str = ""
    vertex_id: str = ""
    task_name: str = ""
    """The vertex's name, or empty for a failure that is not a task's."""
    operator_name: str = ""
    subtask: int = 0
    attempt: int = 0
    task_manager: str = ""
    exception: str = ""
    """One line: the type and the message."""
    traceback: str = ""
    """The user's frames."""
    record: str = ""
    """The repr of the record, shortened."""
    timestamp: int = 0
    final: bool = False
    """Whether a restart cannot resolve it, so that the job is not restarted."""
    concurrent: tuple[TaskFailure, ...] = ()
    """The failures that are concurrent to a root cause."""
    signature: str = ""
    """Identifies the error and its place in code: equal for the same error; empty if no code raised it."""
    records: int = 0
    """The number of records that the attempt had processed."""
    times: int = 0
    """How often in a row the same error occurred at the same record; 0: not counted, as without a record."""
    restart: int = 0
    """The number of the restart that a root cause led to; 0: none."""
    restart_delay_ms: int = 0
    kind: FailureKind = FailureKind.ORDINARY
