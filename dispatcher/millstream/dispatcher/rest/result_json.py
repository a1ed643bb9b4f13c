"""How a job ended, in the JSON shape of Flink's REST API, and its schema. Pure.

Flink writes names that differ from those of its specification: both are here.
"""

from __future__ import annotations

from typing import Any

from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.states import JobStatus
from millstream.dispatcher.rest import accumulator_json
from millstream.dispatcher.rest.schemas import (
    BOOLEAN,
    COUNT,
    ID,
    INTEGER,
    JOB_STATUS,
    STRING,
    mapping,
    nullable,
    record,
    request_body,
)

_FAILURE = record({"class": STRING, "stack-trace": STRING})
_QUEUE_STATUS = record({"id": {"type": "string", "enum": ["IN_PROGRESS", "COMPLETED"]}})
_SUCCEEDED = {JobStatus.FINISHED: "SUCCEEDED"}
STATUS = record({"status": JOB_STATUS})
HEARTBEAT = request_body(
    {"expiredTimestamp": {**COUNT, "description": "In milliseconds since 1970: when the job is cancelled."}},
    required=("expiredTimestamp",),
)
RESULT = record({
    "status": _QUEUE_STATUS,
    "job-execution-result": nullable(record({
        "id": ID, "name": STRING, "application-status": STRING, "accumulator-results": mapping(STRING),
        "net-runtime": INTEGER, "failure-cause": nullable(_FAILURE), "application-id": ID, "start-time": INTEGER,
        "end-time": INTEGER, "jobId": ID, "jobName": STRING, "jobStatus": JOB_STATUS,
        "accumulatorResults": mapping(STRING), "netRuntime": INTEGER, "serializedThrowable": nullable(_FAILURE),
        "applicationId": ID, "startTime": INTEGER, "endTime": INTEGER, "success": BOOLEAN,
    })),
})  # fmt: skip


def execution_result(details: JobDetails) -> dict[str, Any]:
    """`/jobs/:jobid/execution-result`."""
    if not details.state.is_terminal:
        return {"status": {"id": "IN_PROGRESS"}, "job-execution-result": None}
    left = accumulator_json.of_job(details, with_serialized=True)["serialized-user-task-accumulators"]
    failure = None
    if details.state is JobStatus.FAILED and details.failures:
        last = details.failures[0]
        failure = {"class": last.exception.partition(":")[0], "stack-trace": last.traceback or last.exception}
    took = max(details.end_time - details.start_time, 0)
    return {
        "status": {"id": "COMPLETED"},
        "job-execution-result": {
            "id": details.job_id,
            "name": details.name,
            "application-status": _SUCCEEDED.get(details.state, details.state.value),
            "accumulator-results": left,
            "net-runtime": took,
            "failure-cause": failure,
            "application-id": details.job_id,
            "start-time": details.start_time,
            "end-time": details.end_time,
            "jobId": details.job_id,
            "jobName": details.name,
            "jobStatus": details.state,
            "accumulatorResults": left,
            "netRuntime": took,
            "serializedThrowable": failure,
            "applicationId": details.job_id,
            "startTime": details.start_time,
            "endTime": details.end_time,
            "success": details.state is JobStatus.FINISHED,
        },
    }
