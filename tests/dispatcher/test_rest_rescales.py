"""The history of rescales over REST, in Flink's shapes."""

from __future__ import annotations

from dispatcher_fixtures import RunningDispatcher, graph
from msgspec.structs import replace

from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.rescales import RescaleCause, RescaleEnd, RescaleHistory
from millstream.core.jobs.states import JobStatus


def at(job: JobGraph, parallelism: int) -> JobGraph:
    return replace(job, vertices=tuple(replace(vertex, parallelism=parallelism) for vertex in job.vertices))


def history(job: JobGraph) -> RescaleHistory:
    made, bounds = RescaleHistory(), {job.vertices[0].id: (1, 4)}
    made.begin(RescaleCause.INITIAL_SCHEDULE, None, at(job, 2), bounds, 1_000)
    made.step("WaitingForResources", 1_000)
    made.end(RescaleEnd.SUCCEEDED, at(job, 2), 1_500)
    made.begin(RescaleCause.UPDATE_REQUIREMENT, at(job, 2), at(job, 4), bounds, 2_000)
    made.step("WaitingForResources", 2_000)
    made.end(RescaleEnd.EXCEPTION_OCCURRED, at(job, 2), 2_300, "no slots")
    made.begin(RescaleCause.NEW_RESOURCE_AVAILABLE, at(job, 2), at(job, 3), bounds, 3_000)
    return made


async def test_rescales_in_flinks_shapes(dispatcher: RunningDispatcher) -> None:
    get, job = await dispatcher.checked(), graph()
    root = "/jobs/{jobid}/rescales"
    async with dispatcher.running_job(job) as manager:
        options = {"jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "7 s"}
        details = JobDetails(
            job.job_id, job.name, JobStatus.RUNNING, rescales=history(job).encoded, configuration=options
        )
        await dispatcher.reported(manager, details)
        overview = await get("GET", f"{root}/overview", job.job_id)
        assert overview["rescalesCounts"] == {"ignored": 0, "inProgress": 1, "completed": 1, "failed": 1}
        assert overview["latest"]["ignored"] is None
        failed = overview["latest"]["failed"]
        assert (failed["terminalState"], failed["terminatedReason"]) == ("FAILED", "EXCEPTION_OCCURRED")
        assert failed["schedulerStates"] == [{
            "state": "WaitingForResources", "enterTimestampInMillis": 2_000, "leaveTimestampInMillis": 2_300,
            "durationInMillis": 300, "stringifiedException": "no slots",
        }]  # fmt: skip
        vertex = failed["vertices"][job.vertices[0].id]
        assert (vertex["preRescaleParallelism"], vertex["desiredParallelism"], vertex["postRescaleParallelism"]) == (
            2, 4, 2,
        )  # fmt: skip
        assert (vertex["sufficientParallelism"], vertex["requiredParallelisms"]["maxParallelism"]) == (1, 4)
        (group,) = failed["slots"].values()
        assert (group["preRescaleSlots"], group["desiredSlots"], group["postRescaleSlots"]) == (2, 4, 2)

        summary = await get("GET", f"{root}/summary", job.job_id)
        assert summary["rescalesDurationStatsInMillis"]["avg"] == 400
        assert summary["completedRescalesDurationStatsInMillis"]["p99"] == 500
        assert summary["ignoredRescalesDurationStatsInMillis"]["max"] == 0
        listed = await get("GET", f"{root}/history", job.job_id)
        assert [one["rescaleAttemptId"] for one in listed] == [3, 2, 1]
        assert (listed[0]["terminalState"], listed[0]["endTimestampInMillis"]) == (None, None)
        assert listed[2]["vertices"][job.vertices[0].id]["preRescaleParallelism"] is None
        uuid = listed[1]["rescaleUuid"]
        assert await get("GET", f"{root}/details/{{rescaleuuid}}", job.job_id, uuid) == failed
        unknown = await dispatcher.http("GET", f"/jobs/{job.job_id}/rescales/details/{'0' * 32}", status=404)
        assert "has no rescale" in unknown.json["errors"][0]
        config = await get("GET", f"{root}/config", job.job_id)
        assert (config["executingCooldownTimeoutInMillis"], config["schedulerExecutionMode"]) == (7_000, None)
