"""What happens to a job, printed line by line for the client that waits for it. Pure: details in, lines out.

Every line is printed once. A restart is printed with its number, its delay and its cause; a traceback is shown the
first time that its error comes, and later lines have a count. A job that restarts over and over for the same reason is
printed the 10th time, the 100th and so on (`millstream.core.logs.repeats`). In local mode only restarts are printed:
everything else would stand between the lines of the program.
"""

from __future__ import annotations

from datetime import timedelta

from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.states import JobStatus
from millstream.core.logs.failure_texts import has_traceback, location_lines, restart_line
from millstream.core.logs.printable import printable
from millstream.core.logs.repeats import is_told_at

_INSTALLING = "installing "


class JobStory:
    """Of one job. With `everything`, also its other states, what it waits for, and its end."""

    def __init__(self, everything: bool) -> None:
        self._everything = everything
        self._state = JobStatus.INITIALIZING
        self._waited = ""
        self._has_run = False
        self._told: set[tuple[int, str]] = set()
        self._tracebacks: set[tuple[str, ...]] = set()
        self._last: tuple[str, ...] = ()
        self._in_a_row = 0

    def news(self, details: JobDetails) -> list[str]:
        """What is new in the details."""
        lines = [line for failure in reversed(details.failures) for line in self._restart(details, failure)]
        if self._everything and details.state is not self._state:
            lines += self._changed(details)
        self._state = details.state
        return lines

    def waiting(self, details: JobDetails) -> str:
        """What the job waits for, to print if it lasts; empty when it waits for nothing, or that was printed last."""
        is_waiting = details.message and not details.state.is_terminal and details.state is not JobStatus.FAILING
        told_as_restart = details.message.startswith("restart ")
        if not self._everything or not is_waiting or told_as_restart:
            return ""
        message = details.message
        if message.startswith(_INSTALLING):  # and each line of pip
            message = message.partition(": ")[0]
        line = f"Job '{printable(details.name)}': {message}"
        return "" if line == self._waited else line

    def waited(self, line: str) -> None:
        """It lasted, and was printed."""
        self._waited = line

    def has_shown(self, failure: TaskFailure) -> bool:
        """Whether the traceback of this error was among the lines."""
        return _error(failure) in self._tracebacks

    def _restart(self, details: JobDetails, failure: TaskFailure) -> list[str]:
        key = (failure.restart, failure.exception)
        if not failure.restart or key in self._told:
            return []
        self._told.add(key)
        error = _error(failure)
        self._in_a_row = self._in_a_row + 1 if error == self._last else 1
        self._last = error
        if not is_told_at(self._in_a_row):
            return []
        lines = []
        if has_traceback(failure) and not self.has_shown(failure):
            self._tracebacks.add(_error(failure))
            lines += [failure.traceback.rstrip(), *location_lines(failure)]
        return [*lines, f"Job '{printable(details.name)}': {restart_line(failure, self._in_a_row)}"]

    def _changed(self, details: JobDetails) -> list[str]:
        if details.state is JobStatus.RUNNING:
            if not is_told_at(self._in_a_row):
                return []
            again, self._has_run = " again" if self._has_run else "", True
            return [f"Job '{printable(details.name)}' is running{again}"]
        if not details.state.is_terminal:
            return []
        took = _duration(details.end_time - details.start_time)
        restarts = f", {details.restarts} restart{'s' if details.restarts > 1 else ''}" if details.restarts else ""
        lines = [f"Job '{printable(details.name)}' ({details.job_id}) is {details.state} after {took}{restarts}"]
        if self._has_run:
            lines.append(
                f"What its tasks printed: millstream logs --out {details.job_id}; without --out what they logged. Both "
                "are in the files log/taskmanager-* in the cluster's folder"
            )
        return lines


def _error(failure: TaskFailure) -> tuple[str, ...]:
    return (failure.signature, failure.operator_name) if failure.signature else (failure.traceback,)


def _duration(milliseconds: int) -> str:
    seconds = max(milliseconds, 0) / 1000
    return f"{seconds:.1f} s" if seconds < 60 else str(timedelta(seconds=round(seconds)))
