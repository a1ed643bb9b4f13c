"""`JobListener`: notified in the program when its jobs are submitted and when they have ended."""

from __future__ import annotations

import logging
from collections.abc import Callable

from millstream.datastream.execution.executor import JobClient, JobExecutionResult

log = logging.getLogger(__name__)


class JobListener:
    """Registered with `StreamExecutionEnvironment.register_job_listener`. Exceptions that it raises are only logged."""

    def on_job_submitted(self, job_client: JobClient | None, throwable: BaseException | None, /) -> None:
        """Called when a job is submitted, with its `job_client`, or with the error `throwable` if it was refused."""

    def on_job_executed(
        self, job_execution_result: JobExecutionResult | None, throwable: BaseException | None, /
    ) -> None:
        """Called when a job that `execute()` waited for has ended, with its `job_execution_result`.

        When it failed or was not accepted, the result is None and `throwable` is the error.
        """


class JobListeners:
    """The job listeners of an environment."""

    def __init__(self) -> None:
        self.listeners: list[JobListener] = []

    def submitted(self, client: JobClient | None, error: BaseException | None) -> None:
        """Notifies all listeners that a job was submitted, or was not accepted."""
        self._notify(lambda listener: listener.on_job_submitted(client, error))

    def executed(self, result: JobExecutionResult | None, error: BaseException | None) -> None:
        """Notifies all listeners that a job has ended."""
        self._notify(lambda listener: listener.on_job_executed(result, error))

    def _notify(self, call: Callable[[JobListener], None]) -> None:
        for listener in self.listeners:
            try:
                call(listener)
            except Exception:
                log.exception("a listener of the program's jobs failed: %s", type(listener).__qualname__)
