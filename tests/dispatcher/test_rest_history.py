"""The last hour of a job over REST, and how jobs are: what a page shows before it has seen anything itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import jsonschema
import pytest
from dispatcher_fixtures import FakeJobManager, RunningDispatcher, eventually, graph
from msgspec.structs import replace

from millstream.core.jobs.details import JobDetails, SubtaskStatus, TaskMetrics
from millstream.core.jobs.ids import JobId
from millstream.core.jobs.stalls import FindingKind
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.core.messages.queries import JobQuery, JobQueryResult
from millstream.dispatcher.details import submitted_details
from millstream.dispatcher.history.health import Condition, Health, health
from millstream.dispatcher.rest import history_schemas


async def until(found: Callable[[], Awaitable[Any]]) -> Any:
    """What is found, as soon as it is something."""
    results: list[Any] = []

    async def looked() -> bool:
        results.append(await found())
        return bool(results[-1])

    await eventually(looked)
    return results[-1]


def after(details: JobDetails, seconds: float) -> JobDetails:
    """The job when it has run for so long: its source emits 200 records per second, half of which its chain drops."""
    ms = round(seconds * 1000)
    running = ExecutionState.RUNNING
    metrics = TaskMetrics(records_in=ms // 5, records_out=ms // 10, busy_ms=ms // 2, idle_ms=ms // 2)
    return replace(
        details,
        state=JobStatus.RUNNING,
        vertices=tuple(
            replace(vertex, subtasks=tuple(SubtaskStatus(s.index, running, metrics=metrics) for s in vertex.subtasks))
            for vertex in details.vertices
        ),
    )


class Reporting:
    """Reports a job again and again, as a job manager does."""

    def __init__(self, manager: FakeJobManager, details: JobDetails) -> None:
        self._manager = manager
        self._details = details
        self._began = asyncio.get_running_loop().time()

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._report())

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _report(self) -> None:
        while True:
            self._manager.report(after(self._details, asyncio.get_running_loop().time() - self._began))
            await asyncio.sleep(0.2)


async def test_what_was_recorded_before_a_page_asks(dispatcher: RunningDispatcher) -> None:
    http, job = dispatcher.http, graph()
    source, sink = (vertex.id for vertex in job.vertices)
    path = f"/jobs/{job.job_id}/history"
    async with dispatcher.running_job(job) as manager, Reporting(manager, submitted_details(job, 1)):

        async def recorded() -> Any:
            found = (await http("GET", path, status=200)).json
            jsonschema.validate(found, history_schemas.JOB_HISTORY)
            return found if sum(v is not None for s in found["series"] for v in s["values"]) >= 2 else None

        found = await until(recorded)
        (series,) = found["series"]
        assert found["recorded"] is True
        assert (series["vertex"], series["figure"]) == (source, "records-in"), "of the sources, when not chosen"
        assert len(series["values"]) == len(found["times"])
        assert found["times"] == sorted(found["times"])
        assert found["times"][-1] <= found["now"]
        assert series["values"][-1] == pytest.approx(200, rel=0.4), "what the source emits, not what is left of it"
        both = (await http("GET", f"{path}?vertices={source},{sink}&figures=busy,records-in", status=200)).json
        assert [(s["vertex"], s["figure"]) for s in both["series"]] == [
            (source, "busy"), (source, "records-in"), (sink, "busy"), (sink, "records-in"),
        ]  # fmt: skip
        assert both["series"][2]["values"][-1] == pytest.approx(0.5, abs=0.01)
        of_vertex = f"/jobs/{job.job_id}/vertices/{sink}/history"
        ids = "1.busyTimeMsPerSecond,numRecordsOutPerSecond,0.shuffle"
        shown = (await http("GET", f"{of_vertex}?get={ids}", status=200)).json
        jsonschema.validate(shown, history_schemas.VERTEX_HISTORY)
        values = {s["id"]: s["values"] for s in shown["series"]}
        assert values["1.busyTimeMsPerSecond"][-1] == pytest.approx(500, abs=10)
        assert values["numRecordsOutPerSecond"][-1] == pytest.approx(200, rel=0.9), "of both subtasks"
        assert set(values["0.shuffle"]) == {None}
    await http("GET", f"/jobs/{'0' * 32}/history", status=404)


async def test_what_cannot_be_shown_is_refused(dispatcher: RunningDispatcher) -> None:
    http, job = dispatcher.http, graph()
    await dispatcher.submit(job)
    path = f"/jobs/{job.job_id}/history"
    (error,) = (await http("GET", f"{path}?figures=speed", status=400)).json["errors"]
    assert error.startswith("figures: 'speed' is not one of records-in, ")
    (error,) = (await http("GET", f"{path}?vertices=x", status=404)).json["errors"]
    assert error == "the job has no vertex 'x'"
    many = ",".join(f"{number}.a" for number in range(65))
    (error,) = (
        await http("GET", f"/jobs/{job.job_id}/vertices/{job.vertices[0].id}/history?get={many}", status=400)
    ).json["errors"]
    assert "at most 64" in error


async def test_how_jobs_are(dispatcher: RunningDispatcher) -> None:
    """What the job manager finds counts; when it does not return anything, what it reports."""
    http, job = dispatcher.http, graph()
    details = submitted_details(job, 1)
    async with dispatcher.running_job(job) as manager:

        async def shown() -> Any:
            found = (await http("GET", "/jobs/health", status=200)).json
            jsonschema.validate(found, history_schemas.JOBS_HEALTH)
            (one,) = found["jobs"]
            return one

        async def responses() -> None:
            while True:
                query = await manager.next(JobQuery)
                finding = {"kind": "WATERMARK_HELD_BACK", "message": "The watermark stands still."}
                manager.send(JobQueryResult(query.request_id, json.dumps({"findings": [finding]}).encode()))

        manager.report(after(details, 1))

        async def runs() -> Any:
            one = await shown()
            return one["health"] == "RUNNING"

        await until(runs)
        answering = asyncio.create_task(responses())

        async def stalls() -> Any:
            one = await shown()
            return one if one["health"] == "STALLED" else None

        assert (await until(stalls))["reason"] == "The watermark stands still."
        answering.cancel()
        manager.report(replace(details, state=JobStatus.RESTARTING))

        async def restarts() -> Any:
            return (await shown())["health"] == "RESTARTING"

        await until(restarts)


@pytest.mark.parametrize(
    ("kinds", "condition"),
    [
        ([], Condition.RUNNING),
        ([FindingKind.BACKPRESSURE], Condition.BACKPRESSURED),
        ([FindingKind.BACKPRESSURE, FindingKind.WATERMARK_HELD_BACK], Condition.STALLED),
        ([FindingKind.NO_RECORDS], Condition.IDLE),
        ([FindingKind.NO_RECORDS, FindingKind.BACKPRESSURE], Condition.BACKPRESSURED),
        ([FindingKind.NOT_RUNNING], Condition.STARTING),
        ([FindingKind.NOT_RUNNING, FindingKind.RESTARTS_OFTEN], Condition.UNSTABLE),
        ([FindingKind.RESTARTS_OFTEN, FindingKind.NOT_RESPONDING], Condition.STALLED),
        ([FindingKind.NOT_RESPONDING], Condition.STALLED),
        ([FindingKind.INPUT_NOT_ENDED, FindingKind.PAUSED_FOR_ALIGNMENT], Condition.RUNNING),
    ],
)
def test_the_most_urgent_finding_counts(kinds: list[FindingKind], condition: Condition) -> None:
    details = JobDetails(JobId("j"), "job", JobStatus.RUNNING)
    found = health(details, [(kind, f"about {kind}") for kind in kinds])
    assert found.condition == condition
    assert (found.reason == "") == (condition is Condition.RUNNING)
    assert health(replace(details, state=JobStatus.FAILING), [(k, "") for k in kinds]) == Health("FAILING")


def test_without_findings_the_last_report_counts() -> None:
    details = submitted_details(graph(), 1)
    running = replace(details, state=JobStatus.RUNNING)
    assert health(running, None) == Health("RUNNING")
    first = running.vertices[0]
    pressed = replace(first, subtasks=(SubtaskStatus(0, ExecutionState.RUNNING, backpressured_percent=80),))
    assert health(replace(running, vertices=(pressed, *running.vertices[1:])), None) == Health("BACKPRESSURED")
