"""Reports the restarts of a job in the log and in its events, with cause and delay. Pure.

The log gets a line for each of the first restarts with the same cause, and fewer from then on; the job's events get one
entry for all of them, with their number.
"""

from __future__ import annotations

from msgspec import Struct

from millstream.core.clock import Instant
from millstream.core.jobs.failures import TaskFailure
from millstream.core.logs.failure_texts import has_traceback, restart_line
from millstream.core.logs.repeats import ALL_TOLD, Repeats


class RestartReport(Struct, frozen=True):
    """The texts that report a restart; empty texts are not reported."""

    line: str = ""
    """The log line, with the traceback when it is a new one."""
    event: str = ""
    is_again: bool = False
    """Whether the event replaces the previous one, because the error is the same."""


class RestartLog:
    """The restart log of one job."""

    def __init__(self) -> None:
        self._logged = 0
        self._restarts, self._others = Repeats(), Repeats()

    def report(self, cause: TaskFailure | None, reason: str, now: Instant) -> RestartReport:
        """`cause` is the job's last failure. If its restart was reported already, only the reason is logged."""
        seconds = now.steady_ms / 1000
        if cause is None or cause.restart == self._logged:
            return RestartReport(f"restart: {reason}") if self._others.is_told(reason, seconds) else RestartReport()
        self._logged = cause.restart
        is_logged = self._restarts.is_told(cause.signature or cause.exception, seconds)
        times = self._restarts.count
        event = restart_line(cause, times)
        return RestartReport(self._line(cause, event, times) if is_logged else "", event, times > 1)

    def _line(self, cause: TaskFailure, event: str, times: int) -> str:
        untold = self._restarts.take_untold()
        if times == ALL_TOLD:
            event += "; further restarts with this cause are counted, and logged less often"
        elif untold:
            event += f" ({untold} restarts before it were not logged)"
        is_new = max(times, cause.times) <= 1
        return f"{event}\n{cause.traceback.rstrip()}" if has_traceback(cause) and is_new else event
