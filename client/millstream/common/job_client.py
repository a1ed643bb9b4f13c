"""`JobClient`: a submitted job, for the program that submitted it, with PyFlink's name.

What it is asked to do it begins at once, and answers a future: `client.cancel()` cancels the job whether or not anyone
waits for `.result()`.
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
    """How a savepoint is written."""

    CANONICAL = "CANONICAL"  # open files, the same for every state backend
    NATIVE = "NATIVE"  # as the state backend writes checkpoints


class SavepointError(MillstreamError):
    """A savepoint was not taken; the message is the reason."""


class JobClient(Protocol):
    """A submitted job, for its client."""

    def get_job_id(self) -> JobID:
        """The job's id."""

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """The state at this moment."""

    def cancel(self) -> CompletableFuture[None]:
        """Asks for the job to be cancelled; done once it is asked, not once the job has ended."""

    def trigger_savepoint(
        self,
        savepoint_directory: str | os.PathLike[str] | None = None,
        format_type: SavepointFormatType = SavepointFormatType.CANONICAL,
    ) -> CompletableFuture[str]:
        """Takes a savepoint of the running job; the result of the future is its path.

        `savepoint_directory` is the folder or URI of the savepoint; without it, the configured one. `format_type` is a
        SavepointFormatType. `result()` raises `SavepointError` when the savepoint fails.
        """

    def stop_with_savepoint(
        self,
        advance_to_end_of_event_time: bool,
        savepoint_directory: str | os.PathLike[str] | None = None,
        format_type: SavepointFormatType = SavepointFormatType.CANONICAL,
    ) -> CompletableFuture[str]:
        """Stops the job with a savepoint; the result of the future is its path.

        `advance_to_end_of_event_time` fires all event-time timers and windows first. `savepoint_directory` is the
        folder or URI of the savepoint; without it, the configured one. `format_type` is a SavepointFormatType.
        `result()` raises `SavepointError` when the savepoint fails; then the job continues.
        """

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """The accumulators by name, as far as they are known: those of tasks that have ended."""

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """What the job answers at its end.

        `result()` raises a JobExecutionError when the job failed or was cancelled. Ctrl-C while it waits cancels the
        job.
        """

    def collect(self, operator_id: str) -> Iterator[Any]:
        """Returns an iterator over the results of the collect sink `operator_id`, as they arrive.

        It raises `JobExecutionError` when the job fails.
        """

    def close(self) -> None:
        """Releases what the client holds; in local mode, the embedded cluster. May be called twice."""
