"""How the restarts of a job are told: with their cause and the delay, and a loop of them once. Pure.

The log gets a line for the first restarts of a kind and ever fewer from then on; the job's events get one for all of
them, which counts.
"""

from __future__ import annotations

from msgspec import Struct

from millstream.core.clock import Instant
from millstream.core.jobs.failures import TaskFailure
from millstream.core.logs.failure_texts import has_traceback, restart_line
from millstream.core.logs.repeats import ALL_TOLD, Repeats


class ToldRestart(Struct, frozen=True):
    """What is told of a restart; an empty text is not."""

    line: str = ""
    """For the log, with the traceback when it is a new one."""
    event: str = ""
    is_again: bool = False
    """The event takes the place of the one before: it is the same error."""


class RestartLog:
    """Of one job."""

    def __init__(self) -> None:
        self._logged = 0
        self._restarts, self._others = Repeats(), Repeats()

    def tell(self, cause: TaskFailure | None, reason: str, now: Instant) -> ToldRestart:
        """`cause` is the job's last failure. One that joins a restart which was told is only named, as the reason."""
        seconds = now.steady_ms / 1000
        if cause is None or cause.restart == self._logged:
            return ToldRestart(f"restart: {reason}") if self._others.is_told(reason, seconds) else ToldRestart()
        self._logged = cause.restart
        is_told = self._restarts.is_told(cause.signature or cause.exception, seconds)
        times = self._restarts.count
        event = restart_line(cause, times)
        return ToldRestart(self._line(cause, event, times) if is_told else "", event, times > 1)

    def _line(self, cause: TaskFailure, event: str, times: int) -> str:
        untold = self._restarts.take_untold()
        if times == ALL_TOLD:
            event += "; if it continues like this, restarts are only counted, and told less often"
        elif untold:
            event += f" ({untold} restarts before it were not told)"
        is_new = max(times, cause.times) <= 1
        return f"{event}\n{cause.traceback.rstrip()}" if has_traceback(cause) and is_new else event
