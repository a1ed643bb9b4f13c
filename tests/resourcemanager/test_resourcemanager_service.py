"""The resource manager's daemon over real sessions, with peers that do what the test prescribes."""

from __future__ import annotations

import logging
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from resource_cluster import BASE, Cluster, running

from millstream.core.errors import MillstreamError
from millstream.core.jobs.ids import JobId
from millstream.core.messages import resource_manager as msg
from millstream.core.settings.configuration import Configuration
from millstream.core.wire.contract import SessionContract
from millstream.core.wire.contracts import JOB_MANAGER_AT_RESOURCE_MANAGER, TASK_MANAGER_AT_RESOURCE_MANAGER
from millstream.resourcemanager.service import ResourceManagerService


@pytest.fixture
def cluster() -> AbstractAsyncContextManager[Cluster]:
    return running()


async def test_slots_reach_the_job_that_wants_them(cluster: Cluster) -> None:
    job_manager = await cluster.job_manager("jm", job=2)
    notice = await job_manager.next()
    assert (notice.job_id, notice.available, notice.required) == ("job", 0, 2)
    task_manager = await cluster.task_manager("tm", 3)
    orders = [await task_manager.next() for _ in range(2)]
    assert [(o.slot_index, o.job_id, o.job_manager_address) for o in orders] == [
        (0, "job", "127.0.0.1:2"),
        (1, "job", "127.0.0.1:2"),
    ]
    overview = await cluster.overview()
    (info,) = overview.task_managers
    assert (info.task_manager_id, info.cpu_cores, info.memory_bytes) == ("tm", 2, 7)
    assert info.last_heartbeat > 0
    assert [s.job_id for s in info.slots] == ["job", "job", ""]
    assert overview.pending_slots == 0


async def test_a_refused_slot_is_tried_again(cluster: Cluster) -> None:
    task_manager = await cluster.task_manager("tm", 1)
    await cluster.job_manager("jm", job=1)
    first = await task_manager.next()
    await task_manager.send(msg.SlotRefused(first.allocation_id, "busy"))
    second = await task_manager.next()
    assert second.slot_index == 0
    assert second.allocation_id != first.allocation_id


async def test_a_broken_session_loses_the_task_manager_and_the_leader_learns_what_is_missing(cluster: Cluster) -> None:
    task_manager = await cluster.task_manager("tm", 1)
    job_manager = await cluster.job_manager("jm", job=1)
    await task_manager.next()
    await task_manager.close()
    notice = await job_manager.next()
    assert (notice.available, notice.required) == (0, 1)
    await cluster.overview_when(lambda o: not o.task_managers and o.pending_slots == 1)


async def test_a_task_manager_that_registers_again_replaces_its_older_session(cluster: Cluster) -> None:
    older = await cluster.task_manager("tm", 1)
    await cluster.overview_when(lambda o: len(o.task_managers) == 1)
    newer = await cluster.task_manager("tm", 2)
    assert "closed the connection" in await older.ended()
    overview = await cluster.overview_when(lambda o: [len(t.slots) for t in o.task_managers] == [2])
    assert len(overview.task_managers) == 1
    await cluster.job_manager("jm", job=1)
    assert (await newer.next()).job_id == "job"


async def test_a_job_manager_declares_more_and_then_nothing(cluster: Cluster) -> None:
    job_manager = await cluster.job_manager("jm")
    await job_manager.send(msg.Requirement(JobId("job"), 2))
    assert (await job_manager.next()).required == 2
    await job_manager.send(msg.Requirement(JobId("job"), 0))
    await cluster.overview_when(lambda o: o.pending_slots == 0)


@pytest.mark.parametrize(
    ("contract", "first"),
    [
        (TASK_MANAGER_AT_RESOURCE_MANAGER, msg.SlotReport(())),
        (JOB_MANAGER_AT_RESOURCE_MANAGER, msg.Requirement(JobId("job"), 1)),
    ],
)
async def test_a_session_that_does_not_begin_with_a_registration_is_closed(
    cluster: Cluster,
    contract: SessionContract[Any, Any],
    first: msg.SlotReport | msg.Requirement,
    caplog: pytest.LogCaptureFixture,
) -> None:
    peer = await cluster.peer(contract, first)
    assert "closed the connection" in await peer.ended()
    assert f"the first message has to be a registration, not '{type(first).__name__}'" in caplog.text


async def test_names_in_the_log_stay_within_their_lines(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await cluster.task_manager("a\n2026-01-01 INFO all is well", 1)
    await cluster.overview_when(lambda overview: len(overview.task_managers) == 1)
    assert "registered task manager a\\n2026-01-01 INFO all is well at " in caplog.text


async def test_a_port_that_is_taken_is_named(cluster: Cluster) -> None:
    port = cluster.service.address.rpartition(":")[2]
    second = ResourceManagerService(Configuration({**BASE, "resourcemanager.rpc.port": port}))
    with pytest.raises(MillstreamError, match=rf"127\.0\.0\.1:{port} \(resourcemanager\.rpc\.port\)"):
        await second.start()
    await second.stop()
