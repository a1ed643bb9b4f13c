"""`JobClient`: a client of a submitted job, with PyFlink's name.

Each method starts its request at once and returns a future: `client.cancel()` cancels the job even if the program does
not wait for `.result()`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Protocol

from millstream.common.completable_future import CompletableFuture
from millstream.common.job_execution_result import JobExecutionResult
from millstream.common.job_id import JobID
from millstream.core.errors import MillstreamError
from millstream.core.jobs.states import JobStatus


class SavepointFormatType(StrEnum):
    """The format of a savepoint."""

    CANONICAL = "CANONICAL"  # documented files, the same for all state backends
    NATIVE = "NATIVE"  # the checkpoint format of the state backend


class SavepointError(MillstreamError):
    """A savepoint failed; the message is the reason."""


class JobClient(Protocol):
    """A client of a submitted job: returns its status and results, takes savepoints and cancels it."""

    def get_job_id(self) -> JobID:
        """Returns the id of the job."""

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Returns a future of the current status of the job."""

    def cancel(self) -> CompletableFuture[None]:
        """Cancels the job. The future completes when the request is accepted, not when the job has ended."""

    def trigger_savepoint(
        self,
        savepoint_directory: str | os.PathLike[str] | None = None,
        format_type: SavepointFormatType = SavepointFormatType.CANONICAL,
    ) -> CompletableFuture[str]:
        """Takes a savepoint of the running job; returns a future of its path.

        `savepoint_directory` is the folder or URI of the savepoint; without it, the configured one. `format_type` is a
        SavepointFormatType. `result()` raises `SavepointError` when the savepoint fails.
        """

    def stop_with_savepoint(
        self,
        advance_to_end_of_event_time: bool,
        savepoint_directory: str | os.PathLike[str] | None = None,
        format_type: SavepointFormatType = SavepointFormatType.CANONICAL,
    ) -> CompletableFuture[str]:
        """Stops the job with a savepoint; returns a future of its path.

        `advance_to_end_of_event_time` fires all event-time timers and windows first. `savepoint_directory` is the
        folder or URI of the savepoint; without it, the configured one. `format_type` is a SavepointFormatType.
        `result()` raises `SavepointError` when the savepoint fails; then the job continues.
        """

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """Returns a future of the accumulators by name, with the values of the tasks that have ended so far."""

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """Returns a future of the result of the job, which completes when the job has ended.

        `result()` raises `JobExecutionError` if the job failed or was cancelled. Ctrl-C while `result()` waits cancels
        the job.
        """

    def collect(self, operator_id: str) -> Iterator[Any]:
        """Returns an iterator over the results of the collect sink `operator_id`, as they arrive.

        It raises `JobExecutionError` when the job fails.
        """

    def close(self) -> None:
        """Closes the connection to the cluster; in local mode, stops the embedded cluster. Can be called repeatedly."""
