"""The job manager's daemon over real sessions; the dispatcher, the resource manager and task managers are fakes."""

from __future__ import annotations

import asyncio

import pytest
from fake_cluster import Cluster, running_cluster
from job_graphs import pipeline
from links import Link

from millstream.core.jobs.ids import AllocationId, JobId, TaskManagerId
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.core.messages import dispatcher as dp
from millstream.core.messages import resource_manager as rm
from millstream.core.messages import task_manager as tm
from millstream.core.messages.deployment import CancelTasks
from millstream.core.messages.results import CollectRequest, CollectResponse
from millstream.core.settings.configuration import Configuration
from millstream.core.wire.contracts import TASK_MANAGER_AT_JOB_MANAGER
from millstream.jobmanager.service import JobManagerService

JOB = JobId("job")


async def test_a_job_runs_from_its_submission_to_its_end(cluster: Cluster) -> None:
    task_manager, tasks = await cluster.running_job()
    details = await cluster.details_in(JobStatus.RUNNING)
    assert (details.slots_held, details.slots_required) == (2, 2)
    await task_manager.update_all(tasks, ExecutionState.FINISHED)
    assert await task_manager.freed() == {"a0", "a1"}
    assert (await cluster.resource_manager.next(rm.Requirement)).slots == 0
    assert (await cluster.details_in(JobStatus.FINISHED)).end_time > 0


async def test_a_waiting_job_shows_what_it_waits_for(cluster: Cluster) -> None:
    await cluster.submit(pipeline(2))
    cluster.resource_manager.send(rm.NotEnoughSlots(JOB, available=1, required=2, free=0, total=3, startable=0))
    waiting = "waiting for slots: 1 of 2 (0 free of 3 in the cluster)"
    while (await cluster.details_in(JobStatus.CREATED)).message != waiting:
        pass


async def test_changes_of_a_large_job_are_reported_together(cluster: Cluster) -> None:
    began = asyncio.get_running_loop().time()
    await cluster.submit(pipeline(2_000))
    task_manager = cluster.task_manager()
    for number in range(30):
        assert await task_manager.offer(f"a{number}")
    reports = 1
    while (await cluster.details_in(JobStatus.CREATED)).slots_held < 30:
        reports += 1
    seconds = asyncio.get_running_loop().time() - began
    assert reports <= 2 + seconds * 10_000 / 4_000, "each holds 4,000 subtasks"


async def test_a_job_that_waits_in_vain_fails_with_what_it_waited_for() -> None:
    async with running_cluster(slot_request_timeout="200 ms") as cluster:
        await cluster.submit(pipeline(2))
        details = await cluster.details_in(JobStatus.FAILED)
        assert "the job needs 2 slots and has 0 after waiting 0.2 s" in details.failures[0].exception


async def test_a_job_is_cancelled(cluster: Cluster) -> None:
    task_manager, tasks = await cluster.running_job()
    cluster.dispatcher.send(dp.CancelJob(JOB))
    cancelled = [await task_manager.next(CancelTasks) for _ in range(2)]
    assert [(c.allocation_id, c.attempt_ids[0]) for c in cancelled] == tasks
    await task_manager.update_all(tasks, ExecutionState.CANCELED)
    await cluster.details_in(JobStatus.CANCELED)


