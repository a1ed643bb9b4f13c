"""The API's description against Flink's specification: operations, statuses, what requests may carry."""

from __future__ import annotations

from typing import Any

import pytest
from dispatcher_fixtures import RunningDispatcher, graph
from flink_specification import Specification

from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.states import JobStatus


@pytest.fixture
def flink() -> Specification:
    return Specification()


async def test_every_operation_of_flink_takes_the_same_requests_and_returns_the_same_status(
    dispatcher: RunningDispatcher, flink: Specification
) -> None:
    paths = (await dispatcher.http("GET", "/openapi.json", status=200)).json["paths"]
    lacking = set()
    for name, wanted in flink.operations.items():
        method, path = name.split()
        operation = paths.get(path, {}).get(method.lower())
        if operation is None:
            lacking |= {name} - flink.left_out
            continue
        if str(wanted["status"]) not in operation["responses"]:
            lacking.add(f"{name}: status {wanted['status']}")
        query = {one["name"] for one in operation["parameters"] if one["in"] == "query"}
        lacking |= {f"{name}: ?{one}=" for one in wanted["query"] if one not in query}
        lacking |= {f"{name}: {key} in the body" for key in _keys(flink, wanted["request"]) - _taken(operation)}
    assert not lacking


def _keys(flink: Specification, request: str) -> set[str]:
    keys = {key for key in flink.schemas.get(request, {}) if key != "*"}
    return {key for key in keys if f"{request}.{key}" not in flink.left_out}


def _taken(operation: dict[str, Any]) -> set[str]:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    return set(content.get("schema", {}).get("properties", {}))


async def test_failures_at_the_same_time_have_every_key_of_flinks_specification(
    dispatcher: RunningDispatcher, flink: Specification
) -> None:
    job = graph()
    async with dispatcher.running_job(job) as manager:
        beside = TaskFailure(job.job_id, "v", "task (2/2)", subtask=1, exception="ValueError: also")
        failure = TaskFailure(job.job_id, "v", "task (1/2)", exception="ValueError: one", concurrent=(beside,))
        failed = JobDetails(job.job_id, job.name, JobStatus.FAILED, end_time=9, failures=(failure,))
        await dispatcher.reported(manager, failed)
        exceptions = (await dispatcher.http("GET", f"/jobs/{job.job_id}/exceptions", status=200)).json
    assert exceptions["exceptionHistory"]["entries"][0]["concurrentExceptions"]
    flink.compare("GET /jobs/{jobid}/exceptions", exceptions)
    assert not flink.missing
    assert not flink.unseen()


def test_the_manual_leaves_out_only_what_the_specification_has(flink: Specification) -> None:
    assert not flink.unknown()
