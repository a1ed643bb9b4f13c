"""A job client that delegates to another one; subclasses override single methods."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from millstream.common.completable_future import CompletableFuture
from millstream.common.job_id import JobID
from millstream.core.jobs.states import JobStatus
from millstream.datastream.execution.executor import JobClient, JobExecutionResult, SavepointFormatType


class ForwardingJobClient:
    """Delegates all methods to another client."""

    def __init__(self, client: JobClient) -> None:
        self._client = client

    def get_job_id(self) -> JobID:
        """Returns the id of the job."""
        return self._client.get_job_id()

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Returns a future of the current status of the job."""
        return self._client.get_job_status()

    def cancel(self) -> CompletableFuture[None]:
        """Cancels the job."""
        return self._client.cancel()

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """Returns a future of the accumulators by name."""
        return self._client.get_accumulators()

    def trigger_savepoint(
        self,
        savepoint_directory: str | os.PathLike[str] | None = None,
        format_type: SavepointFormatType = SavepointFormatType.CANONICAL,
    ) -> CompletableFuture[str]:
        """Takes a savepoint."""
        return self._client.trigger_savepoint(savepoint_directory, format_type)

    def stop_with_savepoint(
        self,
        advance_to_end_of_event_time: bool,
        savepoint_directory: str | os.PathLike[str] | None = None,
        format_type: SavepointFormatType = SavepointFormatType.CANONICAL,
    ) -> CompletableFuture[str]:
        """Stops the job with a savepoint."""
        return self._client.stop_with_savepoint(advance_to_end_of_event_time, savepoint_directory, format_type)

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """Returns the future of the job's result."""
        return self._client.get_job_execution_result()

    def collect(self, operator_id: str) -> Iterator[Any]:
        """Returns an iterator over the results of a collect sink."""
        return self._client.collect(operator_id)

    def close(self) -> None:
        """Closes the client."""
        self._client.close()
