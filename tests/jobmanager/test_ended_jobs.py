"""A job that has ended, and whose job manager died before it had cleaned up: the next one does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from fake_cluster import Cluster, running_cluster
from test_checkpoint_files import half_written
from test_service_checkpoints import acknowledge, checkpointed, completion, triggered
from waiting import wait_until

from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import JobId, LeaderEpoch
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.core.messages import dispatcher as dp
from millstream.core.messages.deployment import CancelTasks
from millstream.core.services.leader_lookup import KnownLeader, Role
from millstream.core.snapshot.metadata.model import METADATA_FILE
from millstream.core.store.contents import MemoryContents
from millstream.core.store.job_results import JobResultStore
from millstream.core.store.memory import MemorySession, MemoryStore
from millstream.core.store.store import Contest, Key, Kind

JOB = JobId("job")
POINTERS = Key(Kind.CHECKPOINTS, JOB)
KEPT = {"execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"}


class Frozen(MemorySession):
    """Of a job manager that was frozen, and is not notified of the end of its leadership."""

    async def changed(self, contest: Contest, epoch: LeaderEpoch) -> KnownLeader | None:
        never: asyncio.Future[KnownLeader | None] = asyncio.get_running_loop().create_future()
        return await never


class Left:
    """What a job manager left that died when it had stored how the job ended, and before anything else."""

    def __init__(self, folder: Path, graph: JobGraph) -> None:
        self.store, self.results = MemoryStore(), MemoryContents[JobDetails]()
        self.graph = graph
        self.home = folder / JOB

    async def by_a_dead_leader(self, status: JobStatus) -> Path:
        """Returns the path of the metadata of its checkpoint."""
        before = set(self.home.rglob(METADATA_FILE))
        session = self.store.connect()
        async with running_cluster(session, self.results) as cluster:
            await self._run(cluster)
            session.lose()
        last = self.store.connect()
        leadership = await last.campaign(Contest(Role.JOB_MANAGER, JOB), "x:1")
        await JobResultStore(last, self.results, leadership).add(JobDetails(JOB, "the job", status))
        last.lose()
        assert self.store.entry(POINTERS) is not None
        (metadata,) = set(self.home.rglob(METADATA_FILE)) - before
        return metadata

    async def _run(self, cluster: Cluster) -> None:
        task_manager, tasks = await cluster.running_job(self.graph)
        completed, _ = await triggered(task_manager)
        await acknowledge(task_manager, tasks, completed)
        await completion(task_manager, completed)
        under_way, location = await triggered(task_manager)
        half_written(location)
        assert under_way > completed

    async def found_by(self, cluster: Cluster) -> JobDetails:
        cluster.dispatcher.send(dp.StartJob(self.graph))
        return await cluster.dispatcher.next(JobDetails)

    async def pointers_gone(self) -> None:
        contest = Contest(Role.JOB_MANAGER, JOB)
        while self.store.entry(POINTERS) is not None or self.store.leader(contest) is not None:
            await self.store.moved()


async def test_the_next_job_manager_deletes_its_checkpoints_and_then_its_pointers(tmp_path: Path) -> None:
    left = Left(tmp_path, checkpointed(tmp_path))
    await left.by_a_dead_leader(JobStatus.FINISHED)
    async with running_cluster(left.store.connect(), left.results) as cluster:
        assert (await left.found_by(cluster)).state is JobStatus.FINISHED
        await left.pointers_gone()
    assert not left.home.exists()


@pytest.mark.parametrize("status", [JobStatus.CANCELED, JobStatus.FAILED])
async def test_what_the_user_keeps_stays_and_what_was_under_way_goes(tmp_path: Path, status: JobStatus) -> None:
    left = Left(tmp_path, checkpointed(tmp_path, **KEPT))
    await left.by_a_dead_leader(status)
    async with running_cluster(left.store.connect(), left.results) as cluster:
        assert (await left.found_by(cluster)).state is status
        await left.pointers_gone()
    assert [file.name for file in left.home.glob("*/*") if file.is_file()] == [METADATA_FILE]


async def test_what_an_earlier_job_of_the_same_id_has_kept_stays(tmp_path: Path) -> None:
    kept = await Left(tmp_path, checkpointed(tmp_path)).by_a_dead_leader(JobStatus.CANCELED)
    left = Left(tmp_path, checkpointed(tmp_path))
    metadata = await left.by_a_dead_leader(JobStatus.FINISHED)
    async with running_cluster(left.store.connect(), left.results) as cluster:
        await left.found_by(cluster)
        await left.pointers_gone()
    assert kept.exists()
    assert not metadata.exists()


async def test_storage_that_does_not_delete_leaves_the_pointers_for_another_try(tmp_path: Path) -> None:
    left = Left(tmp_path, checkpointed(tmp_path))
    metadata = await left.by_a_dead_leader(JobStatus.FINISHED)
    content = metadata.read_bytes()
    metadata.unlink()
    metadata.mkdir()  # no file: reading it fails
    async with running_cluster(left.store.connect(), left.results) as cluster:
        assert (await left.found_by(cluster)).state is JobStatus.FINISHED
        contest = Contest(Role.JOB_MANAGER, JOB)
        await asyncio.to_thread(wait_until, lambda: left.store.leader(contest) is None, "it to be left to another")
        assert left.store.entry(POINTERS) is not None
        metadata.rmdir()
        metadata.write_bytes(content)
        await left.found_by(cluster)
        await left.pointers_gone()
    assert not left.home.exists()


@pytest.mark.parametrize("ended_by_the_next", [False, True])
async def test_a_leader_that_wakes_up_and_takes_the_job_for_ended_deletes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, ended_by_the_next: bool
) -> None:
    left = Left(tmp_path, checkpointed(tmp_path, **{"restart-strategy.type": "none"}))
    session = Frozen(left.store)
    async with running_cluster(session, left.results) as cluster:
        task_manager, tasks = await cluster.running_job(left.graph)
        completed, _ = await triggered(task_manager)
        await acknowledge(task_manager, tasks, completed)
        await completion(task_manager, completed)
        session.lose()
        session.resume()
        next_one = left.store.connect()
        leadership = await next_one.campaign(Contest(Role.JOB_MANAGER, JOB), "x:1")
        if ended_by_the_next:
            canceled = JobDetails(JOB, "the job", JobStatus.CANCELED)
            await JobResultStore(next_one, left.results, leadership).add(canceled)
        await task_manager.update(*tasks[0], ExecutionState.FAILED, "ValueError: bad")
        await task_manager.next(CancelTasks)
        await task_manager.update(*tasks[1], ExecutionState.CANCELED)
        await asyncio.to_thread(wait_until, lambda: "leaving its end to" in caplog.text, "it to hear that it is over")
        assert left.store.entry(POINTERS) is not None
    assert left.home.joinpath(f"chk-{completed}", METADATA_FILE) in left.home.rglob(METADATA_FILE)
