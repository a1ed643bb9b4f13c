"""A submitted job, for the program that submitted it; calls the dispatcher over gRPC."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import grpc

from millstream.client.collect_pace import CollectPace
from millstream.client.dispatcher_link import DispatcherLink
from millstream.client.failure_text import failure_text
from millstream.client.interruption import cancelling
from millstream.client.job_story import JobStory
from millstream.client.loop_thread import LoopThread
from millstream.client.result_buffer import ResultBuffer
from millstream.common.completable_future import CompletableFuture
from millstream.core.errors import JobExecutionError, UnreachableError
from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.ids import JobId, new_id
from millstream.core.jobs.states import JobStatus
from millstream.core.messages.dispatcher import JobRequest
from millstream.core.messages.results import CollectResponse
from millstream.core.messages.snapshots import SnapshotRequest, SnapshotRequestKind, SnapshotResult
from millstream.core.services.rpc import explain
from millstream.core.settings.secrets import without_secrets
from millstream.core.snapshot.metadata.model import absolute_location
from millstream.datastream.execution.executor import JobExecutionResult, SavepointError, SavepointFormatType
from millstream.datastream.functions import Accumulator

_WORTH_TELLING_AFTER = 1.0
_RETRY_AFTER = 0.2


class ClusterJobClient:
    """A `millstream.datastream.execution.executor.JobClient`."""

    def __init__(
        self, job_id: JobId, link: DispatcherLink, loop: LoopThread, release: Callable[[], None],
        story: JobStory | None = None,
    ) -> None:  # fmt: skip
        self._job_id = job_id
        self._link = link
        self._loop = loop
        self._patience = link.patience
        self._release = release
        self._closed = False
        self._story = story or JobStory(everything=False)
        self._waiting = ""
        self._lasting: asyncio.TimerHandle | None = None

    def get_job_id(self) -> JobId:
        """The job's id."""
        return self._job_id

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """The state at this moment."""
        return CompletableFuture(self._loop.start(self._status()))

    def cancel(self) -> CompletableFuture[None]:
        """Requests that the job is cancelled. Does not wait for its end."""
        return CompletableFuture(self._loop.start(self._cancel()))

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """Those of tasks that have ended, and counters."""
        return CompletableFuture(self._loop.start(self._details()), lambda found, wait: _merged(found.result(wait)))

    def trigger_savepoint(
        self,
        savepoint_directory: str | os.PathLike[str] | None = None,
        format_type: SavepointFormatType = SavepointFormatType.CANONICAL,
    ) -> CompletableFuture[str]:
        """The path of a savepoint that is taken now."""
        return self._savepoint(SnapshotRequestKind.SAVEPOINT, savepoint_directory, format_type)

    def stop_with_savepoint(
        self,
        advance_to_end_of_event_time: bool,
        savepoint_directory: str | os.PathLike[str] | None = None,
        format_type: SavepointFormatType = SavepointFormatType.CANONICAL,
    ) -> CompletableFuture[str]:
        """The path of the savepoint that the job was stopped with."""
        return self._savepoint(SnapshotRequestKind.STOP, savepoint_directory, format_type, advance_to_end_of_event_time)

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """The result of the job at its end; Ctrl-C in the meantime cancels the job and waits for that."""
        return CompletableFuture(self._loop.start(self._wait()), self._take_result)

    def _take_result(self, waiting: Future[JobDetails], timeout: float | None) -> JobExecutionResult:
        try:
            details = waiting.result(timeout)
        except KeyboardInterrupt:
            waiting.cancel()
            raise self._interrupted() from None
        except TimeoutError:
            raise
        except BaseException:
            self.close()
            raise
        self.close()
        if details.state is not JobStatus.FINISHED:
            seen = any(self._story.has_shown(failure) for failure in details.failures[:1])
            raise JobExecutionError(failure_text(details), failure_text(details, traceback_shown=seen))
        return JobExecutionResult(self._job_id, details.end_time - details.start_time, _merged(details))

    def collect(self, operator_id: str) -> Iterator[Any]:
        """The results of a collect sink as they come; leaving early cancels the job."""
        finished = False
        following = self._loop.start(self._wait())  # results are fetched elsewhere; restarts are printed here
        try:
            yield from self._collect(operator_id)
            finished = True
            following.cancel()
            self.get_job_execution_result().result()
        except KeyboardInterrupt:
            if finished:
                raise
            finished = True
            following.cancel()
            raise self._interrupted() from None
        finally:
            following.cancel()
            if not finished:
                self._cancel_at_once()
                self.close()

    def close(self) -> None:
        """Releases the connection and, in local mode, the embedded cluster; a forked child leaves both alone."""
        if not self._closed and not self._loop.was_left:
            self._closed = True
            self._loop.call(self._link.close())
            self._release()

    def _collect(self, operator_id: str) -> Iterator[Any]:
        results, pace = ResultBuffer(), CollectPace()
        while True:
            response = self._loop.call(self._ask(results, pace, operator_id))
            if isinstance(response, JobStatus):
                if response is JobStatus.FINISHED:  # which it does only when the client has everything
                    yield from results.rest()
                return
            yield from results.take(response)
            if response.finished:
                return

    async def _ask(self, results: ResultBuffer, pace: CollectPace, operator_id: str) -> CollectResponse | JobStatus:
        """Waits for something new: results, or word that some are final; or how the job has ended."""
        while True:
            await asyncio.sleep(pace.pause)
            try:
                response: CollectResponse = await self._link.stub.collect(results.request(self._job_id, operator_id))
            except grpc.RpcError as error:
                response = CollectResponse(error=explain(error))
            is_news = not response.error and results.is_news(response)
            pace.responded(is_news, sum(map(len, response.batches)))
            if is_news:
                return response
            if response.error:
                status = (await self._details()).state
                if status.is_terminal:
                    return status

    def _savepoint(
        self,
        kind: SnapshotRequestKind,
        directory: str | os.PathLike[str] | None,
        format_type: SavepointFormatType,
        drain: bool = False,
    ) -> CompletableFuture[str]:
        target = absolute_location(os.fspath(directory)) if directory else ""
        request = SnapshotRequest(self._job_id, new_id(), kind, target, drain, SavepointFormatType(format_type))
        return CompletableFuture(self._loop.start(self._snapshot(request)))

    async def _snapshot(self, request: SnapshotRequest) -> str:
        """Its path. The request is repeated when the connection breaks; its trigger id makes it the same one."""
        deadline: float | None = None
        while True:
            try:
                result: SnapshotResult = await self._link.stub.trigger_snapshot(request)
            except grpc.RpcError as error:
                deadline = await self._wait_or_give_up(error, deadline)
                continue
            if result.error:
                raise SavepointError(result.error)
            return result.location

    def _interrupted(self) -> KeyboardInterrupt:
        """Cancels the job; what is to be raised then."""
        with cancelling(self._job_id):
            state = self._cancel_at_once()
            self.close()
        ended = "may still run" if state is None else "was cancelled" if state is JobStatus.CANCELED else f"is {state}"
        return KeyboardInterrupt(f"job {self._job_id} {ended}")

    def _cancel_at_once(self) -> JobStatus | None:
        """Its last state; None when that is not known."""
        if self._loop.was_left:
            return None
        try:
            self._loop.call(self._cancel())
            return self._loop.call(self._wait(), timeout=self._patience).state
        except (UnreachableError, JobExecutionError, TimeoutError) as error:
            print(f"cancelling the job: {str(error) or 'it has not ended in time'}", file=sys.stderr)
            return None

    async def _status(self) -> JobStatus:
        return (await self._details()).state

    async def _cancel(self) -> None:
        await self._call("cancel_job")

    async def _details(self) -> JobDetails:
        return await self._call("get_job")  # type: ignore[no-any-return]  # by the contract

    async def _call(self, method: str) -> Any:
        deadline: float | None = None
        while True:
            try:
                return await getattr(self._link.stub, method)(JobRequest(self._job_id))
            except grpc.RpcError as error:
                deadline = await self._wait_or_give_up(error, deadline)

    async def _wait(self) -> JobDetails:
        """Waits for the end of the job. Returns its details."""
        last: JobDetails | None = None
        deadline: float | None = None
        while True:
            try:
                async for last in self._link.stub.watch_job(JobRequest(self._job_id)):
                    deadline = None
                    self._print_progress(last)
                if last is not None and last.state.is_terminal:
                    return last
            except grpc.RpcError as error:
                deadline = await self._wait_or_give_up(error, deadline)

    def _print_progress(self, details: JobDetails) -> None:
        """Prints changes of the job's state, and the resources that it has been waiting for."""
        for line in self._story.news(details):
            _say(line)
        waiting = self._story.waiting(details)
        if waiting == self._waiting:
            return
        if self._lasting is not None:
            self._lasting.cancel()
        self._waiting = waiting
        if waiting:
            self._lasting = asyncio.get_running_loop().call_later(_WORTH_TELLING_AFTER, self._tell_waiting, waiting)

    def _tell_waiting(self, line: str) -> None:
        self._story.waited(line)
        self._waiting = ""
        _say(line)

    async def _wait_or_give_up(self, error: grpc.RpcError, deadline: float | None) -> float:
        """Waits before another try, and returns until when there is one: as long as no try succeeds, patience ends."""
        code = error.code() if isinstance(error, grpc.aio.AioRpcError) else None
        if code == grpc.StatusCode.NOT_FOUND:
            raise JobExecutionError(f"the dispatcher does not know job {self._job_id} any more") from error
        now = asyncio.get_running_loop().time()
        if deadline is not None and now > deadline:
            raise UnreachableError(f"the dispatcher is unreachable: {explain(error)}") from error
        await asyncio.sleep(_RETRY_AFTER)
        with contextlib.suppress(UnreachableError):  # there is no leader: the next request follows
            await self._link.connect()
        return now + self._patience if deadline is None else deadline


def _say(line: str) -> None:
    """On stderr, since stdout is the program's; one that is closed is no reason to fail."""
    with contextlib.suppress(OSError, ValueError):
        print(without_secrets(line), file=sys.stderr, flush=True)


def _merged(details: JobDetails) -> dict[str, Any]:
    merged: dict[str, Accumulator[Any]] = {}
    for accumulator in details.accumulators:
        value: Accumulator[Any] = pickle.loads(accumulator.value)
        if accumulator.name in merged:
            merged[accumulator.name].merge(value)
        else:
            merged[accumulator.name] = value
    results: dict[str, Any] = {name: a.get_local_value() for name, a in merged.items()}
    for vertex in details.vertices:
        for subtask in vertex.subtasks:
            for name, count in subtask.metrics.counters.items():
                results.setdefault(name, 0)
                if name not in merged:
                    results[name] += count
    return results
