"""The job manager returns why a job emits nothing, from what its workers reported."""

from __future__ import annotations

import json
from typing import Any

from fake_cluster import Cluster
from job_graphs import pipeline

from millstream.core.jobs.ids import AttemptId, JobId
from millstream.core.jobs.progress import EventTime, OperatorProgress, PendingCommits, TaskProgress
from millstream.core.messages.queries import JobQuery, JobQueryResult, JobView
from millstream.core.messages.task_manager import AttemptMetrics, TaskMetricsReport

JOB = JobId("job")


async def ask(cluster: Cluster, job_id: str = JOB) -> JobQueryResult:
    cluster.dispatcher.send(JobQuery(JobId(job_id), JobView.STALL, request_id="q"))
    response = await cluster.dispatcher.next(JobQueryResult)
    assert response.request_id == "q"
    return response


async def test_the_stall_of_a_job_that_waits_for_slots(cluster: Cluster) -> None:
    await cluster.submit(pipeline(2))
    told: Any = json.loads((await ask(cluster)).json)
    assert told["findings"][0]["message"] == "The job does not run, it is CREATED: waiting for slots: 0 of 2."
    assert "does not run job other" in (await ask(cluster, "other")).error


async def test_a_sink_that_waits_for_a_checkpoint_is_named(cluster: Cluster) -> None:
    task_manager, tasks = await cluster.running_job()
    while json.loads((await ask(cluster)).json)["findings"]:
        pass  # its tasks are starting
    allocation, attempt = tasks[0]
    sink = OperatorProgress("Sink: files", PendingCommits(0, 1_700_000_000_000))
    progress = TaskProgress(EventTime(5), (sink,))
    report = TaskMetricsReport(allocation, (AttemptMetrics(AttemptId(attempt), progress=progress),))
    await task_manager.send(report)
    while not (findings := json.loads((await ask(cluster)).json)["findings"]):
        pass
    assert findings[0]["message"] == (
        "'Sink: files' has written records since 2023-11-14 22:13:20 UTC that are not committed: that happens when "
        "a checkpoint completes, and the job takes none."
    )
