"""Measures how long a job has been in its states, in Flink's terms. Pure; the job manager reports the states."""

from __future__ import annotations

from millstream.core.jobs.states import JobStatus
from millstream.core.metrics.model import Number

_ACCUMULATED = {
    JobStatus.INITIALIZING: "initializing",
    JobStatus.CREATED: "created",
    JobStatus.RUNNING: "running",
    JobStatus.RESTARTING: "restarting",
    JobStatus.FAILING: "failing",
    JobStatus.CANCELLING: "cancelling",
}


class JobTimes:
    """The times of one job, in milliseconds of the monotonic clock."""

    def __init__(self, status: JobStatus, now_ms: int) -> None:
        self._status = status
        self._since = now_ms
        self._spent: dict[JobStatus, int] = {}
        self._down_since: int | None = None

    def observe(self, status: JobStatus, now_ms: int) -> None:
        """Records that the job is in this state now."""
        if status is self._status:
            return
        self._spent[self._status] = self._spent.get(self._status, 0) + now_ms - self._since
        if status is JobStatus.RUNNING or status.is_terminal:
            self._down_since = None
        elif self._status is JobStatus.RUNNING and self._down_since is None:
            self._down_since = now_ms
        self._status, self._since = status, now_ms

    def gauges(self, now_ms: int) -> dict[str, Number]:
        """Returns the gauges: `uptime` and `downtime` of the current state, and the totals of each state."""
        found: dict[str, Number] = {}
        for status, name in _ACCUMULATED.items():
            under_way = now_ms - self._since if status is self._status else 0
            found[f"{name}Time"] = under_way
            found[f"{name}TimeTotal"] = self._spent.get(status, 0) + under_way
        ended = self._status.is_terminal
        found["uptime"] = -1 if ended else found["runningTime"]
        found["downtime"] = 0 if self._down_since is None else now_ms - self._down_since
        return found
