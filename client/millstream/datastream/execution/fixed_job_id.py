"""The id of a program's only job, where who runs the program has chosen it: `millstream standalone-job --job-id`."""

from __future__ import annotations

import os

from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.ids import JobId
from millstream.core.settings.variables import JOB_ID
from millstream.datastream.execution.executions import EXECUTIONS


def fixed_job_id() -> JobId | None:
    """None: each job gets an id of its own. Raises InvalidProgramError where a second job would get the fixed one."""
    chosen = os.environ.get(JOB_ID)
    if chosen and EXECUTIONS.jobs:
        raise InvalidProgramError(
            f"the program's job has the id {chosen}, by --job-id or because the cluster is highly available, so it can "
            "have no second one: call execute() once, or run the program without a fixed id"
        )
    return JobId(chosen) if chosen else None
