"""A job's failure as its user reads it: their own traceback first, then where it happened and on which record."""

from __future__ import annotations

from millstream.core.secrets import without_secrets
from millstream.core.states import JobStatus
from millstream.proto import status_pb2 as pb


def failure_text(details: pb.JobDetails) -> str:
    """Why the job did not finish."""
    if details.state == JobStatus.CANCELED:
        return f"job '{details.name}' ({details.job_id}) was cancelled"
    if not details.failures:
        return f"job '{details.name}' ({details.job_id}) ended as {details.state}"
    failure = details.failures[0]
    lines = [failure.traceback.rstrip() or failure.exception, ""]
    if failure.operator_name:
        lines.append(f"  in operator '{failure.operator_name}'")
    if failure.task_name:
        where = f" on {failure.task_manager}" if failure.task_manager else ""
        lines.append(f"  in task '{failure.task_name}'{where}")
    if failure.record:
        lines.append(f"  on the record {failure.record}")
    lines.append(f"  of job '{details.name}' ({details.job_id})")
    return without_secrets("\n".join(lines))
