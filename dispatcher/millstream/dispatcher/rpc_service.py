"""The dispatcher's gRPC service, as `dispatcher.proto` has it. Errors become status codes here.

gRPC cancels the method of a client that goes away. What changes something proceeds to its end all the same, and into
the audit log: a job that is in the store but not in the table would be run by the next leader, and by no other.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NoReturn, TypeVar

import grpc

from millstream.core.environments.artifacts import ArtifactError
from millstream.core.errors import MillstreamError
from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.graph import Artifact, JobGraph
from millstream.core.jobs.ids import JobId
from millstream.core.messages import dispatcher as msg
from millstream.core.messages.results import CollectRequest, CollectResponse
from millstream.core.messages.session import Empty
from millstream.core.messages.snapshots import SnapshotRequest, SnapshotResult
from millstream.core.services.rpc import too_large
from millstream.core.services.session import serve_session
from millstream.core.settings.configuration import Configuration
from millstream.core.snapshot.errors import SnapshotError
from millstream.core.wire.contracts import JOB_GRAPH, JOB_MANAGER_AT_DISPATCHER
from millstream.dispatcher.admission import check_graph
from millstream.dispatcher.artifact_store import ArtifactStore
from millstream.dispatcher.audit import Audit
from millstream.dispatcher.callers import Caller, rpc_caller
from millstream.dispatcher.claims import check_start
from millstream.dispatcher.lifecycle import (
    JobEndedError,
    JobLifecycle,
    ManagerConnection,
    ManagerSession,
    StandbyError,
    UnknownJobError,
)

A = TypeVar("A")
Context = grpc.aio.ServicerContext[object, object]
_ENVELOPE = 64 * 1024  # what services add to a job when they hand it on


class DispatcherRpc:
    """One method for each of the contract."""

    def __init__(
        self, configuration: Configuration, lifecycle: JobLifecycle, artifacts: ArtifactStore, audit: Audit
    ) -> None:
        self._configuration = configuration
        self._audit = audit
        self._lifecycle = lifecycle
        self._artifacts = artifacts
        self._under_way: set[asyncio.Task[Any]] = set()

    async def submit_job(self, request: msg.SubmitJobRequest, context: Context) -> msg.SubmitJobResponse:
        """Accepts a job, or refuses it with INVALID_ARGUMENT."""
        await self._audited("submit", request.graph.job_id, context, self._submit(request.graph))
        return msg.SubmitJobResponse(request.graph.job_id)

    async def _submit(self, graph: JobGraph) -> None:
        size = len(JOB_GRAPH.to_bytes(graph)) + _ENVELOPE
        if refused := too_large("the job, with all its functions and collections,", size, self._configuration):
            raise MillstreamError(refused)
        await check_graph(graph, self._lifecycle.knows, self._artifacts.has)
        check_start(graph.configuration, self._lifecycle.all())
        await self._lifecycle.submit(graph)

    async def cancel_job(self, request: msg.JobRequest, context: Context) -> Empty:
        """Returns once the cancellation is requested, not once it is done."""
        await self._audited("cancel", request.job_id, context, self._lifecycle.cancel(request.job_id))
        return Empty()

    async def _audited(self, action: str, job_id: JobId, context: Context, work: Awaitable[A]) -> A:
        """The result of the work, or its error as a status."""
        doing = asyncio.ensure_future(self._recorded(action, job_id, rpc_caller(context), work))
        self._under_way.add(doing)
        doing.add_done_callback(self._ended)
        try:
            return await asyncio.shield(doing)
        except (MillstreamError, ValueError) as error:
            await _abort(context, error)

    async def _recorded(self, action: str, job_id: JobId, caller: Caller, work: Awaitable[A]) -> A:
        try:
            result = await work
        except (MillstreamError, ValueError) as error:
            self._audit.record(action, caller, job_id, str(error))
            raise
        self._audit.record(action, caller, job_id, result.error if isinstance(result, SnapshotResult) else "")
        return result

    def _ended(self, done: asyncio.Task[Any]) -> None:
        self._under_way.discard(done)
        if not done.cancelled():
            done.exception()  # the client's to hear, which may be gone

    async def get_job(self, request: msg.JobRequest, context: Context) -> JobDetails:
        """One job."""
        try:
            return self._lifecycle.details(request.job_id)
        except MillstreamError as error:
            await _abort(context, error)

    async def list_jobs(self, request: Empty, context: Context) -> msg.JobList:
        """All jobs that are remembered."""
        try:
            return msg.JobList(tuple(self._lifecycle.all()))
        except MillstreamError as error:
            await _abort(context, error)

    async def watch_job(self, request: msg.JobRequest, context: Context) -> AsyncIterator[JobDetails]:
        """The job's details now and whenever its state or message changes, up to its end."""
        try:
            self._lifecycle.details(request.job_id)
        except MillstreamError as error:
            await _abort(context, error)
        async with contextlib.aclosing(self._lifecycle.watch(request.job_id)) as updates:
            try:
                async for details in updates:
                    yield details
            except StandbyError as error:
                await _abort(context, error)

    async def collect(self, request: CollectRequest, context: Context) -> CollectResponse:
        """Results of a sink, relayed."""
        try:
            return await self._lifecycle.collect(request)
        except MillstreamError as error:
            await _abort(context, error)

    async def trigger_snapshot(self, request: SnapshotRequest, context: Context) -> SnapshotResult:
        """A savepoint, a checkpoint, or a stop with a savepoint; what went wrong with it is in the result."""
        taking = self._lifecycle.trigger_snapshot(request)
        return await self._audited(request.kind.name.lower(), request.job_id, context, taking)

    async def has_artifact(self, request: msg.ArtifactRequest, context: Context) -> msg.ArtifactStatus:
        """Whether an upload can be saved."""
        try:
            return msg.ArtifactStatus(await self._artifacts.has(request.sha256))
        except MillstreamError as error:
            await _abort(context, error)

    async def upload_artifact(self, chunks: AsyncIterator[msg.ArtifactChunk], context: Context) -> Artifact:
        """Stores an artifact; the first chunk names it."""
        first = await anext(aiter(chunks), None)
        if first is None or first.artifact is None:
            await _abort(context, MillstreamError("the first chunk of an upload has to name the artifact"))
        try:
            await self._artifacts.store(first.artifact, _data(first, chunks))
        except MillstreamError as error:
            await _abort(context, error)
        return first.artifact

    async def download_artifact(
        self, request: msg.ArtifactRequest, context: Context
    ) -> AsyncIterator[msg.ArtifactChunk]:
        """An artifact's content."""
        try:
            async with contextlib.aclosing(self._artifacts.read(request.sha256)) as pieces:
                async for data in pieces:
                    yield msg.ArtifactChunk(data=data)
        except ArtifactError as error:
            await context.abort(grpc.StatusCode.NOT_FOUND, str(error))
        except SnapshotError as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))

    async def connect_job_manager(self, _: object, context: Context) -> None:
        """A job manager's session."""
        connection: ManagerConnection | None = None
        if not self._lifecycle.leads:
            await _abort(context, StandbyError())
        session_id = self._lifecycle.next_session_id()  # now: its messages may come late

        def started(session: ManagerSession) -> Callable[[msg.JobManagerMessage], None]:
            nonlocal connection
            connection = self._lifecycle.connected(session, session_id)
            return connection.on_message

        reason = "the session was cancelled"
        peer = f"job manager ({context.peer()})"
        try:
            reason = await serve_session(
                context, JOB_MANAGER_AT_DISPATCHER, peer, self._configuration, self._lifecycle.epoch, started
            )
        finally:
            if connection is not None:
                connection.ended(reason)


async def _data(first: msg.ArtifactChunk, rest: AsyncIterator[msg.ArtifactChunk]) -> AsyncIterator[bytes]:
    yield first.data
    async for chunk in rest:
        yield chunk.data


async def _abort(context: Context, error: Exception) -> NoReturn:
    if isinstance(error, StandbyError):
        code = grpc.StatusCode.UNAVAILABLE
    elif isinstance(error, UnknownJobError):
        code = grpc.StatusCode.NOT_FOUND
    elif isinstance(error, JobEndedError):
        code = grpc.StatusCode.FAILED_PRECONDITION
    else:
        code = grpc.StatusCode.INVALID_ARGUMENT
    await context.abort(code, " ".join(str(error).split()))
    raise AssertionError("abort always raises")
