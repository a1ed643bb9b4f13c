"""Rescales through the job manager's daemon: responses to the dispatcher, and messages to task managers."""

from __future__ import annotations

from pathlib import Path

from fake_cluster import Cluster, FakeTaskManager
from job_graphs import pipeline
from msgspec.structs import replace
from test_service_checkpoints import acknowledge, checkpointed, triggered

from millstream.core.jobs.details import JobDetails, TaskMetrics
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import JobId, VertexId
from millstream.core.jobs.job_events import JobEventKind
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.core.messages import checkpoints as cp
from millstream.core.messages import resource_manager as rm
from millstream.core.messages import task_manager as tm
from millstream.core.messages.deployment import CancelTasks, DeployTasks
from millstream.core.messages.rescaling import RescaleRequest, RescaleResult, VertexBounds
from millstream.core.snapshot.metadata.operator_json import operators_from_json

JOB = JobId("job")


async def cancel_all(
    task_manager: FakeTaskManager, slots: int, ending: ExecutionState = ExecutionState.CANCELED
) -> None:
    for _ in range(slots):
        told = await task_manager.next(CancelTasks)
        for attempt in told.attempt_ids:
            await task_manager.update(told.allocation_id, attempt, ending)


async def test_a_job_continues_at_another_parallelism_from_the_checkpoint_that_was_taken_for_it(
    tmp_path: Path, cluster: Cluster
) -> None:
    graph = checkpointed(tmp_path, **{"execution.checkpointing.interval": "1 h"})
    task_manager, tasks = await cluster.running_job(graph)
    cluster.dispatcher.send(RescaleRequest(JOB, "t1", parallelism=1, wait=True))
    checkpoint_id, location = await triggered(task_manager)
    await acknowledge(task_manager, tasks, checkpoint_id)
    await cancel_all(task_manager, 2)
    details = await cluster.details_in(JobStatus.RESTARTING)
    assert details.message.startswith("re"), "rescaling, or restoring after it"
    deploy = await task_manager.next(DeployTasks)
    (task,) = deploy.tasks
    assert (task.subtask, task.parallelism, task.max_parallelism, task.attempt) == (0, 1, 128, 1)
    assert (task.restored_checkpoint_id, task.restore_location) == (checkpoint_id, location)
    (operator,) = operators_from_json(task.restore, "test")
    assert len(operator.states[0].files) == 2, "what both subtasks wrote"
    await task_manager.update(deploy.allocation_id, task.attempt_id, ExecutionState.RUNNING)
    assert await cluster.dispatcher.next(RescaleResult) == RescaleResult("t1", "the job runs at parallelism 1")
    freed = await task_manager.next(tm.FreeSlot)
    assert freed.allocation_id in {"a0", "a1"} - {deploy.allocation_id}
    cluster.dispatcher.send(RescaleRequest(JOB, "t1", parallelism=1, wait=True))
    assert (await cluster.dispatcher.next(RescaleResult)).message, "the same request again is answered again"


async def test_the_next_checkpoint_after_a_rescale_is_a_full_one_of_the_new_tasks(
    tmp_path: Path, cluster: Cluster
) -> None:
    graph = checkpointed(tmp_path, **{"execution.checkpointing.interval": "1 h"})
    task_manager, tasks = await cluster.running_job(graph)
    cluster.dispatcher.send(RescaleRequest(JOB, "t1", parallelism=1, wait=True))
    checkpoint_id, _ = await triggered(task_manager)
    await acknowledge(task_manager, tasks, checkpoint_id)
    await cancel_all(task_manager, 2)
    deploy = await task_manager.next(DeployTasks)
    attempt = deploy.tasks[0].attempt_id
    await task_manager.update(deploy.allocation_id, attempt, ExecutionState.RUNNING)
    await cluster.dispatcher.next(RescaleResult)
    cluster.dispatcher.send(RescaleRequest(JOB, "t2", parallelism=2, wait=True))
    assert [(await cluster.resource_manager.next(rm.Requirement)).slots for _ in range(2)] == [1, 2]
    assert await task_manager.offer("a9")
    await task_manager.run_worker("a9")
    trigger = await task_manager.next(cp.TriggerCheckpoint)
    assert trigger.barrier.full
    assert trigger.attempt_ids == (attempt,)
    await acknowledge(task_manager, [(deploy.allocation_id, attempt)], trigger.barrier.checkpoint_id)
    await cancel_all(task_manager, 1)
    both = [await task_manager.next(DeployTasks) for _ in range(2)]
    assert {task.subtask for told in both for task in told.tasks} == {0, 1}


async def test_a_task_that_finishes_while_it_is_cancelled_runs_again_like_the_others(
    tmp_path: Path, cluster: Cluster
) -> None:
    graph = checkpointed(tmp_path, **{"execution.checkpointing.interval": "1 h"})
    task_manager, tasks = await cluster.running_job(graph)
    cluster.dispatcher.send(RescaleRequest(JOB, "t1", parallelism=1, wait=True))
    checkpoint_id, _ = await triggered(task_manager)
    await acknowledge(task_manager, tasks, checkpoint_id)
    await cancel_all(task_manager, 1, ExecutionState.FINISHED)
    await cancel_all(task_manager, 1)
    deploy = await task_manager.next(DeployTasks)
    await task_manager.update(deploy.allocation_id, deploy.tasks[0].attempt_id, ExecutionState.RUNNING)
    assert not (await cluster.dispatcher.next(RescaleResult)).error


async def test_bounds_that_make_no_sense_are_refused(cluster: Cluster) -> None:
    await cluster.running_job()
    for request in (
        RescaleRequest(JOB, "t1", bounds=(VertexBounds(VertexId("v0"), 3, 2),)),
        RescaleRequest(JOB, "t2", bounds=(VertexBounds(VertexId("other"), 1, 2),)),
        RescaleRequest(JOB, "t3", parallelism=1_000),
        RescaleRequest(JobId("unknown"), "t4", parallelism=1),
    ):
        cluster.dispatcher.send(request)
        response = await cluster.dispatcher.next(RescaleResult)
        assert response.trigger_id == request.trigger_id
        assert response.error


def scaled(graph: JobGraph, **options: str) -> JobGraph:
    own = {
        "job.autoscaler.enabled": "true",
        "job.autoscaler.stabilization.interval": "0 s",
        "job.autoscaler.metrics.window": "100 ms",
        **options,
    }
    return replace(graph, configuration={**graph.configuration, **own})


async def test_a_decision_of_the_autoscaler_is_in_the_jobs_events_with_its_reason(cluster: Cluster) -> None:
    graph = scaled(pipeline(2), **{"job.autoscaler.scaling.enabled": "false", "metrics.fetcher.update-interval": "1 s"})
    task_manager, tasks = await cluster.running_job(graph)
    busy = 0
    details: JobDetails | None = None
    while details is None or not details.events:
        busy += 1_000
        for allocation, attempt in tasks:
            report = tm.AttemptMetrics(attempt, TaskMetrics(records_in=busy, records_out=busy, busy_ms=busy))
            await task_manager.send(tm.TaskMetricsReport(allocation, (report,)))
        details = await cluster.dispatcher.next(JobDetails)
    (event, *_) = details.events
    assert event.kind is JobEventKind.SCALING_DECISION
    assert event.message.startswith("'v0' 2 -> 3: busy 100%")
    assert details.state is JobStatus.RUNNING
