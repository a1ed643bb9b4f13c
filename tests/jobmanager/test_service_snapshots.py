"""Snapshots through the job manager's daemon: requested, completed with one response, shown, and started from."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import Cluster, FakeTaskManager, Task
from job_graphs import pipeline
from test_service_checkpoints import acknowledge, checkpointed, completion, operators, triggered
from waiting import wait_until

from millstream.core.jobs.failure_kinds import DeclineReason
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import JobId, OperatorId
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.core.messages import dispatcher as dp
from millstream.core.messages import resource_manager as rm
from millstream.core.messages.checkpoints import CheckpointAck, CheckpointDecline, TriggerCheckpoint
from millstream.core.messages.deployment import CancelTasks
from millstream.core.messages.queries import JobQuery, JobQueryResult, JobView
from millstream.core.messages.snapshots import (
    SnapshotRequest,
    SnapshotRequestKind,
    SnapshotResult,
)
from millstream.core.snapshot import FileSystemStorage, OperatorSnapshot, StateFile, StateKind, StateSnapshot
from millstream.core.snapshot.metadata.operator_json import operators_from_json, operators_to_json

JOB = JobId("job")
NO_PERIODIC = {"execution.checkpointing.interval": "0 ms"}


def ask(cluster: Cluster, trigger: str, **wanted: Any) -> None:
    cluster.dispatcher.send(SnapshotRequest(**{"job_id": JOB, "trigger_id": trigger, **wanted}))


async def running(cluster: Cluster, graph: JobGraph) -> tuple[FakeTaskManager, list[Task]]:
    """A job whose tasks are known to run."""
    started = await cluster.running_job(graph)
    while {s.state for v in (await cluster.details_in(JobStatus.RUNNING)).vertices for s in v.subtasks} != {"RUNNING"}:
        pass
    return started


async def eventually(condition: Callable[[], Any]) -> None:
    """For what happens on threads of the service and on the disk, which no event reports."""
    await asyncio.to_thread(wait_until, condition, "what the test waits for")


async def gone(path: Path) -> None:
    await eventually(lambda: not path.exists())


def names(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()]


async def query(cluster: Cluster, kind: JobView = JobView.CHECKPOINTS, **wanted: Any) -> Any:
    cluster.dispatcher.send(JobQuery(**{"request_id": "q", "job_id": JOB, "kind": kind, **wanted}))
    reply = await cluster.dispatcher.next(JobQueryResult)
    assert reply.request_id == "q"
    assert bool(reply.error) != bool(reply.json)
    return reply.error or json.loads(reply.json)


async def savepoint_of(cluster: Cluster, task_manager: FakeTaskManager, tasks: Any, **wanted: Any) -> Path:
    ask(cluster, "t1", **wanted)
    checkpoint_id, location = await triggered(task_manager)
    await acknowledge(task_manager, tasks, checkpoint_id)
    result = await cluster.dispatcher.next(SnapshotResult)
    assert (result.trigger_id, result.checkpoint_id, result.location, result.error) == (
        "t1", checkpoint_id, location, "",
    )  # fmt: skip
    return Path(location.removeprefix("file://"))


@pytest.mark.parametrize("storage", ["files", "memory"])
async def test_a_savepoint_goes_into_files_with_or_without_checkpoints(
    tmp_path: Path, storage: str, cluster: Cluster
) -> None:
    directory = tmp_path / "checkpoints" if storage == "files" else None
    task_manager, tasks = await running(cluster, checkpointed(directory, **NO_PERIODIC))
    folder = await savepoint_of(cluster, task_manager, tasks, target_directory=f"file:{tmp_path}/savepoints")
    assert folder.parent == tmp_path / "savepoints"
    assert (folder / "_metadata.json").exists()
    overview = await query(cluster)
    assert overview["latest"]["savepoint"]["external_path"] == folder.as_uri()


@pytest.mark.parametrize(("wanted", "native"), [("", False), ("CANONICAL", False), ("NATIVE", True)])
async def test_the_format_travels_with_the_barrier(tmp_path: Path, wanted: str, native: bool, cluster: Cluster) -> None:
    option = {"execution.checkpointing.savepoint-dir": str(tmp_path)}
    task_manager, _ = await running(cluster, checkpointed(None, **NO_PERIODIC, **option))
    ask(cluster, "t1", format=wanted)
    trigger = await task_manager.next(TriggerCheckpoint)
    assert (trigger.barrier.is_savepoint, trigger.barrier.native) == (True, native)
    assert trigger.barrier.location.startswith(f"{tmp_path.as_uri()}/savepoint-job-")


async def test_the_response_to_a_checkpoint_on_demand_has_its_path(tmp_path: Path, cluster: Cluster) -> None:
    task_manager, tasks = await running(cluster, checkpointed(tmp_path, **NO_PERIODIC))
    await savepoint_of(cluster, task_manager, tasks, kind=SnapshotRequestKind.CHECKPOINT, full=True)
    assert (tmp_path / "job" / "chk-1" / "_metadata.json").exists()


async def test_the_same_request_again_gets_the_same_response_without_effect(tmp_path: Path, cluster: Cluster) -> None:
    task_manager, tasks = await running(cluster, checkpointed(None, **NO_PERIODIC))
    ask(cluster, "t1", target_directory=str(tmp_path))
    folder = await savepoint_of(cluster, task_manager, tasks, target_directory=str(tmp_path))
    ask(cluster, "t1", target_directory=str(tmp_path))
    again = await cluster.dispatcher.next(SnapshotResult)
    assert again.location == folder.as_uri()
    assert names(tmp_path) == [folder.name]


async def test_a_result_waits_for_a_dispatcher_that_is_away(tmp_path: Path, cluster: Cluster) -> None:
    task_manager, tasks = await running(cluster, checkpointed(None, **NO_PERIODIC))
    ask(cluster, "t1", target_directory=str(tmp_path))
    checkpoint_id, location = await triggered(task_manager)
    await cluster.dispatcher.stop()
    await acknowledge(task_manager, tasks, checkpoint_id)
    await eventually(lambda: list(tmp_path.rglob("_metadata.json")))
    await cluster.dispatcher.start()
    result = await cluster.dispatcher.next(SnapshotResult)
    assert (result.trigger_id, result.location) == ("t1", location)


async def test_a_snapshot_that_cannot_be_taken_is_refused_with_the_reason(tmp_path: Path, cluster: Cluster) -> None:
    async def error(trigger: str, **wanted: Any) -> str:
        ask(cluster, trigger, **wanted)
        result = await cluster.dispatcher.next(SnapshotResult)
        assert result.trigger_id == trigger
        return result.error

    assert "does not run job nobody" in await error("t1", job_id="nobody")
    assert "does not run job nobody" in await query(cluster, job_id="nobody")
    await cluster.submit(checkpointed(None, **NO_PERIODIC))
    later = "not all tasks of the job are running; try again when the job is RUNNING"
    assert await error("t2", target_directory=str(tmp_path)) == later
    assert "execution.checkpointing.savepoint-dir" in await error("t3")
    assert "'ODD' is not a format of savepoints, which are CANONICAL, NATIVE" in await error("t4", format="ODD")
    (tmp_path / "file").touch()
    assert str(tmp_path / "file") in await error("t5", target_directory=str(tmp_path / "file"))
    cluster.dispatcher.send(dp.CancelJob(JOB))
    await cluster.details_in(JobStatus.CANCELED)
    assert (await cluster.resource_manager.next(rm.Requirement)).slots == 0
    assert await error("t6", target_directory=str(tmp_path)) == "job job has ended, it is CANCELED"
    cluster.dispatcher.send(dp.StartJob(pipeline_with_odd_settings()))
    assert (await cluster.details_in(JobStatus.FAILED)).checkpoints == b""
    assert "has ended" in await error("t7", job_id="odd")
    assert "job odd: checkpoints are disabled: option" in await query(cluster, job_id="odd")


def pipeline_with_odd_settings() -> JobGraph:
    graph = pipeline(2, job_id="odd")
    graph.configuration["execution.checkpointing.num-retained"] = "0"
    return graph


async def test_checkpoint_statistics_are_returned_also_when_the_job_has_ended(tmp_path: Path, cluster: Cluster) -> None:
    task_manager, tasks = await running(cluster, checkpointed(tmp_path, **NO_PERIODIC))
    await savepoint_of(cluster, task_manager, tasks, kind=SnapshotRequestKind.CHECKPOINT)
    assert (await query(cluster))["counts"]["completed"] == 1
    assert (await query(cluster, JobView.CHECKPOINT_CONFIG))["state_backend"] == "hashmap"
    details = await query(cluster, JobView.CHECKPOINT_DETAILS, checkpoint_id=1)
    assert details["tasks"]["v0"]["num_acknowledged_subtasks"] == 2
    subtasks = await query(cluster, JobView.CHECKPOINT_SUBTASKS, checkpoint_id=1, vertex_id="v0")
    assert [s["status"] for s in subtasks["subtasks"]] == ["completed", "completed"]
    assert "has no checkpoint 7" in await query(cluster, JobView.CHECKPOINT_DETAILS, checkpoint_id=7)
    assert "has no vertex v9" in await query(cluster, JobView.CHECKPOINT_SUBTASKS, checkpoint_id=1, vertex_id="v9")
    assert (await cluster.details_in(JobStatus.RUNNING)).checkpoints == b""
    await task_manager.update_all(tasks, ExecutionState.FINISHED)
    known = json.loads((await cluster.details_in(JobStatus.FINISHED)).checkpoints)
    assert known["overview"]["counts"]["completed"] == 1
    assert known["config"]["checkpoint_storage"] == "filesystem"
    assert known["details"]["1"]["discarded"]
    assert known["subtasks"]["1"]["v0"]["subtasks"] == subtasks["subtasks"]


async def made_snapshot(cluster: Cluster, tmp_path: Path, **wanted: Any) -> Path:
    """By a job that has ended."""
    retained = {"execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"}
    graph = checkpointed(tmp_path / "checkpoints", **NO_PERIODIC, **retained)
    task_manager, tasks = await running(cluster, graph)
    folder = await savepoint_of(cluster, task_manager, tasks, **wanted)
    cluster.dispatcher.send(dp.CancelJob(JOB))
    for allocation, attempt in tasks:
        assert (await task_manager.next(CancelTasks)).allocation_id == allocation
        await task_manager.update(allocation, attempt, ExecutionState.CANCELED)
    await cluster.details_in(JobStatus.CANCELED)
    assert (await cluster.resource_manager.next(rm.Requirement)).slots == 0
    cluster.dispatcher.send(dp.ForgetJob(JOB))
    await eventually(lambda: JOB not in cluster.service.jobs)
    await task_manager.close()
    return folder


def starting_from(folder: Path, **options: str) -> JobGraph:
    return checkpointed(folder.parent / "new", **{"execution.state-recovery.path": str(folder), **options})


async def test_a_job_starts_from_a_savepoint_and_leaves_it_alone(tmp_path: Path, cluster: Cluster) -> None:
    folder = await made_snapshot(cluster, tmp_path, target_directory=str(tmp_path))
    task_manager, deployed = await cluster.deployed_job(starting_from(folder, **NO_PERIODIC), "127.0.0.1:2-b")
    tasks = []
    for subtask, deploy in enumerate(deployed):
        (task,) = deploy.tasks
        assert (task.restore_location, task.restored_checkpoint_id) == (folder.as_uri(), 1)
        assert operators_from_json(task.restore, "") == operators_from_json(operators(subtask), "")
        tasks.append((deploy.allocation_id, task.attempt_id))
    await task_manager.update_all(tasks, ExecutionState.RUNNING)
    overview = await query(cluster)
    assert overview["counts"]["restored"] == 1
    assert overview["latest"]["restored"]["external_path"] == folder.as_uri()
    ask(cluster, "t2", kind=SnapshotRequestKind.CHECKPOINT)
    trigger = await task_manager.next(TriggerCheckpoint)
    assert trigger.barrier.checkpoint_id == 2
    assert trigger.barrier.full
    await acknowledge(task_manager, tasks, 2)
    await completion(task_manager, 2)
    await task_manager.update_all(tasks, ExecutionState.FINISHED)
    await cluster.details_in(JobStatus.FINISHED)
    assert (folder / "_metadata.json").exists()


@pytest.mark.parametrize("kind", [SnapshotRequestKind.SAVEPOINT, SnapshotRequestKind.CHECKPOINT])
async def test_a_claimed_snapshot_goes_when_the_next_checkpoint_is_there(
    tmp_path: Path, kind: SnapshotRequestKind, cluster: Cluster
) -> None:
    folder = await made_snapshot(cluster, tmp_path, kind=kind, target_directory=str(tmp_path))
    assert (folder / "_metadata.json").exists()
    claim = {"execution.state-recovery.claim-mode": "CLAIM"}
    task_manager, tasks = await running(cluster, starting_from(folder, **claim))
    checkpoint_id, _ = await triggered(task_manager)
    assert (folder / "_metadata.json").exists()
    await acknowledge(task_manager, tasks, checkpoint_id)
    await completion(task_manager, checkpoint_id)
    await gone(folder)


async def test_a_claimed_snapshot_stays_when_the_job_never_ran_on_it(tmp_path: Path, cluster: Cluster) -> None:
    folder = await made_snapshot(cluster, tmp_path, target_directory=str(tmp_path))
    options = {"execution.state-recovery.claim-mode": "CLAIM", "restart-strategy.type": "none"}
    task_manager, deployed = await cluster.deployed_job(starting_from(folder, **options), "127.0.0.1:2-b")
    tasks = [(d.allocation_id, d.tasks[0].attempt_id) for d in deployed]
    await task_manager.update(*tasks[0], ExecutionState.RUNNING)
    await task_manager.update(*tasks[1], ExecutionState.FAILED, "ValueError: in open")
    await task_manager.next(CancelTasks)
    await task_manager.update(*tasks[0], ExecutionState.CANCELED)
    await cluster.details_in(JobStatus.FAILED)
    await cluster.stop()
    assert (folder / "_metadata.json").exists()


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("nowhere", "is no snapshot: there is no _metadata.json in it"),
        ("odd://bucket/x", "has a scheme that is not known"),
        ("file://tmp/x", "the path after file:// starts with a third slash"),
        ("s3://[/x", "Invalid IPv6 URL"),
    ],
)
async def test_a_snapshot_that_is_refused_fails_the_job_before_anything_is_deployed(
    tmp_path: Path, path: str, reason: str, cluster: Cluster
) -> None:
    wanted = path if ":" in path else str(tmp_path / path)
    await cluster.submit(checkpointed(tmp_path, **{"execution.state-recovery.path": wanted}))
    (failure,) = (await cluster.details_in(JobStatus.FAILED)).failures
    assert failure.exception.startswith("RestoreFailed: ")
    assert reason in failure.exception


async def test_files_of_an_aborted_checkpoint_go_even_when_they_are_written_late(
    tmp_path: Path, cluster: Cluster
) -> None:
    graph = checkpointed(tmp_path, **{"execution.checkpointing.tolerable-failed-checkpoints": "9"})
    task_manager, tasks = await running(cluster, graph)
    first, _ = await triggered(task_manager)
    storage = FileSystemStorage(str(tmp_path), JOB)
    folder = tmp_path / "job" / f"chk-{first}"

    def write() -> None:
        writer = storage.create_writer(storage.checkpoint_location(first), "v0", "s", 1, "arrow")
        writer.write(b"late")
        writer.commit()

    write()
    allocation, attempt = tasks[0]
    await task_manager.send(CheckpointDecline(allocation, attempt, first, DeclineReason.NOT_WRITTEN, "full"))
    second, _ = await triggered(task_manager)
    await gone(folder)
    write()
    await acknowledge(task_manager, tasks, second)
    await completion(task_manager, second)
    await gone(folder)
    write()
    await task_manager.update_all(tasks, ExecutionState.FINISHED)
    await cluster.details_in(JobStatus.FINISHED)
    await gone(tmp_path / "job")


async def acknowledge_with(
    task_manager: FakeTaskManager, tasks: list[Task], checkpoint_id: int, shared: Path, new: bool = True
) -> None:
    """The first task's keyed state is this one file, which checkpoints share."""
    if new:
        await asyncio.to_thread(shared.parent.mkdir, parents=True, exist_ok=True)
        await asyncio.to_thread(shared.touch)
    file = StateFile(shared.as_uri(), 0, 0, 64, 1, 0, f"sha256:{'0' * 64}")
    state = StateSnapshot("s", StateKind.VALUE, key_type={"type": "basic", "name": "Long"}, files=(file,))
    held = operators_to_json([OperatorSnapshot(OperatorId("v0"), None, "v0", 2, 128, (state,))])
    for (allocation, attempt), content in zip(tasks, (held, b""), strict=True):
        await task_manager.send(CheckpointAck(allocation, attempt, checkpoint_id, content))


