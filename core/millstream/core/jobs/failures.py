"""Why a job or one of its tasks failed: what was raised where, at which record, and what came of it."""

from __future__ import annotations

from msgspec import Struct

from millstream.core.jobs.failure_kinds import FailureKind


class TaskFailure(Struct, frozen=True):
    """One failure, as services exchange it and people read it."""

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
    """Trying again cannot help: the job is not restarted."""
    concurrent: tuple[TaskFailure, ...] = ()
    """Of a root cause: what failed with it."""
    signature: str = ""
    """What was raised where: equal for the same error; empty for what no code raised."""
    records: int = 0
    """That the attempt had taken by then."""
    times: int = 0
    """How often the same error came in a row at the same record; 0: not counted, as for one at no record."""
    restart: int = 0
    """Of a root cause: the number of the restart that it led to; 0: none."""
    restart_delay_ms: int = 0
    kind: FailureKind = FailureKind.ORDINARY
