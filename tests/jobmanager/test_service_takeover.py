"""A job through the death of its job manager: what a second one on the same store sends to running tasks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import Cluster, FakeTaskManager, Task, running_cluster
from job_graphs import pipeline
from msgspec.structs import replace
from test_service_checkpoints import acknowledge, checkpointed, completion, triggered
from test_service_snapshots import NO_PERIODIC, ask, eventually, names, running, savepoint_of
from waiting import wait_until

from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import AllocationId, JobId
from millstream.core.jobs.job_events import JobEventKind
from millstream.core.jobs.resumption import Resumption
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.core.messages import checkpoints as cp
from millstream.core.messages import dispatcher as dp
from millstream.core.messages import resource_manager as rm
from millstream.core.messages import task_manager as tm
from millstream.core.messages.deployment import DeployTasks
from millstream.core.messages.rescaling import RescaleRequest, RescaleResult
from millstream.core.messages.takeover import FoundReader, FoundSlot, FoundTask
from millstream.core.store.contents import Contents, MemoryContents
from millstream.core.store.memory import MemorySession, MemoryStore
from millstream.core.store.store import Key, Kind

RUNNING = ExecutionState.RUNNING


@asynccontextmanager
async def second_leader(
    store: MemoryStore, graph: JobGraph, results: Contents[JobDetails] | None = None, **options: Any
) -> AsyncIterator[Cluster]:
    """Wins the job, and declares its slots under its epoch."""
    async with running_cluster(store.connect(), results, **options) as cluster:
        cluster.dispatcher.send(dp.StartJob(graph))
        requirement = await cluster.resource_manager.next(rm.Requirement)
        assert requirement.slots == graph.slots_required()
        assert requirement.epoch > 0
        yield cluster


async def die(cluster: Cluster, session: MemorySession) -> None:
    """As the store sees a job manager that was killed."""
    session.lose()
    session.resume()
    for task_manager in cluster.task_managers:
        await task_manager.close()


def found(tasks: list[Task], index: int, attempt: int = 0, **more: Any) -> FoundSlot:
    task = FoundTask(tasks[index][1], pipeline(2).vertices[0].id, index, 2, 128, attempt, RUNNING, **more)
    return FoundSlot(f"address {index}", (task,))


async def offer_all(cluster: Cluster, tasks: list[Task], **more: Any) -> FakeTaskManager:
    task_manager = cluster.task_manager()
    for index in range(2):
        assert await task_manager.offer(tasks[index][0], found=found(tasks, index, **more))
    return task_manager


async def test_a_job_continues_with_its_tasks_which_commit_completed_checkpoints_and_abort_pending_ones(
    tmp_path: Path,
) -> None:
    store, graph = MemoryStore(), checkpointed(tmp_path)
    session = store.connect()
    async with running_cluster(session) as first:
        task_manager, tasks = await first.running_job(graph)
        completed, _ = await triggered(task_manager)
        await acknowledge(task_manager, tasks, completed)
        await completion(task_manager, completed)
        under_way, _ = await triggered(task_manager)
        await die(first, session)
        async with second_leader(store, graph) as second:
            again = await offer_all(second, tasks, completed=completed, under_way=(under_way,))
            notices = [await again.next(cp.CheckpointNotice) for _ in range(4)]
            told = [(notice.checkpoint_id, notice.completed) for notice in notices]
            assert told == [(under_way, False)] * 2 + [(completed, True)] * 2
            assert {(n.allocation_id, n.attempt_ids) for n in notices} == {(a, (attempt,)) for a, attempt in tasks}
            assert {(await again.next(tm.TasksTakenOver)).allocation_id for _ in tasks} == {"a0", "a1"}
            details = await second.details_in(JobStatus.RUNNING)
            assert (details.restarts, details.failures) == (0, ())
            later, _ = await triggered(again)
            assert later > under_way, "ids never come again"
            await acknowledge(again, tasks, later)
            await completion(again, later)
            assert {c.checkpoint_id for c in second.service.jobs[JobId("job")].checkpoints.coordinator.retained} == {
                later
            }
            await again.update_all(tasks, ExecutionState.FINISHED)
            await second.details_in(JobStatus.FINISHED)


async def test_a_job_of_which_a_task_is_not_found_is_restored_from_its_last_checkpoint(tmp_path: Path) -> None:
    store, graph = MemoryStore(), checkpointed(tmp_path)
    session = store.connect()
    async with running_cluster(session) as first:
        task_manager, tasks = await first.running_job(graph)
        completed, location = await triggered(task_manager)
        await acknowledge(task_manager, tasks, completed)
        await completion(task_manager, completed)
        await die(first, session)
        async with second_leader(store, graph, jobmanager_takeover_timeout="2 s") as second:
            again = second.task_manager()
            assert await again.offer("a0", found=found(tasks, 0))
            assert (await again.next(tm.FreeSlot)).allocation_id == "a0"
            for allocation in ("b0", "b1"):
                assert await again.offer(allocation)
            for allocation in ("b0", "b1"):
                await again.run_worker(allocation)
            deployed = [(await again.next(DeployTasks)).tasks[0] for _ in range(2)]
            assert {task.attempt for task in deployed} == {1}, "attempts are numbered over all leaders"
            assert {task.restore_location for task in deployed} == {location}
            await second.details_in(JobStatus.RUNNING)
            assert b'"attempts":{"v0":[1,1]}' in await stored_pointers(store)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"completed": 99}, "has committed checkpoint 99"),
        ({"reader": FoundReader(has_events=True)}, "have exchanged events"),
        ({"reader": FoundReader(is_known=False)}, "too many to be kept"),
    ],
)
async def test_tasks_that_do_not_match_the_restore_point_are_cancelled(
    tmp_path: Path, more: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    store, graph = MemoryStore(), checkpointed(tmp_path)
    session = store.connect()
    async with running_cluster(session) as first:
        _, tasks = await first.running_job(graph)
        await die(first, session)
        async with second_leader(store, graph) as second:
            again = await offer_all(second, tasks, **more)
            assert await again.freed() == {"a0", "a1"}
            assert reason in caplog.text


async def test_a_job_that_took_no_checkpoint_continues_with_its_tasks_and_ends_with_them() -> None:
    store, graph = MemoryStore(), pipeline(2)
    session = store.connect()
    async with running_cluster(session) as first:
        _, tasks = await first.running_job(graph)
        await die(first, session)
        async with second_leader(store, graph) as second:
            again = await offer_all(second, tasks)
            await second.details_in(JobStatus.RUNNING)
            await again.update_all(tasks, ExecutionState.FINISHED)
            await second.details_in(JobStatus.FINISHED)
            assert await again.freed() == {"a0", "a1"}


async def test_a_place_of_checkpoints_that_is_away_when_a_leader_begins_ends_no_job(tmp_path: Path) -> None:
    place, away = tmp_path / "checkpoints", tmp_path / "away"
    store, graph = MemoryStore(), checkpointed(place)
    session = store.connect()
    async with running_cluster(session) as first:
        task_manager, tasks = await first.running_job(graph)
        await triggered(task_manager)
        await die(first, session)
        place.rename(away)
        place.touch()
        async with second_leader(store, graph) as second:
            again = await offer_all(second, tasks)
            await second.details_in(JobStatus.RUNNING)
            place.unlink()
            away.rename(place)
            await triggered(again)


RESTARTING = {"restart-strategy.type": "fixed-delay"}
QUICKLY = {"jobmanager_takeover_timeout": "300 ms"}


@asynccontextmanager
async def lost_job(graph: JobGraph) -> AsyncIterator[Cluster]:
    """One whose job manager and tasks are gone, and which has another job manager."""
    store, results = MemoryStore(), MemoryContents[JobDetails]()
    session = store.connect()
    async with running_cluster(session, results) as first:
        await first.running_job(graph)
        assert (await first.details_in(JobStatus.RUNNING)).restarts == 0
        await die(first, session)
        async with second_leader(store, graph, results, **QUICKLY) as second:
            yield second


async def test_a_job_without_checkpoints_and_restarts_is_not_run_again_by_its_next_leader() -> None:
    async with lost_job(pipeline(2)) as second:
        assert (await second.details_in(JobStatus.CREATED)).resumption is Resumption.NONE
        details = await second.details_in(JobStatus.FAILED)
        assert (details.restarts, details.resumption) == (0, Resumption.UNKNOWN)
        (failure,) = details.failures
        assert failure.exception.startswith("NotResumed: 0 of 2 tasks were found running after its job manager was")
        changed, failed = details.events
        told = "another job manager leads the job (leader number 2): it is not restarted: 0 of 2 tasks were found"
        assert changed.message == f"{told} running"
        assert (failed.kind, failed.message[:11]) == (JobEventKind.FAILED, "NotResumed:")


async def test_a_job_with_a_restart_strategy_is_run_again_which_is_counted_and_reported() -> None:
    async with lost_job(replace(pipeline(2), configuration=RESTARTING)) as second:
        assert (await second.details_in(JobStatus.CREATED)).resumption is Resumption.BEGINNING
        while not (details := await second.details_in(JobStatus.CREATED)).events:
            pass
        assert details.restarts == 1
        (failure,) = details.failures
        assert (failure.restart, failure.exception[:18]) == (1, "JobManagerChanged:")
        told = "it restarts from the beginning, since it has completed no checkpoint: 0 of 2 tasks were found running"
        assert told in details.events[0].message


async def test_restarts_are_counted_over_all_leaders(tmp_path: Path) -> None:
    graph = checkpointed(tmp_path)
    store, results = MemoryStore(), MemoryContents[JobDetails]()
    session = store.connect()
    async with running_cluster(session, results) as first:
        task_manager, tasks = await first.running_job(graph)
        completed, _ = await triggered(task_manager)
        await acknowledge(task_manager, tasks, completed)
        await completion(task_manager, completed)
        await task_manager.update(*tasks[0], ExecutionState.FAILED, "ValueError: bad")
        await task_manager.next(DeployTasks)
        await die(first, session)
        async with second_leader(store, graph, results, **QUICKLY) as second:
            told = await second.details_in(JobStatus.CREATED)
            assert (told.restarts, told.resumption, told.restore_point) == (1, Resumption.CHECKPOINT, completed)
            assert (told.resumed, told.resumed_from) == (Resumption.CHECKPOINT, completed)
            while (details := await second.details_in(JobStatus.CREATED)).restarts == 1:
                pass
            assert details.restarts == 2
            assert f"it restarts from checkpoint {completed}: " in details.events[0].message


async def test_a_job_that_waited_for_slots_has_not_run_and_starts_under_its_next_leader() -> None:
    store, results, graph = MemoryStore(), MemoryContents[JobDetails](), pipeline(2)
    session = store.connect()
    async with running_cluster(session, results) as first:
        first.dispatcher.send(dp.StartJob(graph))
        assert (await first.details_in(JobStatus.CREATED)).resumption is Resumption.NOT_STARTED
        await first.resource_manager.next(rm.Requirement)
        await die(first, session)
        async with second_leader(store, graph, results, **QUICKLY) as second:
            while not (details := await second.details_in(JobStatus.CREATED)).events:
                pass
            assert "it starts: it has not run before" in details.events[0].message
            assert details.restarts == 0
            task_manager = second.task_manager()
            for allocation in ("a0", "a1"):
                assert await task_manager.offer(allocation)
            for allocation in ("a0", "a1"):
                await task_manager.run_worker(allocation)
            while (details := await second.dispatcher.next(JobDetails)).resumption is Resumption.NOT_STARTED:
                pass
            assert (details.resumption, details.resumed) == (Resumption.NONE, Resumption.NOT_STARTED)


async def test_a_job_began_when_its_first_leader_did_and_its_events_count_those_that_followed() -> None:
    store, graph = MemoryStore(), pipeline(2)
    session, second_session = store.connect(), store.connect()
    async with running_cluster(session) as first:
        _, tasks = await first.running_job(graph)
        began = (await first.details_in(JobStatus.RUNNING)).start_time
        await die(first, session)
        async with running_cluster(second_session) as second:
            second.dispatcher.send(dp.StartJob(graph))
            await second.resource_manager.next(rm.Requirement)
            await die(second, second_session)
            async with second_leader(store, graph) as third:
                await offer_all(third, tasks)
                while not (details := await third.details_in(JobStatus.RUNNING)).events:
                    pass
                assert details.start_time == details.state_times[JobStatus.INITIALIZING] == began
                assert details.state_times[JobStatus.RUNNING] > began
                (event,) = details.events
                assert event.kind is JobEventKind.LEADER_CHANGED
                told = "another job manager leads the job (leader number 3): it continues with its 2 tasks"
                assert event.message == told


async def test_a_job_that_its_first_leader_never_started_began_with_it_all_the_same() -> None:
    store, graph = MemoryStore(), pipeline(2)
    session = store.connect()
    async with running_cluster(session) as first:
        first.dispatcher.send(dp.StartJob(graph))
        began = (await first.details_in(JobStatus.CREATED)).start_time
        await die(first, session)
        async with second_leader(store, graph) as second:
            assert (await second.details_in(JobStatus.CREATED)).start_time == began


@pytest.mark.parametrize("takes_over", [True, False])
async def test_files_that_no_checkpoint_refers_to_after_the_death_of_a_job_manager_are_deleted_by_the_next(
    tmp_path: Path, takes_over: bool
) -> None:
    store, graph = MemoryStore(), checkpointed(tmp_path)
    session, home = store.connect(), tmp_path / "job"
    async with running_cluster(session) as first:
        task_manager, tasks = await first.running_job(graph)
        completed, _ = await triggered(task_manager)
        await acknowledge(task_manager, tasks, completed)
        await completion(task_manager, completed)
        under_way, _ = await triggered(task_manager)
        left, unused = home / f"chk-{under_way}" / "v0" / "part", home / "shared" / "unused.arrow"
        for path in (left, unused):
            await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
            await asyncio.to_thread(path.touch)
        await die(first, session)
        timeout = "1 h" if takes_over else "100 ms"
        async with second_leader(store, graph, jobmanager_takeover_timeout=timeout) as second:
            if takes_over:
                again = await offer_all(second, tasks, completed=completed)
            else:
                again = second.task_manager()
                for allocation in ("b0", "b1"):
                    assert await again.offer(allocation)
                for allocation in ("b0", "b1"):
                    await again.run_worker(allocation)
                deployed = [await again.next(DeployTasks) for _ in range(2)]
                tasks = [(d.allocation_id, d.tasks[0].attempt_id) for d in deployed]
                await again.update_all(tasks, RUNNING)
            await asyncio.to_thread(wait_until, lambda: not left.exists(), "the checkpoint in progress to be gone")
            assert (home / f"chk-{completed}" / "_metadata.json").exists()
            later, _ = await triggered(again)
            await acknowledge(again, tasks, later)
            await completion(again, later)
            await asyncio.to_thread(wait_until, lambda: not unused.exists(), "the shared file to be gone")
            assert (home / f"chk-{later}" / "_metadata.json").exists()


async def test_bounds_that_were_accepted_outlive_the_job_manager_and_are_carried_out_by_the_next() -> None:
    store, graph = MemoryStore(), pipeline(2)
    session = store.connect()
    async with running_cluster(session) as first:
        _, tasks = await first.running_job(graph)
        session.suspend_within_write(takes_effect=False)
        first.dispatcher.send(RescaleRequest(JobId("job"), "t1", parallelism=3))
        assert (await first.resource_manager.next(rm.Requirement)).slots == 3
        assert b'"bounds":{}' in await stored_pointers(store), "the store does not respond"
        session.resume()
        assert (await first.dispatcher.next(RescaleResult)).message == "accepted"
        assert b'"bounds":{"v0":[1,3]}' in await stored_pointers(store)
        await die(first, session)
        async with second_leader(store, graph) as second:
            await offer_all(second, tasks)
            details = await second.details_in(JobStatus.RUNNING)
            assert [(v.parallelism, v.lower_bound, v.upper_bound) for v in details.vertices] == [(2, 1, 3)]
            while (await second.resource_manager.next(rm.Requirement)).slots != 3:
                pass


async def stored_pointers(store: MemoryStore) -> bytes:
    stored = await store.connect().read(Key(Kind.CHECKPOINTS, "job"))
    assert stored is not None
    return stored.value


async def test_tasks_that_wait_for_a_last_checkpoint_get_it_from_the_new_leader(tmp_path: Path) -> None:
    store = MemoryStore()
    graph = checkpointed(tmp_path, **{"execution.checkpointing.interval": "1 h"})
    session = store.connect()
    async with running_cluster(session) as first:
        _, tasks = await first.running_job(graph)
        await die(first, session)
        async with second_leader(store, graph) as second:
            again = await offer_all(second, tasks, inputs_ended=True)
            final, _ = await triggered(again)
            await acknowledge(again, tasks, final)
            await completion(again, final)


async def test_a_checkpoint_in_the_memory_of_a_lost_job_manager_is_reported_as_lost() -> None:
    store, graph = MemoryStore(), checkpointed(None, **{"restart-strategy.type": "none"})
    session = store.connect()
    async with running_cluster(session) as first:
        task_manager, tasks = await first.running_job(graph)
        completed, _ = await triggered(task_manager)
        await acknowledge(task_manager, tasks, completed)
        await completion(task_manager, completed)
        await die(first, session)
        async with second_leader(store, graph) as second:
            again = await offer_all(second, tasks, completed=completed)
            assert await again.freed() == {"a0", "a1"}
            failure, _ = (await second.details_in(JobStatus.FAILED)).failures
            assert "memory" in failure.exception


async def test_a_job_manager_that_does_not_run_a_job_responds_with_that(cluster: Cluster) -> None:
    task_manager = cluster.task_manager()
    await task_manager.send(tm.SlotOffer(AllocationId("a0"), 0, JobId("another")))
    assert await task_manager.next(tm.OfferAnswer) == tm.OfferAnswer(AllocationId("a0"), False, unknown_job=True)


@pytest.mark.parametrize("takes_over", [True, False])
async def test_what_a_lost_job_manager_left_of_a_savepoint_is_deleted_by_the_next(
    tmp_path: Path, takes_over: bool
) -> None:
    store, graph = MemoryStore(), checkpointed(tmp_path / "checkpoints", **NO_PERIODIC)
    session, home = store.connect(), tmp_path / "savepoints"
    async with running_cluster(session) as first:
        task_manager, tasks = await running(first, graph)
        complete = await savepoint_of(first, task_manager, tasks, target_directory=str(home))
        ask(first, "t2", target_directory=str(home))
        under_way, location = await triggered(task_manager)
        left = home / location.rpartition("/")[2]
        await asyncio.to_thread((left / "v0").mkdir, parents=True)
        await asyncio.to_thread((left / "v0" / "part").touch)
        await die(first, session)
        async with second_leader(store, graph, jobmanager_takeover_timeout="1 h" if takes_over else "100 ms") as second:
            if takes_over:
                await offer_all(second, tasks, under_way=(under_way,))
            await eventually(lambda: names(home) == [complete.name])
            assert (complete / "_metadata.json").exists()
