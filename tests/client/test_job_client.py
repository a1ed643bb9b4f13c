"""A program's own job: its savepoints and its end, against a dispatcher whose responses the test sets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from msgspec.structs import replace

from millstream.client.dispatcher_link import DispatcherLink
from millstream.client.job_client import ClusterJobClient
from millstream.client.loop_thread import LoopThread
from millstream.core.errors import JobExecutionError, UnreachableError
from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.ids import JobId
from millstream.core.jobs.states import JobStatus
from millstream.core.messages.dispatcher import JobRequest
from millstream.core.messages.snapshots import SnapshotRequest, SnapshotRequestKind, SnapshotResult
from millstream.core.services.leader_lookup import Role, address_options
from millstream.core.services.rpc import serve, service_handler
from millstream.core.settings.configuration import Configuration
from millstream.core.store.high_availability import open_leaders
from millstream.core.wire.contracts import DISPATCHER
from millstream.datastream.execution.executor import SavepointError, SavepointFormatType

JOB = JobId("a" * 32)
PATIENCE = 0.5


@dataclass
class FakeDispatcher:
    """Responds to snapshot requests from a list of results, and of status codes to fail with."""

    replies: list[SnapshotResult | grpc.StatusCode] = field(default_factory=list)
    asked: list[SnapshotRequest] = field(default_factory=list)
    watches: list[list[JobDetails | grpc.StatusCode]] = field(default_factory=list)

    async def trigger_snapshot(self, request: SnapshotRequest, context: Any) -> SnapshotResult:
        self.asked.append(request)
        response = self.replies.pop(0)
        if isinstance(response, grpc.StatusCode):
            await context.abort(response, "not now")
            raise AssertionError("abort always raises")
        return replace(response, trigger_id=request.trigger_id)

    async def watch_job(self, request: JobRequest, context: Any) -> AsyncIterator[JobDetails]:
        for message in self.watches.pop(0):
            if isinstance(message, grpc.StatusCode):
                await asyncio.sleep(2 * PATIENCE)  # nothing new for longer than the client waits for a dispatcher
                await context.abort(message, "not now")
            else:
                yield message

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def missing(*_: Any) -> None:
            raise NotImplementedError(name)

        return missing


@pytest.fixture
def dispatcher() -> FakeDispatcher:
    return FakeDispatcher()


@pytest.fixture
def job(dispatcher: FakeDispatcher) -> Iterator[ClusterJobClient]:
    options = Configuration({"heartbeat.timeout": f"{PATIENCE * 1000:g} ms"})
    loop = LoopThread("test")

    async def start() -> tuple[grpc.aio.Server, DispatcherLink]:
        server, port = await serve("127.0.0.1", 0, [service_handler(DISPATCHER, dispatcher)], options, "test")
        found = options.merged(address_options(Role.DISPATCHER, f"127.0.0.1:{port}"))
        link = DispatcherLink(open_leaders(found), found)
        await link.connect()
        return server, link

    try:
        server, link = loop.call(start())
        try:
            yield ClusterJobClient(JOB, link, loop, lambda: None)
        finally:
            loop.call(link.close())
            loop.call(server.stop(None))
    finally:
        loop.close()


def test_a_savepoint(job: ClusterJobClient, dispatcher: FakeDispatcher, tmp_path: Path) -> None:
    dispatcher.replies = [SnapshotResult("", location=f"/sp/{n}") for n in range(4)]
    assert job.trigger_savepoint().result() == "/sp/0"
    assert job.trigger_savepoint(tmp_path, SavepointFormatType.NATIVE).result() == "/sp/1"
    assert job.trigger_savepoint("relative").result() == "/sp/2"
    assert job.trigger_savepoint("").result() == "/sp/3"
    first, second, third, fourth = dispatcher.asked
    assert (first.job_id, first.kind, first.format) == (JOB, SnapshotRequestKind.SAVEPOINT, "CANONICAL")
    assert (first.target_directory, second.target_directory) == ("", str(tmp_path))
    assert third.target_directory == str(Path("relative").absolute())
    assert fourth.target_directory == "", "the default directory, not the working directory"
    assert second.format == "NATIVE"
    assert len({first.trigger_id, second.trigger_id, third.trigger_id, ""}) == 4


@pytest.mark.parametrize("drain", [True, False])
def test_stopping(job: ClusterJobClient, dispatcher: FakeDispatcher, drain: bool) -> None:
    dispatcher.replies = [SnapshotResult("", location="/sp")]
    assert job.stop_with_savepoint(drain, "s3://bucket/sp").result() == "/sp"
    (asked,) = dispatcher.asked
    assert (asked.kind, asked.drain) == (SnapshotRequestKind.STOP, drain)
    assert asked.target_directory == "s3://bucket/sp"


def test_a_failure_is_raised(job: ClusterJobClient, dispatcher: FakeDispatcher) -> None:
    dispatcher.replies = [SnapshotResult("", error="no space left"), grpc.StatusCode.NOT_FOUND]
    with pytest.raises(SavepointError, match="no space left"):
        job.trigger_savepoint().result()
    with pytest.raises(JobExecutionError, match="does not know job"):
        job.trigger_savepoint().result()


def test_after_a_broken_connection_the_same_savepoint_is_requested_again(
    job: ClusterJobClient, dispatcher: FakeDispatcher
) -> None:
    dispatcher.replies = [grpc.StatusCode.UNAVAILABLE, SnapshotResult("", location="/sp")]
    assert job.trigger_savepoint().result() == "/sp"
    first, second = dispatcher.asked
    assert first == second
    dispatcher.replies = [grpc.StatusCode.UNAVAILABLE] * 100
    with pytest.raises(UnreachableError, match="not now"):
        job.trigger_savepoint().result()


def test_a_job_that_was_quiet_for_long_is_watched_again_when_the_connection_breaks(
    job: ClusterJobClient, dispatcher: FakeDispatcher
) -> None:
    running, finished = (JobDetails(JOB, "a job", state) for state in (JobStatus.RUNNING, JobStatus.FINISHED))
    dispatcher.watches = [[running, grpc.StatusCode.UNAVAILABLE], [running, grpc.StatusCode.UNAVAILABLE], [finished]]
    assert job.get_job_execution_result().result().get_job_id() == JOB
    assert dispatcher.watches == []
