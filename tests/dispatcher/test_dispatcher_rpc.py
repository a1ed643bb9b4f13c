"""The dispatcher over gRPC: submission, watching, cancelling, collecting, artifacts, job managers that come and go."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import os
from pathlib import Path
from typing import Any

import grpc
import pytest
from dispatcher_fixtures import DEADLINE, client, configuration, eventually, graph, job_manager, running
from msgspec.structs import replace

from millstream.core.environments.artifacts import ArtifactError, download_artifact, upload_artifact
from millstream.core.errors import MillstreamError
from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.graph import Artifact, ArtifactKind, JobGraph
from millstream.core.jobs.ids import ANY_EPOCH, JobId, new_id
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.core.messages.dispatcher import (
    ArtifactChunk,
    ArtifactRequest,
    CancelJob,
    ForgetJob,
    JobRequest,
    StartJob,
    SubmitJobRequest,
)
from millstream.core.messages.results import CollectRequest, CollectResponse
from millstream.core.messages.session import Empty, Heartbeat, Hello
from millstream.core.services.leader_lookup import Role
from millstream.core.services.rpc import Stub, open_channel
from millstream.core.store.memory import MemoryStore
from millstream.core.store.store import Contest, Kind
from millstream.core.wire.contracts import JOB_MANAGER_AT_DISPATCHER
from millstream.dispatcher import lifecycle
from millstream.dispatcher.artifact_store import ArtifactStore
from millstream.dispatcher.service import DispatcherService


async def submit(stub: Stub, job: JobGraph) -> JobId:
    job_id: JobId = (await stub.submit_job(SubmitJobRequest(job))).job_id
    return job_id


async def refused(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as caught:
        await call
    error: Any = caught.value
    return error.code(), error.details()


def details(job: JobGraph, state: JobStatus, **fields: Any) -> JobDetails:
    return JobDetails(job.job_id, job.name, state, start_time=1, **fields)


async def test_a_job_from_submission_to_its_end(tmp_path: Path) -> None:
    options = configuration(tmp_path)
    async with running(options, with_rest=False) as service, client(service, options) as stub:
        job = graph()
        assert await submit(stub, job) == job.job_id
        watch = stub.watch_job(JobRequest(job.job_id))
        first = await watch.read()
        assert (first.state, first.message) == (JobStatus.INITIALIZING, "waiting for a job manager")
        assert [node.description for node in first.plan] == ["Source", "Sink"]
        assert first.slots_required == 2

        async with job_manager(service, options) as manager:
            started = await manager.next(StartJob)
            assert started.graph == job
            assert (await watch.read()).message == "starting"
            states = [JobStatus.CREATED, JobStatus.RUNNING, JobStatus.FINISHED]
            for state in (*states[:2], *states[1:]):
                manager.report(details(job, state))
            assert [(await watch.read()).state for _ in range(3)] == states
            assert await watch.read() is grpc.aio.EOF
            assert (await manager.next(ForgetJob)).job_id == job.job_id
        listed = await stub.list_jobs(Empty())
        assert [(d.job_id, d.state) for d in listed.jobs] == [(job.job_id, JobStatus.FINISHED)]
        code, reason = await refused(stub.cancel_job(JobRequest(job.job_id)))
        assert code is grpc.StatusCode.FAILED_PRECONDITION
        assert "already FINISHED" in reason


async def test_a_job_is_in_the_store_before_its_submission_is_answered_until_a_job_manager_has_taken_it(
    tmp_path: Path,
) -> None:
    options = configuration(tmp_path)
    store = MemoryStore()
    session, reader = store.connect(), store.connect()
    running_with_it = running(options, with_rest=False, store=session)
    async with running_with_it as service, client(service, options) as stub:
        leader = await reader.leader(Contest(Role.DISPATCHER))
        assert leader is not None
        assert leader.address == service.address
        taken, cancelled = graph(), graph()
        for job in (taken, cancelled):
            await submit(stub, job)
        assert await reader.names(Kind.JOB_GRAPH) == sorted([taken.job_id, cancelled.job_id])
        await stub.cancel_job(JobRequest(cancelled.job_id))
        assert await reader.names(Kind.JOB_GRAPH) == [taken.job_id]
        session.suspend()
        late = graph()
        submitting = asyncio.create_task(submit(stub, late))
        async with job_manager(service, options) as manager:
            await manager.next(StartJob)
            manager.report(details(taken, JobStatus.RUNNING))
            watch = stub.watch_job(JobRequest(taken.job_id))
            while (await watch.read()).state is not JobStatus.RUNNING:
                pass
            assert not submitting.done()
            assert await reader.names(Kind.JOB_GRAPH) == [taken.job_id]
            session.resume()
            assert await submitting == late.job_id
            assert (await manager.next(StartJob)).graph == late
            assert await reader.names(Kind.JOB_GRAPH) == [late.job_id]
    assert await reader.leader(Contest(Role.DISPATCHER)) is None


async def test_refused_submissions_and_unknown_jobs(tmp_path: Path) -> None:
    options = configuration(tmp_path)
    async with running(options, with_rest=False) as service, client(service, options) as stub:
        job = graph()
        await submit(stub, job)
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
            "unknown strategy": replace(graph(), edges=(replace(job.edges[0], strategy="MAGIC"),)),
            "was not uploaded": replace(graph(), artifacts=(Artifact("0" * 64, "x.whl", ArtifactKind.WHEEL),)),
            "not a sha256": replace(graph(), artifacts=(Artifact("../x", "x.whl", ArtifactKind.WHEEL),)),
            "unknown option": replace(graph(), configuration={"rest.no-such-option": "1"}),
        }
        for reason, bad in wrong.items():
            code, text = await refused(stub.submit_job(SubmitJobRequest(bad)))
            assert code is grpc.StatusCode.INVALID_ARGUMENT
            assert reason in text
        unknown = JobRequest(JobId(new_id()))
        for call in (stub.get_job(unknown), stub.cancel_job(unknown), stub.watch_job(unknown).read()):
            assert (await refused(call))[0] is grpc.StatusCode.NOT_FOUND
        collect = stub.collect(CollectRequest(JobId(new_id()), "x"))
        assert (await refused(collect))[0] is grpc.StatusCode.NOT_FOUND


async def test_cancelling_before_and_while_running(tmp_path: Path) -> None:
    options = configuration(tmp_path)
    async with running(options, with_rest=False) as service, client(service, options) as stub:
        queued = await submit(stub, graph())
        await stub.cancel_job(JobRequest(queued))
        ended = await stub.get_job(JobRequest(queued))
        assert ended.state is JobStatus.CANCELED
        assert {s.state for v in ended.vertices for s in v.subtasks} == {ExecutionState.CANCELED}
        await stub.cancel_job(JobRequest(queued))

        async with job_manager(service, options) as manager:
            job = graph()
            await submit(stub, job)
            await manager.next(StartJob)
            await stub.cancel_job(JobRequest(job.job_id))
            assert (await manager.next(CancelJob)).job_id == job.job_id


async def test_results_are_relayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = configuration(tmp_path)
    async with running(options, with_rest=False) as service, client(service, options) as stub:
        job = graph()
        await submit(stub, job)
        request = CollectRequest(job.job_id, "x", offset=7, request_id="mine")
        assert "no job manager" in (await stub.collect(request)).error
        async with job_manager(service, options) as manager:
            await manager.next(StartJob)
            answer = asyncio.ensure_future(stub.collect(request))
            asked = await manager.next(CollectRequest)
            assert (asked.operator_id, asked.offset) == ("x", 7)
            response = CollectResponse(asked.request_id, "v", offset=7, batches=(b"data",))
            manager.send(response)
            assert await answer == replace(response, request_id="mine")

            monkeypatch.setattr(lifecycle, "ANSWER_TIMEOUT", 0.05)
            assert "did not answer" in (await stub.collect(request)).error
            monkeypatch.setattr(lifecycle, "ANSWER_TIMEOUT", DEADLINE)
            answer = asyncio.ensure_future(stub.collect(request))
            await manager.next(CollectRequest)
            await manager.next(CollectRequest)
        assert "disconnected" in (await answer).error


async def test_a_job_manager_that_stays_away_fails_its_jobs(tmp_path: Path) -> None:
    options = configuration(tmp_path, heartbeat__timeout="1 s")
    async with running(options, with_rest=False) as service, client(service, options) as stub:
        job = graph()
        await submit(stub, job)
        async with job_manager(service, options) as manager:
            await manager.next(StartJob)
            manager.report(details(job, JobStatus.RUNNING))
            watch = stub.watch_job(JobRequest(job.job_id))
            while (await watch.read()).state is not JobStatus.RUNNING:
                pass
        away = await asyncio.wait_for(watch.read(), DEADLINE)
        assert away.state is JobStatus.RUNNING
        assert away.message == "no connection to its job manager; it fails unless that is back within 1 s"
        last = await asyncio.wait_for(watch.read(), DEADLINE)
        assert (last.state, last.message) == (JobStatus.FAILED, "")
        assert last.failures[0].exception.startswith("job manager jm-1 was lost: ")
        assert last.end_time > 0


def test_a_job_manager_that_comes_back_in_time_keeps_its_jobs(tmp_path: Path) -> None:
    options = configuration(tmp_path)

    async def scenario() -> None:
        async with running(options, with_rest=False) as service, client(service, options) as stub:
            job = graph()
            await submit(stub, job)
            async with job_manager(service, options) as manager:
                await manager.next(StartJob)
                manager.report(details(job, JobStatus.RUNNING, message="one"))
                await manager.disconnect()
                manager.jobs[job.job_id] = details(job, JobStatus.RUNNING, message="two")
                await manager.connect(service.address)

                async def is_updated() -> bool:
                    return (await stub.get_job(JobRequest(job.job_id))).message == "two"

                await eventually(is_updated)

    asyncio.run(scenario())


def test_a_new_dispatcher_takes_up_running_jobs(tmp_path: Path) -> None:
    options = configuration(tmp_path)

    async def scenario() -> None:
        async with running(options, with_rest=False) as service, client(service, options) as stub:
            job = graph()
            async with job_manager(service, options, "jm-2") as manager:
                await manager.disconnect()
                manager.jobs[job.job_id] = details(job, JobStatus.RUNNING)
                await manager.connect(service.address)

                async def is_listed() -> bool:
                    return [d.job_id for d in (await stub.list_jobs(Empty())).jobs] == [job.job_id]

                await eventually(is_listed)
                await stub.cancel_job(JobRequest(job.job_id))
                assert (await manager.next(CancelJob)).job_id == job.job_id

    asyncio.run(scenario())


async def test_a_session_that_does_not_register_first_is_closed(tmp_path: Path) -> None:
    options = configuration(tmp_path)
    async with running(options, with_rest=False) as service, client(service, options) as stub:
        call = stub.connect_job_manager()
        first = JobDetails(JobId(new_id()), "a job", JobStatus.RUNNING)
        for said in (Hello(ANY_EPOCH), first):
            await call.write(JOB_MANAGER_AT_DISPATCHER.up.to_bytes(said))
        async with asyncio.timeout(DEADLINE):
            while (raw := await call.read()) is not grpc.aio.EOF:
                assert isinstance(JOB_MANAGER_AT_DISPATCHER.down.from_bytes(raw), Hello | Heartbeat)
        assert not (await stub.list_jobs(Empty())).jobs


async def test_ended_jobs_are_forgotten_beyond_the_capacity(tmp_path: Path) -> None:
    options = configuration(tmp_path, **{"jobstore.max-capacity": "2"})
    async with running(options, with_rest=False) as service, client(service, options) as stub:
        ids = [await submit(stub, graph()) for _ in range(3)]
        for job_id in ids:
            await stub.cancel_job(JobRequest(job_id))
        assert [d.job_id for d in (await stub.list_jobs(Empty())).jobs] == ids[1:]


async def test_the_graph_is_kept_only_until_a_job_manager_has_it(tmp_path: Path) -> None:
    options = configuration(tmp_path)

    def kept(job: JobGraph) -> int:
        gc.collect()
        held = [found for found in gc.get_objects() if isinstance(found, JobGraph) and found is not job]
        return sum(found.job_id == job.job_id for found in held)

    async with running(options, with_rest=False) as service, client(service, options) as stub:
        cancelled, started = graph(), graph()
        await submit(stub, cancelled)
        assert kept(cancelled) == 1
        await stub.cancel_job(JobRequest(cancelled.job_id))
        assert kept(cancelled) == 0
        await submit(stub, started)
        async with job_manager(service, options) as manager:
            await manager.next(StartJob)
            assert kept(started) == 1  # a job manager that registers again without it is told once more
            watch = stub.watch_job(JobRequest(started.job_id))
            manager.report(details(started, JobStatus.RUNNING))
            while (await watch.read()).state is not JobStatus.RUNNING:
                continue
            assert kept(started) == 0


def test_artifacts_that_no_job_needs_are_deleted(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path, 1000)

    def stored(content: bytes) -> str:
        (tmp_path / "file").write_bytes(content)
        return asyncio.run(store.adopt(tmp_path / "file", "file", ArtifactKind.ARCHIVE)).sha256

    used, asked_for, unused = (stored(content) for content in (b"used", b"asked for", b"unused"))
    (tmp_path / ".partial-x").touch()
    for path in tmp_path.iterdir():
        os.utime(path, (1, 1))
    assert store.has(asked_for)
    assert sorted(store.clean([used], 3600)) == sorted([unused, ".partial-x"])
    assert store.clean([], 3600) == []
    assert (store.has(used), store.has(asked_for), store.has(unused)) == (True, True, False)
    assert (tmp_path / "file").exists()


async def test_the_dispatcher_keeps_the_artifacts_of_jobs_that_have_not_ended(tmp_path: Path) -> None:
    options = configuration(tmp_path)
    async with running(options, with_rest=False) as service, client(service, options) as stub:
        (tmp_path / "data.zip").write_bytes(b"data")
        async with open_channel(service.address, options) as channel:
            artifact = await upload_artifact(channel, tmp_path / "data.zip", ArtifactKind.ARCHIVE)
        path = tmp_path / "work" / "artifacts" / artifact.sha256
        job = replace(graph(), artifacts=(artifact,))
        await submit(stub, job)
        async with job_manager(service, options) as manager:
            await manager.next(StartJob)
            for state, kept in ((JobStatus.RUNNING, True), (JobStatus.FINISHED, False)):
                watch = stub.watch_job(JobRequest(job.job_id))
                manager.report(details(job, state, artifacts=(artifact.sha256,)))
                while (await watch.read()).state != state:
                    continue
                os.utime(path, (1, 1))
                await service.clean_artifacts()
                assert path.exists() is kept


async def test_artifacts_go_up_and_come_down(tmp_path: Path) -> None:
    options = configuration(tmp_path, **{"web.upload.max-size": "3 mb"})
    content = bytes(range(256)) * 10_000
    (tmp_path / "data.zip").write_bytes(content)
    (tmp_path / "large.zip").write_bytes(b"x" * (3 * 1024 * 1024 + 1))
    async with (
        running(options, with_rest=False) as service,
        client(service, options) as stub,
        open_channel(service.address, options) as channel,
    ):
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
            yield ArtifactChunk(replace(artifact, sha256="1" * 64))
            yield ArtifactChunk(data=b"something else")

        async def nameless() -> Any:
            yield ArtifactChunk(data=b"something else")

        assert "arrived damaged" in (await refused(stub.upload_artifact(damaged())))[1]
        assert "name the artifact" in (await refused(stub.upload_artifact(nameless())))[1]
        assert "not a sha256" in (await refused(stub.has_artifact(ArtifactRequest("../../etc"))))[1]
    stored = [path.name for path in (tmp_path / "work" / "artifacts").iterdir()]
    assert stored == [artifact.sha256]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["data.zip"]


async def test_a_port_that_is_taken_is_one_line(tmp_path: Path) -> None:
    options = configuration(tmp_path)
    async with running(options) as service:
        port = service.address.rpartition(":")[2]
        second = DispatcherService(configuration(tmp_path, **{"dispatcher.rpc.port": port}))
        with pytest.raises(MillstreamError, match=r"cannot listen on .*dispatcher.rpc.port.*taken"):
            await second.start()
        await second.stop()
        port = service.rest_address.rpartition(":")[2]
        third = DispatcherService(configuration(tmp_path, **{"rest.port": port}))
        with pytest.raises(MillstreamError, match=r"cannot listen on .*rest.port.*taken"):
            await third.start()
        await third.stop()


async def test_rest_refuses_other_addresses_without_security(tmp_path: Path) -> None:
    service = DispatcherService(configuration(tmp_path, **{"rest.bind-address": "0.0.0.0"}))
    try:
        with pytest.raises(MillstreamError, match="refusing to listen on 0"):
            await service.start()
    finally:
        await service.stop()
