"""How a program's graph gets executed: the interface between the API and what runs jobs.

The API must not import what lies above it, so the executor is looked up by name at run time, like Flink's pipeline
executors.
"""

from __future__ import annotations

import importlib
import signal
import sys
from types import TracebackType
from typing import Protocol, cast

from millstream.common.job_client import JobClient, SavepointError, SavepointFormatType
from millstream.common.job_execution_result import JobExecutionResult
from millstream.core.errors import JobExecutionError
from millstream.core.jobs.graph import JobGraph
from millstream.core.settings.configuration import Configuration

__all__ = ["Executor", "JobClient", "JobExecutionResult", "SavepointError", "SavepointFormatType", "load_executor"]


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
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # once more ends what is left to do, without a traceback
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
