"""A job's failure as its user reads it: their own traceback first, then where it happened and on which record."""

from __future__ import annotations

import os

from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.kept_checkpoint import PROGRAM, with_program
from millstream.core.jobs.states import JobStatus
from millstream.core.logs.failure_texts import failure_lines, has_traceback, location_lines, repetition
from millstream.core.settings.secrets import without_secrets
from millstream.core.settings.variables import RUN_ARGUMENTS


def failure_text(details: JobDetails, traceback_shown: bool = False) -> str:
    """Why the job did not finish; a traceback that was shown before is only referred to."""
    if details.state is JobStatus.CANCELED:
        return f"job '{details.name}' ({details.job_id}) was cancelled"
    if not details.failures:
        return f"job '{details.name}' ({details.job_id}) ended as {details.state}"
    failure = details.failures[0]
    if traceback_shown and has_traceback(failure):
        again = repetition(failure) or "the same error"
        lines = [f"{failure.exception} ({again}; its traceback is above)", "", *location_lines(failure)]
    else:
        lines = failure_lines(failure)
    lines.append(f"  of job '{details.name}' ({details.job_id})")
    if details.message:
        program = os.environ.get(RUN_ARGUMENTS, PROGRAM)
        lines.append(f"  {with_program(details.message, details.latest_checkpoint, program)}")
    return without_secrets("\n".join(lines))
