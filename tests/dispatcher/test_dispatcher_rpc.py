"""The dispatcher over gRPC: submission, watching, cancelling, collecting, artifacts, job managers that come and go."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from dispatcher_fixtures import DEADLINE, RunningDispatcher, configuration, dispatching, eventually, graph, running
from msgspec.structs import replace

from millstream.core.environments.artifacts import ArtifactError, download_artifact, upload_artifact
from millstream.core.errors import MillstreamError
from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.graph import Artifact, ArtifactKind, Exchange, JobGraph
from millstream.core.jobs.ids import ANY_EPOCH, JobId, JobManagerId, new_id
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.core.messages import dispatcher as dp
from millstream.core.messages.results import CollectRequest, CollectResponse
from millstream.core.messages.session import Empty, Heartbeat, Hello
from millstream.core.services.leader_lookup import ConfiguredLeaders, Role
from millstream.core.services.rpc import Stub, open_channel
from millstream.core.store.high_availability import in_memory
from millstream.core.store.memory import MemoryStore
from millstream.core.store.store import Contest, Kind
from millstream.core.wire.contracts import DISPATCHER, JOB_MANAGER_AT_DISPATCHER
from millstream.dispatcher import lifecycle
from millstream.dispatcher.service import DispatcherService


async def refused(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as caught:
        await call
    error: Any = caught.value
    return error.code(), error.details()


def details(job: JobGraph, state: JobStatus, **fields: Any) -> JobDetails:
    return JobDetails(job.job_id, job.name, state, start_time=1, **fields)


async def test_a_job_from_submission_to_its_end(dispatcher: RunningDispatcher) -> None:
    job = graph()
    assert await dispatcher.submit(job) == job.job_id
    watch = dispatcher.watch(job.job_id)
    first = await watch.read()
    assert (first.state, first.message) == (JobStatus.INITIALIZING, "waiting for a job manager")
    assert [node.description for node in first.plan] == ["Source", "Sink"]
    assert first.slots_required == 2

    async with dispatcher.job_manager() as manager:
        started = await manager.next(dp.StartJob)
        assert started.graph == job
        assert (await watch.read()).message == "starting"
        states = [JobStatus.CREATED, JobStatus.RUNNING, JobStatus.FINISHED]
        for state in (*states[:2], *states[1:]):
            manager.report(details(job, state))
        assert [(await watch.read()).state for _ in range(3)] == states
        assert await watch.read() is grpc.aio.EOF
        assert (await manager.next(dp.ForgetJob)).job_id == job.job_id
    listed = await dispatcher.stub.list_jobs(Empty())
    assert [(d.job_id, d.state) for d in listed.jobs] == [(job.job_id, JobStatus.FINISHED)]
    code, reason = await refused(dispatcher.cancel(job.job_id))
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert "already FINISHED" in reason


async def test_a_job_is_in_the_store_before_its_submission_is_answered_until_a_job_manager_has_taken_it(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    session, reader = store.connect(), store.connect()
    ha = in_memory(session, ConfiguredLeaders(configuration(tmp_path)))
    async with dispatching(configuration(tmp_path), ha) as dispatcher:
        assert (await reader.leader(Contest(Role.DISPATCHER))).address == dispatcher.service.address
        taken, cancelled = graph(), graph()
        for job in (taken, cancelled):
            await dispatcher.submit(job)
        assert await reader.names(Kind.JOB_GRAPH) == sorted([taken.job_id, cancelled.job_id])
        await dispatcher.cancel(cancelled.job_id)
        assert await reader.names(Kind.JOB_GRAPH) == [taken.job_id]
        session.suspend()
        late = graph()
        submitting = asyncio.create_task(dispatcher.submit(late))
        async with dispatcher.job_manager() as manager:
            await manager.next(dp.StartJob)
            await dispatcher.reported(manager, details(taken, JobStatus.RUNNING))
            assert not submitting.done()
            assert await reader.names(Kind.JOB_GRAPH) == [taken.job_id]
            session.resume()
            assert await submitting == late.job_id
            assert (await manager.next(dp.StartJob)).graph == late
            assert await reader.names(Kind.JOB_GRAPH) == [late.job_id]
    assert await reader.leader(Contest(Role.DISPATCHER)) is None


async def test_refused_submissions_and_unknown_jobs(dispatcher: RunningDispatcher) -> None:
    job = graph()
    await dispatcher.submit(job)
    first, second = job.vertices
    wrong = {
        "was already submitted": job,
        "32 hexadecimal": replace(job, job_id=JobId("nonsense")),
        "no operators": replace(graph(), vertices=(), edges=()),
        "two vertices": replace(graph(), vertices=(first, first)),
        "topological": replace(graph(), vertices=(second, first)),
        "vertex that does not exist": replace(graph(), vertices=(first,)),
        "parallelism 0": replace(graph(), vertices=(replace(first, parallelism=0), second)),
        "more than its maximum": replace(graph(), vertices=(replace(first, parallelism=200), second)),
        "at most 32768 key groups": replace(
            graph(), vertices=(replace(first, parallelism=10**6, max_parallelism=10**6), second)
        ),
        "unknown strategy": replace(graph(), edges=(replace(job.edges[0], strategy="MAGIC"),)),
        "the edge from 'Source' to 'Sink' is blocking": replace(
            graph(), edges=(replace(job.edges[0], exchange=Exchange.BLOCKING),)
        ),
        "was not uploaded": replace(graph(), artifacts=(Artifact("0" * 64, "x.whl", ArtifactKind.WHEEL),)),
        "not a sha256": replace(graph(), artifacts=(Artifact("../x", "x.whl", ArtifactKind.WHEEL),)),
        "unknown option": replace(graph(), configuration={"rest.no-such-option": "1"}),
    }
    for reason, bad in wrong.items():
        code, text = await refused(dispatcher.submit(bad))
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert reason in text
    unknown = dp.JobRequest(JobId(new_id()))
    for call in (
        dispatcher.stub.get_job(unknown),
        dispatcher.stub.cancel_job(unknown),
        dispatcher.stub.watch_job(unknown).read(),
    ):
        assert (await refused(call))[0] is grpc.StatusCode.NOT_FOUND
    collect = dispatcher.stub.collect(CollectRequest(JobId(new_id()), "x"))
    assert (await refused(collect))[0] is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("method", ["GetJob", "WatchJob", "UploadArtifact"])
async def test_what_is_no_message_is_refused_with_the_reason(
    dispatcher: RunningDispatcher, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def stream() -> AsyncIterator[bytes]:
        yield b"\xff"

    name = f"/{DISPATCHER.service.full_name}/{method}"
    channel: Any = dispatcher.channel
    calls = {
        "GetJob": lambda: channel.unary_unary(name)(b"\xff"),
        "WatchJob": lambda: channel.unary_stream(name)(b"\xff").read(),
        "UploadArtifact": lambda: channel.stream_unary(name)(stream()),
    }
    code, text = await refused(calls[method]())
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert text.startswith("this is no millstream.dispatcher.")
    (line,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert line.getMessage().startswith(f"refused a call of {method} from ipv4:127.0.0.1:")
    assert line.exc_info is None


async def test_cancelling_before_and_while_running(dispatcher: RunningDispatcher) -> None:
    queued = await dispatcher.submit(graph())
    await dispatcher.cancel(queued)
    ended = await dispatcher.stub.get_job(dp.JobRequest(queued))
    assert ended.state is JobStatus.CANCELED
    assert {s.state for v in ended.vertices for s in v.subtasks} == {ExecutionState.CANCELED}
    await dispatcher.cancel(queued)

    async with dispatcher.job_manager() as manager:
        job = graph()
        await dispatcher.submit(job)
        await manager.next(dp.StartJob)
        await dispatcher.cancel(job.job_id)
        assert (await manager.next(dp.CancelJob)).job_id == job.job_id


async def test_results_are_relayed(dispatcher: RunningDispatcher, monkeypatch: pytest.MonkeyPatch) -> None:
    job = graph()
    await dispatcher.submit(job)
    request = CollectRequest(job.job_id, "x", offset=7, request_id="mine")
    assert "no job manager" in (await dispatcher.stub.collect(request)).error
    async with dispatcher.job_manager() as manager:
        await manager.next(dp.StartJob)
        result = asyncio.ensure_future(dispatcher.stub.collect(request))
        asked = await manager.next(CollectRequest)
        assert (asked.operator_id, asked.offset) == ("x", 7)
        response = CollectResponse(asked.request_id, "v", offset=7, batches=(b"data",))
        manager.send(response)
        assert await result == replace(response, request_id="mine")

        monkeypatch.setattr(lifecycle, "RESPONSE_TIMEOUT", 0.05)
        assert "did not respond" in (await dispatcher.stub.collect(request)).error
        monkeypatch.setattr(lifecycle, "RESPONSE_TIMEOUT", DEADLINE)
        result = asyncio.ensure_future(dispatcher.stub.collect(request))
        await manager.next(CollectRequest)
        await manager.next(CollectRequest)
    assert "disconnected" in (await result).error


async def test_a_job_manager_that_stays_away_fails_its_jobs(tmp_path: Path) -> None:
    async with dispatching(configuration(tmp_path, heartbeat__timeout="1 s")) as dispatcher:
        job = graph()
        await dispatcher.submit(job)
        async with dispatcher.job_manager() as manager:
            await manager.next(dp.StartJob)
            await dispatcher.reported(manager, details(job, JobStatus.RUNNING))
            watch = dispatcher.watch(job.job_id)
            await watch.read()
        away = await asyncio.wait_for(watch.read(), DEADLINE)
        assert away.state is JobStatus.RUNNING
        assert away.message == "no connection to its job manager; it fails unless that is back within 1 s"
        last = await asyncio.wait_for(watch.read(), DEADLINE)
        assert (last.state, last.message) == (JobStatus.FAILED, "")
        assert last.failures[0].exception.startswith("job manager jm-1 was lost: ")
        assert last.end_time > 0


async def test_a_job_manager_that_comes_back_in_time_keeps_its_jobs(dispatcher: RunningDispatcher) -> None:
    job = graph()
    await dispatcher.submit(job)
    async with dispatcher.job_manager() as manager:
        await manager.next(dp.StartJob)
        manager.report(details(job, JobStatus.RUNNING, message="one"))
        await manager.disconnect()
        manager.jobs[job.job_id] = details(job, JobStatus.RUNNING, message="two")
        await manager.connect(dispatcher.service.address)

        async def is_updated() -> bool:
            return (await dispatcher.stub.get_job(dp.JobRequest(job.job_id))).message == "two"

        await eventually(is_updated)


async def test_a_new_dispatcher_takes_up_running_jobs(dispatcher: RunningDispatcher) -> None:
    job = graph()
    async with dispatcher.job_manager("jm-2") as manager:
        await manager.disconnect()
        manager.jobs[job.job_id] = details(job, JobStatus.RUNNING)
        await manager.connect(dispatcher.service.address)

        async def is_listed() -> bool:
            return [d.job_id for d in (await dispatcher.stub.list_jobs(Empty())).jobs] == [job.job_id]

        await eventually(is_listed)
        await dispatcher.cancel(job.job_id)
        assert (await manager.next(dp.CancelJob)).job_id == job.job_id


async def test_a_session_that_does_not_register_first_is_closed(dispatcher: RunningDispatcher) -> None:
    call = dispatcher.stub.connect_job_manager()
    first = JobDetails(JobId(new_id()), "a job", JobStatus.RUNNING)
    for message in (Hello(ANY_EPOCH), first):
        await call.write(JOB_MANAGER_AT_DISPATCHER.up.to_bytes(message))
    async with asyncio.timeout(DEADLINE):
        while (raw := await call.read()) is not grpc.aio.EOF:
            assert isinstance(JOB_MANAGER_AT_DISPATCHER.down.from_bytes(raw), Hello | Heartbeat)
    assert not (await dispatcher.stub.list_jobs(Empty())).jobs


async def test_what_a_job_manager_said_in_a_session_before_its_last_counts_no_more(
    dispatcher: RunningDispatcher,
) -> None:
    """However late it comes. What is displaced by a later session is closed: no end believes to be connected."""
    up, down = JOB_MANAGER_AT_DISPATCHER.up, JOB_MANAGER_AT_DISPATCHER.down
    registration = up.to_bytes(dp.RegisterJobManager(JobManagerId("jm"), "x:1"))

    async def until(call: Any, kind: type | None) -> Any:
        async with asyncio.timeout(DEADLINE):
            while (raw := await call.read()) is not grpc.aio.EOF:
                if kind is not None and isinstance(found := down.from_bytes(raw), kind):
                    return found
        return None

    async def opened() -> Any:
        call = dispatcher.stub.connect_job_manager()
        await call.write(up.to_bytes(Hello(ANY_EPOCH)))
        await until(call, Hello)
        return call

    first, second, third = [await opened() for _ in range(3)]
    await second.write(registration)
    job_id = await dispatcher.submit(graph())
    assert (await until(second, dp.StartJob)).graph.job_id == job_id
    await first.write(registration)
    assert await until(first, None) is None, "it is closed"
    (details,) = (await dispatcher.stub.list_jobs(Empty())).jobs
    assert not details.state.is_terminal, "the second still has it"
    await third.write(registration)
    assert await until(second, None) is None, "it is closed"
    assert (await until(third, dp.StartJob)).graph.job_id == job_id


async def test_a_job_manager_that_registers_while_the_dispatcher_stops_is_given_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = configuration(tmp_path)
    service = DispatcherService(options, with_rest=False)  # so that it is closed as soon as it stops
    await service.start()
    async with open_channel(service.address, options) as channel:
        stub = Stub(channel, DISPATCHER)
        await stub.submit_job(dp.SubmitJobRequest(graph()))
        call = stub.connect_job_manager()
        await call.write(JOB_MANAGER_AT_DISPATCHER.up.to_bytes(Hello(ANY_EPOCH)))
        assert isinstance(JOB_MANAGER_AT_DISPATCHER.down.from_bytes(await call.read()), Hello)
        stopping = asyncio.create_task(service.stop())
        await asyncio.sleep(0)
        await call.write(JOB_MANAGER_AT_DISPATCHER.up.to_bytes(dp.RegisterJobManager(JobManagerId("jm"), "x:1")))
        async with asyncio.timeout(DEADLINE):
            while (raw := await call.read()) is not grpc.aio.EOF:
                assert isinstance(JOB_MANAGER_AT_DISPATCHER.down.from_bytes(raw), Heartbeat)
        await stopping
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_ended_jobs_are_forgotten_beyond_the_capacity(tmp_path: Path) -> None:
    async with dispatching(configuration(tmp_path, **{"jobstore.max-capacity": "2"})) as dispatcher:
        ids = [await dispatcher.submit(graph()) for _ in range(3)]
        for job_id in ids:
            await dispatcher.cancel(job_id)
        assert [d.job_id for d in (await dispatcher.stub.list_jobs(Empty())).jobs] == ids[1:]


async def test_the_graph_is_kept_only_until_a_job_manager_has_it(dispatcher: RunningDispatcher) -> None:
    def kept(job: JobGraph) -> int:
        gc.collect()
        held = [found for found in gc.get_objects() if isinstance(found, JobGraph) and found is not job]
        return sum(found.job_id == job.job_id for found in held)

    cancelled, started = graph(), graph()
    await dispatcher.submit(cancelled)
    assert kept(cancelled) == 1
    await dispatcher.cancel(cancelled.job_id)
    assert kept(cancelled) == 0
    await dispatcher.submit(started)
    async with dispatcher.job_manager() as manager:
        await manager.next(dp.StartJob)
        assert kept(started) == 1  # a job manager that registers again without it gets the message once more
        await dispatcher.reported(manager, details(started, JobStatus.RUNNING))
        assert kept(started) == 0


async def test_the_dispatcher_keeps_the_artifacts_of_jobs_that_have_not_ended(
    tmp_path: Path, dispatcher: RunningDispatcher
) -> None:
    (tmp_path / "data.zip").write_bytes(b"data")
    artifact = await upload_artifact(dispatcher.channel, tmp_path / "data.zip", ArtifactKind.ARCHIVE)
    path = tmp_path / "work" / "artifacts" / artifact.sha256
    job = replace(graph(), artifacts=(artifact,))
    await dispatcher.submit(job)
    async with dispatcher.job_manager() as manager:
        await manager.next(dp.StartJob)
        for state, kept in ((JobStatus.RUNNING, True), (JobStatus.FINISHED, False)):
            await dispatcher.reported(manager, details(job, state, artifacts=(artifact.sha256,)))
            os.utime(path, (1, 1))
            await dispatcher.service.clean_artifacts()
            assert path.exists() is kept


async def test_artifacts_go_up_and_come_down(tmp_path: Path) -> None:
    options = configuration(tmp_path, **{"web.upload.max-size": "3 mb"})
    content = bytes(range(256)) * 10_000
    (tmp_path / "data.zip").write_bytes(content)
    (tmp_path / "large.zip").write_bytes(b"x" * (3 * 1024 * 1024 + 1))
    async with dispatching(options) as dispatcher:
        stub, channel = dispatcher.stub, dispatcher.channel
        artifact = await upload_artifact(channel, tmp_path / "data.zip", ArtifactKind.ARCHIVE)
        assert artifact == Artifact(hashlib.sha256(content).hexdigest(), "data.zip", ArtifactKind.ARCHIVE)
        assert await upload_artifact(channel, tmp_path / "data.zip", ArtifactKind.ARCHIVE) == artifact
        await download_artifact(channel, artifact, tmp_path / "out" / "data.zip")
        assert await asyncio.to_thread((tmp_path / "out" / "data.zip").read_bytes) == content

        with pytest.raises(ArtifactError, match="no artifact with sha256"):
            await download_artifact(channel, replace(artifact, sha256="0" * 64), tmp_path / "out" / "missing")
        with pytest.raises(ArtifactError, match=r"large.zip is larger than web.upload.max-size"):
            await upload_artifact(channel, tmp_path / "large.zip", ArtifactKind.ARCHIVE)
        with pytest.raises(ArtifactError, match="cannot read"):
            await upload_artifact(channel, tmp_path / "nothing.zip", ArtifactKind.ARCHIVE)

        async def damaged() -> Any:
            yield dp.ArtifactChunk(replace(artifact, sha256="1" * 64))
            yield dp.ArtifactChunk(data=b"something else")

        async def nameless() -> Any:
            yield dp.ArtifactChunk(data=b"something else")

        assert "arrived damaged" in (await refused(stub.upload_artifact(damaged())))[1]
        assert "name the artifact" in (await refused(stub.upload_artifact(nameless())))[1]
        assert "not a sha256" in (await refused(stub.has_artifact(dp.ArtifactRequest("../../etc"))))[1]
    stored = [path.name for path in (tmp_path / "work" / "artifacts").iterdir()]
    assert stored == [artifact.sha256]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["data.zip"]


async def test_a_port_that_is_taken_is_one_line(tmp_path: Path) -> None:
    async with running(configuration(tmp_path)) as service:
        for key, address in (("dispatcher.rpc.port", service.address), ("rest.port", service.rest_address)):
            second = DispatcherService(configuration(tmp_path, **{key: address.rpartition(":")[2]}))
            with pytest.raises(MillstreamError, match=rf"cannot listen on .*{key}.*in use"):
                await second.start()
            await second.stop()


async def test_rest_refuses_other_addresses_without_security(tmp_path: Path) -> None:
    service = DispatcherService(configuration(tmp_path, **{"rest.bind-address": "0.0.0.0"}))
    try:
        with pytest.raises(MillstreamError, match="refusing to listen on 0"):
            await service.start()
    finally:
        await service.stop()
