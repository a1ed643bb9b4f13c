"""How a program's graph gets executed: the interface between the API and what runs jobs.

The API must not import what lies above it, so the executor is looked up by name at run time, like Flink's pipeline
executors.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from enum import StrEnum
from types import TracebackType
from typing import Any, Protocol, cast

from millstream.core.errors import JobExecutionError, MillstreamError
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.states import JobStatus
from millstream.core.settings.configuration import Configuration


class JobExecutionResult:
    """What a finished job answers."""

    def __init__(self, job_id: str, net_runtime_ms: int, accumulators: dict[str, Any]) -> None:
        self._job_id = job_id
        self._net_runtime_ms = net_runtime_ms
        self._accumulators = accumulators

    def get_job_id(self) -> str:
        """The job's id."""
        return self._job_id

    def get_net_runtime(self) -> int:
        """Milliseconds from the job's start to its end."""
        return self._net_runtime_ms

    def get_accumulator_result(self, name: str) -> Any:
        """The merged value of an accumulator; KeyError when the job had none of this name."""
        return self._accumulators[name]

    def get_all_accumulator_results(self) -> dict[str, Any]:
        """All accumulators by name."""
        return dict(self._accumulators)

    def __repr__(self) -> str:
        return f"JobExecutionResult({self._job_id}, {self._net_runtime_ms} ms)"


class SavepointFormatType(StrEnum):
    """How a savepoint is written."""

    CANONICAL = "CANONICAL"  # open files, the same for every state backend
    NATIVE = "NATIVE"  # as the state backend writes checkpoints


class SavepointError(MillstreamError):
    """A savepoint was not taken; the message is the reason."""


class JobClient(Protocol):
    """A submitted job, for its client."""

    def get_job_id(self) -> str:
        """The job's id."""

    def get_job_status(self) -> JobStatus:
        """The state at this moment."""

    def cancel(self) -> None:
        """Asks for the job to be cancelled; returns once it is asked, not once it is done."""

    def trigger_savepoint(
        self,
        savepoint_directory: str | os.PathLike[str] | None = None,
        format_type: SavepointFormatType = SavepointFormatType.CANONICAL,
    ) -> str:
        """Takes a savepoint, waits for it, and answers its path. Raises SavepointError when it fails."""

    def stop_with_savepoint(
        self,
        advance_to_end_of_event_time: bool,
        savepoint_directory: str | os.PathLike[str] | None = None,
        format_type: SavepointFormatType = SavepointFormatType.CANONICAL,
    ) -> str:
        """Stops the job with a savepoint, waits for that, and answers its path. Raises SavepointError when it fails."""

    def get_job_execution_result(self) -> JobExecutionResult:
        """Waits for the end. Raises JobExecutionError when the job failed or was cancelled. Ctrl-C cancels the job."""

    def collect(self, operator_id: str) -> Iterator[Any]:
        """The results of a collect sink as they come. Raises JobExecutionError when the job fails."""

    def close(self) -> None:
        """Releases what the client holds; in local mode, the embedded cluster. May be called twice."""


class Executor(Protocol):
    """Runs job graphs somewhere."""

    def submit(self, graph: JobGraph, artifact_paths: dict[str, str] | None = None) -> JobClient:
        """Submits the job and returns as soon as it is accepted. Raises MillstreamError when it is refused.

        `artifact_paths` holds, by sha256, the local files among the graph's artifacts that still have to be uploaded.
        Those of the kind DATA are the executor's from then on, to be removed when they are not needed any more.
        """


def _show_failed_jobs_plainly() -> None:
    """Has a program that ends with a job's failure or by Ctrl-C show just that, without our frames above it."""
    previous = sys.excepthook
    if getattr(previous, "shows_failed_jobs", False):
        return

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, JobExecutionError):
            print(error.shown, file=sys.stderr)
        elif isinstance(error, KeyboardInterrupt) and error.args:
            print(error, file=sys.stderr)
        else:
            previous(kind, error, trace)

    hook.shows_failed_jobs = True  # type: ignore[attr-defined]  # marks the hook, so that it is set once
    sys.excepthook = hook


def load_executor(configuration: Configuration) -> Executor:
    """The executor for `execution.target`: embedded in this process, or on a cluster."""
    _show_failed_jobs_plainly()
    module = importlib.import_module("millstream.client.executors")
    return cast(Executor, module.make_executor(configuration))
