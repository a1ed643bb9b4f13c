"""Fakes that the tests of the API share: an executor that keeps what it is given, and its jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from millstream.common.completable_future import CompletableFuture
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.states import JobStatus
from millstream.core.settings.configuration import Configuration
from millstream.datastream.execution.executor import JobExecutionResult


def _done(result: Any) -> CompletableFuture[Any]:
    future: CompletableFuture[Any] = CompletableFuture()
    future.set_result(result)
    return future


class FakeJobClient:
    """A job that finishes, or fails, as soon as it is executed."""

    def __init__(self, graph: JobGraph, records: list[Any], failure: Exception | None) -> None:
        self.graph = graph
        self.records = records
        self.failure = failure
        self.status = JobStatus.RUNNING
        self.cancelled = 0
        self.closed = 0
        self.collected: list[str] = []

    def get_job_id(self) -> str:
        return self.graph.job_id

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        return _done(self.status)

    def cancel(self) -> CompletableFuture[None]:
        self.cancelled += 1
        self.status = JobStatus.CANCELLING
        return _done(None)

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        if self.failure is not None:
            self.status = JobStatus.FAILED
            failed: CompletableFuture[JobExecutionResult] = CompletableFuture()
            failed.set_exception(self.failure)
            return failed
        self.status = JobStatus.FINISHED
        return _done(JobExecutionResult(self.graph.job_id, 1, {"n": 1}))

    def collect(self, operator_id: str) -> Iterator[Any]:
        self.collected.append(operator_id)
        try:
            yield from self.records
        except GeneratorExit:
            self.cancel()
            raise
        self.get_job_execution_result().result()

    def close(self) -> None:
        self.closed += 1


class FakeExecutor:
    """Remembers what was submitted, and how."""

    def __init__(self) -> None:
        self.configurations: list[Configuration] = []
        self.clients: list[FakeJobClient] = []
        self.artifact_paths: list[dict[str, str] | None] = []
        self.records: list[Any] = []
        self.failure: Exception | None = None

    def make_executor(self, configuration: Configuration) -> FakeExecutor:
        self.configurations.append(configuration)
        return self

    def submit(self, graph: JobGraph, artifact_paths: dict[str, str] | None = None) -> FakeJobClient:
        client = FakeJobClient(graph, self.records, self.failure)
        self.clients.append(client)
        self.artifact_paths.append(artifact_paths)
        return client
