"""The parallelism of jobs over REST: requirements in Flink's JSON, rescales with a trigger id, and events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from dispatcher_fixtures import DEADLINE, Answer, Http, RunningDispatcher, graph

from millstream.core.jobs.details import JobDetails, VertexStatus
from millstream.core.jobs.ids import VertexId
from millstream.core.jobs.job_events import JobEvent, JobEventKind
from millstream.core.jobs.states import JobStatus
from millstream.core.messages.rescaling import RescaleRequest, RescaleResult, VertexBounds
from millstream.dispatcher.rest import scaling_schemas as schemas


def bounds(lower: Any, upper: Any) -> dict[str, Any]:
    return {"parallelism": {"lowerBound": lower, "upperBound": upper}}


async def answered(http: Http, method: str, path: str, is_it: Callable[[Answer], bool]) -> Answer:
    """Requests until the expected response comes."""
    async with asyncio.timeout(DEADLINE):
        while True:
            if is_it(result := await http(method, path)):
                return result


async def test_requirements_are_shown_and_passed_on(dispatcher: RunningDispatcher) -> None:
    http, job = dispatcher.http, graph()
    path, (source, sink) = f"/jobs/{job.job_id}/resource-requirements", (v.id for v in job.vertices)
    async with dispatcher.running_job(job) as manager:
        shown = (await http("GET", path, status=200)).json
        jsonschema.validate(shown, schemas.REQUIREMENTS)
        assert shown[source] == bounds(1, 1)
        vertices = (VertexStatus(VertexId(source), "s", 1, 128, lower_bound=2, upper_bound=5),)
        manager.report(JobDetails(job.job_id, "j", JobStatus.RUNNING, vertices=vertices))
        await answered(http, "GET", path, lambda found: found.json == {source: bounds(2, 5)})
        body = json.dumps({source: bounds(1, 1), sink: bounds(1, 4)}).encode()
        result = asyncio.ensure_future(http("PUT", path, body))
        asked = await manager.next(RescaleRequest)
        assert asked.bounds == (VertexBounds(VertexId(source), 1, 1), VertexBounds(VertexId(sink), 1, 4))
        assert not asked.wait
        manager.send(RescaleResult(asked.trigger_id, "accepted"))
        assert ((await result).status, (await result).json) == (200, {})
        for error, status in (("parallelism 4 is too much", 400), ("in progress; try again", 409)):
            result = asyncio.ensure_future(http("PUT", path, body))
            manager.send(RescaleResult((await manager.next(RescaleRequest)).trigger_id, error=error))
            assert ((await result).status, (await result).json) == (status, {"errors": [error]})


async def test_a_job_manager_that_goes_away_leaves_requirements_unanswered(dispatcher: RunningDispatcher) -> None:
    job = graph()
    body = json.dumps({vertex.id: bounds(1, 2) for vertex in job.vertices}).encode()
    async with dispatcher.running_job(job) as manager:
        result = asyncio.ensure_future(dispatcher.http("PUT", f"/jobs/{job.job_id}/resource-requirements", body))
        await manager.next(RescaleRequest)
    assert (await result).status == 503
    assert "may rescale the job or not" in (await result).json["errors"][0]


async def test_a_rescale_that_is_waited_for_outlives_its_job_manager(dispatcher: RunningDispatcher) -> None:
    http, job = dispatcher.http, graph()
    path = f"/jobs/{job.job_id}/rescaling"
    async with dispatcher.running_job(job) as manager:
        await dispatcher.reported(manager, JobDetails(job.job_id, "j", JobStatus.RUNNING))
        trigger_id = (await http("PATCH", f"{path}?parallelism=3", status=200)).json["request-id"]
        first = await manager.next(RescaleRequest)
        await manager.disconnect()
        await manager.connect(dispatcher.service.address)
        again = await manager.next(RescaleRequest)
        assert again == first
        manager.send(RescaleResult(again.trigger_id, error="it looks for its tasks; try again"))
        later = await manager.next(RescaleRequest)
        assert (later.parallelism, later.wait) == (3, True)
        assert later.trigger_id != first.trigger_id, "whose response would be the previous one"
        manager.send(RescaleResult(later.trigger_id, "rescaled to parallelism 3"))
        done = await answered(http, "GET", f"{path}/{trigger_id}", lambda found: found.json["operation"] is not None)
        assert done.json["operation"] == {"message": "rescaled to parallelism 3; it has another job manager since"}


async def test_a_rescale_that_the_next_job_manager_refuses_fails_with_its_reason(dispatcher: RunningDispatcher) -> None:
    http, job = dispatcher.http, graph()
    path = f"/jobs/{job.job_id}/rescaling"
    async with dispatcher.running_job(job) as manager:
        await dispatcher.reported(manager, JobDetails(job.job_id, "j", JobStatus.RUNNING))
        trigger_id = (await http("PATCH", f"{path}?parallelism=3", status=200)).json["request-id"]
        await manager.next(RescaleRequest)
        await manager.disconnect()
        await manager.connect(dispatcher.service.address)
        manager.send(RescaleResult((await manager.next(RescaleRequest)).trigger_id, error="parallelism 3 is too much"))
        done = await answered(http, "GET", f"{path}/{trigger_id}", lambda found: found.json["operation"] is not None)
        assert "parallelism 3 is too much" in str(done.json["operation"]["failure-cause"])


@pytest.mark.parametrize(
    "body",
    [
        {}, {"v": 1}, {"v": {}}, {"v": {"parallelism": 1}}, {"v": bounds(0, 1)}, {"v": bounds(1, 10**9)},
        {"v": bounds(True, 1)}, {"v": bounds("1", 1)}, {"v": bounds(1.5, 2)}, {"v": {**bounds(1, 1), "x": 1}},
    ],
)  # fmt: skip
async def test_what_is_no_requirement_is_refused(dispatcher: RunningDispatcher, body: dict[str, Any]) -> None:
    job = graph()
    async with dispatcher.running_job(job):
        path = f"/jobs/{job.job_id}/resource-requirements"
        result = await dispatcher.http("PUT", path, json.dumps(body).encode(), status=400)
        assert "lowerBound" in result.json["errors"][0]


async def test_a_rescale_is_triggered_and_queried(dispatcher: RunningDispatcher) -> None:
    http, job = dispatcher.http, graph()
    path = f"/jobs/{job.job_id}/rescaling"
    async with dispatcher.running_job(job) as manager:
        for told, shown in (
            (RescaleResult("", "the job runs at parallelism 3"), {"message": "the job runs at parallelism 3"}),
            (RescaleResult("", error="no slots"), {"failure-cause": {"stack-trace": "no slots"}}),
        ):
            trigger_id = (await http("PATCH", f"{path}?parallelism=3")).json["request-id"]
            asked = await manager.next(RescaleRequest)
            assert (asked.job_id, asked.parallelism, asked.wait) == (job.job_id, 3, True)
            status = (await http("GET", f"{path}/{trigger_id}", status=200)).json
            assert status == {"status": {"id": "IN_PROGRESS"}, "operation": None}
            manager.send(RescaleResult(asked.trigger_id, told.message, told.error))
            done = await answered(
                http, "GET", f"{path}/{trigger_id}", lambda found: found.json["operation"] is not None
            )
            status = done.json
            jsonschema.validate(status, schemas.RESCALING_STATUS)
            status["operation"].get("failure-cause", {}).pop("class", None)
            assert status["operation"] == shown
        for wrong in ("", "?parallelism=0", "?parallelism=x", "?parallelism=99999999999"):
            await http("PATCH", f"{path}{wrong}", status=400)
        await http("GET", f"{path}/{'0' * 32}", status=404)
        manager.report(JobDetails(job.job_id, "j", JobStatus.FINISHED, end_time=9))
        await answered(http, "PATCH", f"{path}?parallelism=3", lambda found: found.status == 409)


async def test_events_are_shown_also_of_a_job_that_has_ended(dispatcher: RunningDispatcher) -> None:
    http, job = dispatcher.http, graph()
    path = f"/jobs/{job.job_id}/events"
    async with dispatcher.running_job(job) as manager:
        assert (await http("GET", path, status=200)).json == {"events": []}
        event = JobEvent(7, JobEventKind.RESCALE_FAILED, "to parallelism 2: no slots")
        manager.report(JobDetails(job.job_id, "j", JobStatus.FINISHED, end_time=9, events=(event,)))
        shown = (await answered(http, "GET", path, lambda found: bool(found.json["events"]))).json
        jsonschema.validate(shown, schemas.EVENTS)
        assert shown["events"] == [{"timestamp": 7, "kind": "RESCALE_FAILED", "message": "to parallelism 2: no slots"}]
    await http("GET", f"/jobs/{'0' * 32}/events", status=404)
