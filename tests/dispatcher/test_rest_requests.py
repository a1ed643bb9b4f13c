"""Requests that do not fit the document are refused with 400 and the name of what is wrong, whatever else is right."""

from __future__ import annotations

from typing import Any

import pytest
from dispatcher_fixtures import Http, RunningDispatcher, graph, wheel

JOB = "a" * 32
MANY_DIGITS = "9" * 5000  # more than Python makes a number of


async def refused(http: Http, method: str, path: str, body: Any, *words: str) -> None:
    (message,) = (await http(method, path, body, status=400)).json["errors"]
    assert all(word in message for word in words), message
    assert len(message) < 500


@pytest.mark.parametrize(
    ("path", "name"),
    [(f"/jobs/{JOB}/exceptions?maxExceptions=", "maxExceptions"), (f"/jobs/{JOB}/checkpoints/details/", "checkpoint")],
)
@pytest.mark.parametrize("number", [MANY_DIGITS, str(2**63), "-1", "1.0", "x", "%C2%B2"])
async def test_a_number_is_a_whole_one_with_bounds(http: Http, path: str, name: str, number: str) -> None:
    await refused(http, "GET", path + number, None, name)


async def test_a_number_may_have_zeros_before_it(http: Http) -> None:
    await http("GET", f"/jobs/{JOB}/checkpoints/details/{'0' * 5000}7", status=404)


@pytest.mark.parametrize("number", [0, -1, 32769, 10**400, True, 1.5, "many", [1], {}, MANY_DIGITS])
async def test_the_parallelism_of_a_run_has_bounds(http: Http, number: Any) -> None:
    jar = await uploaded(http)
    await refused(http, "POST", f"/jars/{jar}/run", {"parallelism": number}, "parallelism")


@pytest.mark.parametrize(
    ("query", "body", "name"),
    [
        ("parallelism=0", {"parallelism": 1}, "parallelism"),
        ("savepointPath=relative", {"savepointPath": "/savepoint"}, "savepointPath"),
        ("claimMode=no", {"claimMode": "CLAIM"}, "claimMode"),
        ("claimMode=CLAIM", {"restoreMode": "no"}, "restoreMode"),
        ("", {"jobId": ""}, "jobId"),
        ("", {"flinkConfiguration": False}, "flinkConfiguration"),
        ("", {"flinkConfiguration": []}, "flinkConfiguration"),
    ],
)
async def test_what_a_run_is_given_twice_is_checked_twice(http: Http, query: str, body: Any, name: str) -> None:
    jar = await uploaded(http)
    await refused(http, "POST", f"/jars/{jar}/run?{query}", body, name)


async def test_a_method_that_a_path_does_not_have_is_answered_with_all_that_it_has(http: Http) -> None:
    for path, methods in (
        (f"/jobs/{JOB}", {"GET", "HEAD", "PATCH"}),
        (f"/v1/jobs/{JOB}/checkpoints", {"GET", "HEAD", "POST"}),
        ("/jars/x/plan", {"GET", "HEAD", "POST"}),
        ("/jars/x/run", {"POST"}),
    ):
        response = await http("PUT", path, status=405)
        assert set(response.headers["allow"].split(", ")) == methods
    assert (await http("HEAD", "/jobs", status=200)).body == b""


async def uploaded(http: Http) -> str:
    response = await http.upload("tinyjob-1.0-py3-none-any.whl", wheel({"tinyjob.py": "def main(): ..."}))
    return str(response.json["filename"]).rpartition("/")[2]


@pytest.mark.parametrize("number", ["", "0", "32769", "0000000019999999", MANY_DIGITS])
async def test_the_parallelism_of_a_rescale_has_bounds(dispatcher: RunningDispatcher, number: str) -> None:
    job = graph()
    async with dispatcher.running_job(job):
        await refused(
            dispatcher.http, "PATCH", f"/jobs/{job.job_id}/rescaling?parallelism={number}", None, "parallelism"
        )
