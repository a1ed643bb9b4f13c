"""Clients and results of detached jobs: with `run -d`, and in programs that are run over REST.

The program does not wait for the end of such a job, so it has no result: reading it raises, and the job continues. How
such a program ends is independent of its jobs, so the ids of the submitted jobs are recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from millstream.common.completable_future import CompletableFuture
from millstream.core.errors import InvalidProgramError
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.execution import EXECUTION_ATTACHED, EXECUTION_TARGET
from millstream.datastream.execution.executor import JobClient, JobExecutionResult
from millstream.datastream.execution.forwarding import ForwardingJobClient

_submitted: list[str] = []


class DetachedResultError(InvalidProgramError):
    """The program read the result of a job that it does not wait for."""

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"job {job_id} was submitted detached: its result is not waited for. The job continues; run the program "
            "attached, with `millstream run` without -d, to have its result"
        )


def is_detached(configuration: Configuration) -> bool:
    """Whether jobs are only submitted. A local cluster lives in the program, which therefore always waits."""
    return configuration.get(EXECUTION_TARGET) != "local" and not configuration.get(EXECUTION_ATTACHED)


def detached_submissions() -> tuple[str, ...]:
    """The ids of the jobs that this program has submitted and does not wait for."""
    return tuple(_submitted)


class DetachedJobExecutionResult(JobExecutionResult):
    """The result of a detached job: it has the job's id, and raises `DetachedResultError` for all else."""

    def __init__(self, job_id: str) -> None:
        super().__init__(job_id, 0, {})

    def _unknown(self) -> NoReturn:
        raise DetachedResultError(self.get_job_id())

    def get_net_runtime(self) -> int:
        """Raises `DetachedResultError`."""
        self._unknown()

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """Raises `DetachedResultError`."""
        self._unknown()

    def get_all_accumulator_results(self) -> dict[str, Any]:
        """Raises `DetachedResultError`."""
        self._unknown()

    def __repr__(self) -> str:
        return f"DetachedJobExecutionResult({self.get_job_id()})"


class DetachedJobClient(ForwardingJobClient):
    """A client of a job that the program does not wait for; all other methods work."""

    def __init__(self, client: JobClient) -> None:
        super().__init__(client)
        _submitted.append(client.get_job_id())

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """Raises `DetachedResultError`."""
        raise DetachedResultError(self.get_job_id())

    def collect(self, operator_id: str) -> Iterator[Any]:
        """Raises `DetachedResultError`."""
        raise DetachedResultError(self.get_job_id())
