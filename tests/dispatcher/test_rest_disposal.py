"""Deleting savepoints over REST: what is no savepoint, or may still be needed, stays."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest
from dispatcher_fixtures import Checked, RunningDispatcher, eventually, graph
from msgspec.structs import replace

from millstream.core.jobs.ids import JobId, OperatorId, new_id
from millstream.core.messages.dispatcher import SubmitJobRequest
from millstream.core.snapshot import (
    FileSystemStorage,
    OperatorSnapshot,
    SnapshotKind,
    SnapshotMetadata,
    StateFile,
    StateKind,
    StateSnapshot,
)


def snapshot(root: Path, job_id: str, kind: SnapshotKind, shared: bool = False) -> Path:
    """A snapshot with one file, and a file of the user's beside it."""
    storage = FileSystemStorage(str(root), JobId(job_id))
    savepoint = kind is SnapshotKind.SAVEPOINT
    location = storage.savepoint_location(str(root)) if savepoint else storage.checkpoint_location(1)
    writer = storage.create_writer(location, "op", "count", 0, "parquet", shared=shared)
    writer.write(b"content")
    written = writer.commit()
    file = StateFile(written.path, 0, None, None, 1, written.size, written.checksum)
    state = StateSnapshot("count", StateKind.OPERATOR_LIST, value_type={"type": "basic", "name": "Long"}, files=(file,))
    operator = OperatorSnapshot(OperatorId("op"), None, "Map", 1, 128, (state,))
    storage.write_metadata(location, SnapshotMetadata(1, JobId(job_id), "job", 1, kind, 5, (operator,)))
    return Path(location.removeprefix("file://"))


async def disposed(rest: Checked, path: str) -> Any:
    """The operation at its end."""
    body = {"savepoint-path": path, "triggerId": new_id()}
    trigger = (await rest("POST", "/savepoint-disposal", body=body))["request-id"]
    assert trigger == body["triggerId"]

    async def completed() -> bool:
        status = await rest("GET", "/savepoint-disposal/{triggerid}", trigger)
        return bool(status["status"]["id"] == "COMPLETED")

    await eventually(completed)
    return (await rest("GET", "/savepoint-disposal/{triggerid}", trigger))["operation"]


async def test_disposal(tmp_path: Path, dispatcher: RunningDispatcher) -> None:
    root = tmp_path / "snapshots"
    savepoint = snapshot(root, new_id(), SnapshotKind.SAVEPOINT)
    as_uri = snapshot(root, new_id(), SnapshotKind.SAVEPOINT)
    retained = snapshot(root, new_id(), SnapshotKind.CHECKPOINT)
    sharing = snapshot(root, new_id(), SnapshotKind.CHECKPOINT, shared=True)
    rest = await dispatcher.checked()
    assert await disposed(rest, str(savepoint)) == {}
    assert not await asyncio.to_thread(savepoint.exists)
    assert await disposed(rest, as_uri.as_uri() + "/_metadata.json") == {}
    assert not await asyncio.to_thread(as_uri.exists)
    assert await disposed(rest, str(retained)) == {}, "its job is not known here"
    assert not await asyncio.to_thread(retained.exists)

    job = graph()
    await dispatcher.submit(job)
    used = await asyncio.to_thread(snapshot, root, job.job_id, SnapshotKind.CHECKPOINT)
    refused = {
        str(savepoint): "is no snapshot: there is no _metadata.json in it",
        str(sharing): "may share: only savepoints are deleted",
        str(used): f"is a checkpoint of job {job.job_id}, which is INITIALIZING",
        "ftp://x/y": "has a scheme that is not known",
    }
    for path, reason in refused.items():
        assert reason in (await disposed(rest, path))["failure-cause"]["stack-trace"]
    for kept in (sharing, used):
        assert await asyncio.to_thread((kept / "_metadata.json").exists)
    assert len(await asyncio.to_thread(lambda: list(used.rglob("part-*")))) == 1
    await dispatcher.cancel(job.job_id)
    assert await disposed(rest, str(used)) == {}, "its job has ended"

    for wrong in ({}, {"savepoint-path": ""}):
        response = await dispatcher.http("POST", "/savepoint-disposal", wrong, status=400)
        assert "savepoint-path" in response.json["errors"][0]
    await dispatcher.http("GET", f"/savepoint-disposal/{new_id()}", status=404)


async def test_a_snapshot_of_a_running_job_is_that_jobs_alone(tmp_path: Path, dispatcher: RunningDispatcher) -> None:
    savepoint = snapshot(tmp_path / "snapshots", new_id(), SnapshotKind.SAVEPOINT)

    def starting(path: str, mode: str) -> SubmitJobRequest:
        prefix = "execution.state-recovery."
        job = graph()
        recovery = {f"{prefix}path": path, f"{prefix}claim-mode": mode}
        return SubmitJobRequest(replace(job, configuration={**job.configuration, **recovery}))

    rest = await dispatcher.checked()
    await dispatcher.stub.submit_job(starting(str(savepoint), "NO_CLAIM"))
    owner = (await dispatcher.stub.submit_job(starting(f"{savepoint}/_metadata.json", "CLAIM"))).job_id
    reason = f"{savepoint}: was claimed by job {owner}, which is INITIALIZING and deletes it"
    assert reason in (await disposed(rest, str(savepoint)))["failure-cause"]["stack-trace"]
    for mode in ("NO_CLAIM", "CLAIM"):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await dispatcher.stub.submit_job(starting(savepoint.as_uri(), mode))
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert reason in str(refused.value.details())
    checkpoint = f"file:///checkpoints/{owner}/chk-7"
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await dispatcher.stub.submit_job(starting(checkpoint, "CLAIM"))
    assert f"{checkpoint}: is a checkpoint of job {owner}, which is" in str(refused.value.details())
    await dispatcher.stub.submit_job(starting(checkpoint, "NO_CLAIM"))
    await dispatcher.cancel(owner)
    await dispatcher.stub.submit_job(starting(checkpoint, "CLAIM"))
    await dispatcher.stub.submit_job(starting(str(savepoint), "NO_CLAIM"))
    assert await disposed(rest, str(savepoint)) == {}, "its owner has ended, and the others do not own it"
