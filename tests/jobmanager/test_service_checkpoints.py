"""Checkpoints and restarts through the job manager's daemon: messages to task managers, and files in storage."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from fake_cluster import Cluster, FakeTaskManager, Task
from job_graphs import pipeline
from msgspec.structs import replace

from millstream.core.jobs.failure_kinds import DeclineReason
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import JobId, OperatorId
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.core.messages import checkpoints as cp
from millstream.core.messages import dispatcher as dp
from millstream.core.messages import task_manager as tm
from millstream.core.messages.deployment import CancelTasks, DeployTasks
from millstream.core.snapshot import OperatorSnapshot, StateFile, StateKind, StateSnapshot
from millstream.core.snapshot.metadata.operator_json import operators_from_json, operators_to_json


def checkpointed(directory: Path | None, **options: str) -> JobGraph:
    graph = pipeline(2)
    settings = {
        "execution.checkpointing.interval": "50 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "10 ms",
        **({"execution.checkpointing.dir": str(directory)} if directory is not None else {}),
        **options,
    }
    return replace(graph, configuration={**graph.configuration, **settings})


def operators(subtask: int) -> bytes:
    content = b"x" * (subtask + 1)
    path, checksum = f"v0/s/part-{subtask}-0.arrow", f"sha256:{'0' * 64}"
    file = StateFile(path, subtask, None, None, 1, len(content), checksum, content)
    state = StateSnapshot("s", StateKind.OPERATOR_LIST, files=(file,))
    return operators_to_json([OperatorSnapshot(OperatorId("v0"), None, "v0", 2, 128, (state,))])


async def triggered(task_manager: FakeTaskManager) -> tuple[int, str]:
    """The next checkpoint that is triggered at both tasks, and its folder."""
    first = await task_manager.next(cp.TriggerCheckpoint)
    second = await task_manager.next(cp.TriggerCheckpoint)
    while second.barrier.checkpoint_id != first.barrier.checkpoint_id:
        first, second = second, await task_manager.next(cp.TriggerCheckpoint)
    return first.barrier.checkpoint_id, first.barrier.location


async def acknowledge(task_manager: FakeTaskManager, tasks: list[Task], checkpoint_id: int) -> None:
    for subtask, (allocation, attempt) in enumerate(tasks):
        await task_manager.send(cp.CheckpointAck(allocation, attempt, checkpoint_id, operators(subtask)))


async def completion(task_manager: FakeTaskManager, checkpoint_id: int) -> None:
    while True:
        notice = await task_manager.next(cp.CheckpointNotice)
        if notice.checkpoint_id == checkpoint_id:
            assert notice.completed
            return


@pytest.mark.parametrize("storage", ["files", "memory"])
async def test_a_checkpoint_completes_and_a_failed_task_restores_from_it(
    tmp_path: Path, storage: str, cluster: Cluster
) -> None:
    graph = checkpointed(tmp_path if storage == "files" else None)
    task_manager, tasks = await cluster.running_job(graph)
    checkpoint_id, location = await triggered(task_manager)
    assert location.endswith(f"/job/chk-{checkpoint_id}")
    await acknowledge(task_manager, tasks, checkpoint_id)
    await completion(task_manager, checkpoint_id)
    if storage == "files":
        assert (tmp_path / "job" / f"chk-{checkpoint_id}" / "_metadata.json").exists()
    allocation, attempt = tasks[1]
    await task_manager.update(allocation, attempt, ExecutionState.FAILED, "ValueError: bad")
    deploy = await task_manager.next(DeployTasks)
    (task,) = deploy.tasks
    assert (deploy.allocation_id, task.subtask, task.attempt) == (allocation, 1, 1)
    assert task.restore_location == location
    assert operators_from_json(task.restore, "test") == operators_from_json(operators(1), "test")
    await task_manager.update(allocation, task.attempt_id, ExecutionState.RUNNING)
    later, _ = await triggered(task_manager)
    assert later > checkpoint_id
    await task_manager.update_all([tasks[0], (allocation, task.attempt_id)], ExecutionState.FINISHED)
    details = await cluster.details_in(JobStatus.FINISHED)
    assert details.failures[0].exception == "ValueError: bad"


@pytest.mark.parametrize("storage", ["files", "memory"])
async def test_a_job_that_fails_names_its_last_checkpoint_or_that_it_is_lost(
    tmp_path: Path, storage: str, cluster: Cluster
) -> None:
    graph = checkpointed(tmp_path if storage == "files" else None, **{"restart-strategy.type": "none"})
    task_manager, tasks = await cluster.running_job(graph)
    checkpoint_id, location = await triggered(task_manager)
    await acknowledge(task_manager, tasks, checkpoint_id)
    await completion(task_manager, checkpoint_id)
    await task_manager.update(*tasks[0], ExecutionState.FAILED, "ValueError: bad")
    await task_manager.update(*tasks[1], ExecutionState.CANCELED)
    details = await cluster.details_in(JobStatus.FAILED)
    kept = f"its last completed checkpoint is kept: {location}; `millstream run -s {location} PROGRAM`"
    lost = "its last completed checkpoint was in the job manager's memory and is lost: set execution.checkpointing.dir"
    expected = kept if storage == "files" else lost
    assert expected in details.message
    assert expected in details.events[-1].message


async def test_what_arrives_while_a_job_manager_stops_completes_no_checkpoint(
    tmp_path: Path, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    task_manager, tasks = await cluster.running_job(checkpointed(tmp_path))
    checkpoint_id, _ = await triggered(task_manager)
    stopping = asyncio.create_task(cluster.service.stop())
    await asyncio.sleep(0)
    await acknowledge(task_manager, tasks, checkpoint_id)
    await stopping
    assert not (tmp_path / "job" / f"chk-{checkpoint_id}" / "_metadata.json").exists()
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_without_a_checkpoint_a_job_starts_from_nothing(tmp_path: Path, cluster: Cluster) -> None:
    task_manager, tasks = await cluster.running_job(checkpointed(tmp_path))
    await triggered(task_manager)
    await task_manager.update(*tasks[0], ExecutionState.FAILED, "ValueError: bad")
    (task,) = (await task_manager.next(DeployTasks)).tasks
    assert (task.restore, task.restore_location, task.attempt) == (b"", "", 1)


async def test_a_checkpoint_that_is_declined_too_often_fails_the_job(tmp_path: Path, cluster: Cluster) -> None:
    graph = checkpointed(tmp_path, **{"restart-strategy.type": "none"})
    task_manager, tasks = await cluster.running_job(graph)
    checkpoint_id, _ = await triggered(task_manager)
    allocation, attempt = tasks[0]
    raised = TaskFailure(
        exception="OSError: disk full", traceback="Traceback ...\n", task_name="task", operator_name="map",
        vertex_id=graph.vertices[0].id, final=True,
    )  # fmt: skip
    decline = cp.CheckpointDecline(allocation, attempt, checkpoint_id, DeclineReason.NOT_WRITTEN, "disk full", raised)
    await task_manager.send(decline)
    for held, running in tasks:
        assert (await task_manager.next(CancelTasks)).allocation_id == held
        await task_manager.update(held, running, ExecutionState.CANCELED)
    (failure,) = (await cluster.details_in(JobStatus.FAILED)).failures
    assert failure.exception.startswith(f"CheckpointFailure: checkpoint {checkpoint_id} failed")
    assert "disk full" in failure.exception
    assert failure.traceback == f"Traceback ...\n\n{failure.exception}"
    assert (failure.task_name, failure.operator_name) == ("task", "map")


async def test_when_all_inputs_have_ended_a_last_checkpoint_is_taken_and_failed_commits_are_repeated(
    tmp_path: Path, cluster: Cluster
) -> None:
    graph = checkpointed(tmp_path, **{"execution.checkpointing.interval": "1 h"})
    task_manager, tasks = await cluster.running_job(graph)
    for allocation, attempt in tasks:
        await task_manager.send(cp.InputsEnded(allocation, attempt))
    checkpoint_id, _ = await triggered(task_manager)
    for subtask, (allocation, attempt) in enumerate(tasks):
        ack = cp.CheckpointAck(
            allocation, attempt, checkpoint_id, operators(subtask),
            start_delay_ms=3, processed_bytes=4, persisted_bytes=5, unaligned=True,
        )  # fmt: skip
        await task_manager.send(ack)
    told = [await task_manager.next(cp.CheckpointNotice) for _ in tasks]
    assert all(notice.completed and notice.checkpoint_id == checkpoint_id for notice in told)
    (latest,) = cluster.service.jobs[JobId("job")].checkpoints.coordinator.retained
    metrics = latest.content.snapshots[0].metrics
    measured = (metrics.start_delay_ms, metrics.processed_bytes, metrics.persisted_bytes, metrics.unaligned)
    assert measured == (3, 4, 5, True)
    allocation, attempt = tasks[1]
    await task_manager.send(cp.CommitFailed(allocation, attempt, checkpoint_id, "the broker is away"))
    again = await task_manager.next(cp.CheckpointNotice)
    assert (again.checkpoint_id, again.completed, again.attempt_ids) == (checkpoint_id, True, (attempt,))


async def test_deployments_have_whether_a_last_checkpoint_will_be_taken(tmp_path: Path, cluster: Cluster) -> None:
    """A task manager with other defaults than the job manager's must not wait for a checkpoint that never comes."""
    graph = checkpointed(tmp_path)
    plain = {key: value for key, value in graph.configuration.items() if "checkpointing.interval" not in key}
    await cluster.submit(replace(graph, configuration=plain))
    task_manager = cluster.task_manager()
    for allocation in ("a0", "a1"):
        assert await task_manager.offer(allocation)
    start = await task_manager.next(tm.StartWorker)
    assert start.configuration["execution.checkpointing.interval"] == "0 ms"
    assert start.configuration["execution.checkpointing.checkpoints-after-tasks-finish.enabled"] == "true"


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("execution.checkpointing.num-retained", "0", "it must be 1 or more"),
        ("execution.checkpointing.no-such-thing", "1", "unknown option"),
    ],
)
async def test_settings_that_are_refused_fail_the_job_with_the_reason(
    tmp_path: Path, key: str, value: str, reason: str, cluster: Cluster
) -> None:
    cluster.dispatcher.send(dp.StartJob(checkpointed(tmp_path, **{key: value})))  # it declares no slots
    details = await cluster.details_in(JobStatus.FAILED)
    assert reason in details.failures[0].exception


async def test_a_directory_for_checkpoints_that_cannot_be_made_fails_the_job_whatever_its_strategy(
    tmp_path: Path, cluster: Cluster
) -> None:
    (tmp_path / "file").touch()
    await cluster.submit(checkpointed(tmp_path / "file"))
    details = await cluster.details_in(JobStatus.FAILED)
    (failure,) = details.failures
    assert failure.exception.startswith(f"option 'execution.checkpointing.dir': file://{tmp_path}/file: ")