async def test_a_file_that_a_checkpoint_under_way_may_refer_to_stays(tmp_path: Path, cluster: Cluster) -> None:
    """The second is complete when the fourth starts, which builds upon it; the third does not, and completes first."""
    many = {"execution.checkpointing.max-concurrent-checkpoints": "2"}
    task_manager, tasks = await running(cluster, checkpointed(tmp_path, **many))
    files = {number: tmp_path / "job" / "shared" / f"{number}.arrow" for number in range(1, 6)}
    assert [(await triggered(task_manager))[0] for _ in range(2)] == [1, 2]
    await acknowledge_with(task_manager, tasks, 1, files[1])
    assert (await triggered(task_manager))[0] == 3
    await acknowledge_with(task_manager, tasks, 2, files[2])
    await gone(tmp_path / "job" / "chk-1")
    assert files[1].exists()
    assert (await triggered(task_manager))[0] == 4
    await acknowledge_with(task_manager, tasks, 3, files[3])
    await gone(tmp_path / "job" / "chk-2")
    assert files[2].exists()
    await acknowledge_with(task_manager, tasks, 4, files[2], new=False)
    await gone(tmp_path / "job" / "chk-3")
    assert files[2].exists(), "the fourth checkpoint refers to it"
    for _ in range(3):
        number, _ = await triggered(task_manager)
        await acknowledge_with(task_manager, tasks, number, files[5])
    for unused in (1, 2, 3):
        await gone(files[unused])
    assert files[5].exists()