@pytest.mark.parametrize("how", ["closes", "vanishes"])
async def test_a_task_manager_that_goes_fails_the_job_at_once(
    cluster: Cluster, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    task_manager, _ = await cluster.running_job()
    if how == "closes":
        await task_manager.close()
    else:
        task_manager.end.cancel()
    details = await cluster.details_in(JobStatus.FAILED)
    assert details.failures[0].exception.startswith("SlotLost: task manager 127.0.0.1:1-a was lost: ")
    assert "task manager 127.0.0.1:1-a" in caplog.text


async def test_a_task_manager_that_connects_again_was_lost(cluster: Cluster) -> None:
    await cluster.running_job()
    assert not await cluster.task_manager().offer("a0")
    await cluster.details_in(JobStatus.FAILED)


async def test_a_task_manager_registers_first_and_once(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    registration = tm.RegisterAtJobManager(TaskManagerId("a"), "127.0.0.1", "127.0.0.1:1")
    nameless = tm.RegisterAtJobManager(TaskManagerId(""), "127.0.0.1", "127.0.0.1:1")
    early = tm.WorkerReady(AllocationId("a0"), "127.0.0.1:1")
    for said, reason in (
        ([early], "the first message has to be a registration, not 'WorkerReady'"),
        ([nameless], "a registration needs a task manager id, once in a session"),
        ([registration, registration], "a registration needs a task manager id, once in a session"),
    ):
        link = Link(cluster.service.address, TASK_MANAGER_AT_JOB_MANAGER, Configuration(), *said)
        assert (await link.end)[0]
        assert reason in caplog.text
        caplog.clear()


async def test_slots_for_jobs_that_are_unknown_or_over_are_refused(cluster: Cluster) -> None:
    task_manager, tasks = await cluster.running_job()
    assert not await task_manager.offer("b0", "unknown")
    for allocation, attempt in tasks:
        await task_manager.update(allocation, attempt, ExecutionState.FAILED, "ValueError: bad")
    await cluster.details_in(JobStatus.FAILED)
    assert not await task_manager.offer("a0")
    cluster.dispatcher.send(dp.ForgetJob(JOB))
    assert not await task_manager.offer("a0")


async def test_a_lost_worker_fails_the_job_with_its_reason(cluster: Cluster) -> None:
    task_manager, tasks = await cluster.running_job()
    await task_manager.send(tm.WorkerLost(AllocationId("a0"), "slot worker process 7 was killed by SIGSEGV"))
    (survivor,) = [t for t in tasks if t[0] != "a0"]
    assert (await task_manager.next(CancelTasks)).attempt_ids == (survivor[1],)
    assert (await task_manager.next(tm.FreeSlot)).allocation_id == "a0"
    await task_manager.update(*survivor, ExecutionState.CANCELED)
    details = await cluster.details_in(JobStatus.FAILED)
    assert details.failures[0].exception == "SlotLost: slot worker process 7 was killed by SIGSEGV"


@pytest.mark.parametrize("lost", ["worker", "task manager"])
async def test_a_request_for_results_gets_a_response_when_its_receiver_is_lost(
    lost: str, cluster: Cluster
) -> None:
    task_manager, _ = await cluster.running_job()
    operator = pipeline(2).vertices[0].operators[0].id
    cluster.dispatcher.send(CollectRequest(JOB, operator, request_id="r"))
    asked = await task_manager.next(tm.CollectFromTask)
    if lost == "worker":
        await task_manager.send(tm.WorkerLost(asked.allocation_id, "killed"))
    else:
        await task_manager.close()
    response = await cluster.dispatcher.next(CollectResponse)
    assert (response.request_id, response.error) == ("r", "the collecting task is not running")


async def test_requirements_are_sent_again_to_a_resource_manager_that_comes_back(cluster: Cluster) -> None:
    await cluster.submit(pipeline(3))
    await cluster.resource_manager.stop()
    await cluster.resource_manager.start()
    register = await cluster.resource_manager.next(rm.RegisterJobManager)
    assert [(r.job_id, r.slots) for r in register.requirements] == [("job", 3)]
    assert register.address == cluster.service.address


async def test_all_jobs_are_reported_to_a_dispatcher_that_comes_back(cluster: Cluster) -> None:
    task_manager, tasks = await cluster.running_job()
    await cluster.details_in(JobStatus.RUNNING)
    await cluster.dispatcher.stop()
    await cluster.dispatcher.start()
    register = await cluster.dispatcher.next(dp.RegisterJobManager)
    assert [(j.job_id, j.state) for j in register.jobs] == [("job", "RUNNING")]
    cluster.dispatcher.send(dp.StartJob(pipeline(2)))
    await task_manager.update_all(tasks, ExecutionState.FINISHED)
    await cluster.details_in(JobStatus.FINISHED)


async def test_a_peer_that_stays_away_is_the_services_failure() -> None:
    ports = {"jobmanager.rpc.port": 0, "dispatcher.rpc.port": 1, "resourcemanager.rpc.port": 1}
    service = JobManagerService(Configuration({**ports, "registration.timeout": "300 ms"}))
    await service.start()
    try:
        failure = str(await service.failure())
        assert "127.0.0.1:1 is unreachable" in failure
        assert failure.endswith("(tried for 0.3 s)")
    finally:
        await service.stop()


async def test_a_job_manager_stops_its_jobs_before_the_dispatcher_gives_it_up_and_resumes_when_it_is_back() -> None:
    async with running_cluster(heartbeat_timeout="3 s", **{"restart-strategy.type": "fixed-delay"}) as cluster:
        task_manager, _ = await cluster.running_job()
        await cluster.details_in(JobStatus.RUNNING)
        await cluster.dispatcher.stop()
        assert await task_manager.freed() == {"a0", "a1"}
        while (await cluster.resource_manager.next(rm.Requirement)).slots != 0:
            pass
        await cluster.dispatcher.start()
        register = await cluster.dispatcher.next(dp.RegisterJobManager)
        assert [details.state for details in register.jobs] == ["RESTARTING"]
        assert "heartbeat.timeout" in register.jobs[0].message
        assert (await cluster.resource_manager.next(rm.Requirement)).slots == 2


async def test_a_job_that_has_ended_to_users_is_stopped_and_is_not_cancelled(cluster: Cluster) -> None:
    task_manager, _ = await cluster.running_job()
    cluster.dispatcher.send(dp.AbandonJob(JOB, "it was reported as failed"))
    assert await task_manager.freed() == {"a0", "a1"}
    details = await cluster.details_in(JobStatus.FAILED)
    assert details.failures[0].exception == "it was reported as failed"
