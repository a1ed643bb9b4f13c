"""Decides when a job that adapts to the available slots starts and when it is rescaled. Pure; time is passed in.

A waiting job starts as soon as it has all slots that it can use. With fewer, but enough, it waits for more until the
stabilisation timeout has passed; after the wait timeout it starts with the available slots, or fails. A running job is
not rescaled during the cooldown after it was (re)started or rescaled. After that, it is rescaled at once when all slots
that it can use are available, otherwise when a rescale has been possible without interruption for the stabilisation
timeout, so that a task manager that repeatedly connects and disconnects does not rescale it every time.
"""

from __future__ import annotations

from enum import Enum, auto

from millstream.jobmanager.adaptive.settings import AdaptiveSettings


class Verdict(Enum):
    """The decision about a job that waits for slots."""

    WAIT = auto()
    GO = auto()
    FAIL = auto()


class AdaptiveScheduler:
    """Owned by the JobMaster, which calls it whenever the available slots may have changed."""

    def __init__(self, settings: AdaptiveSettings) -> None:
        self.settings = settings
        self._waiting_since: float | None = None
        self._enough_since: float | None = None
        self._quiet_until = 0.0
        self._better_since: float | None = None

    def wait(self, now_ms: float) -> None:
        """Records that the job is not running and waits for slots from now on."""
        self._waiting_since, self._enough_since, self._better_since = now_ms, None, None

    def verdict(self, enough: bool, all_there: bool, now_ms: float) -> Verdict:
        """Decides about a waiting job, given whether there are `enough` slots, or all that it can use."""
        assert self._waiting_since is not None, "wait is called first"
        if all_there:
            return Verdict.GO
        if not enough:
            self._enough_since = None
        elif self._enough_since is None:
            self._enough_since = now_ms
        limit = self.settings.wait_timeout_ms
        overdue = limit is not None and now_ms - self._waiting_since >= limit
        if self._enough_since is not None:
            stable = now_ms - self._enough_since >= self.settings.stabilization_ms
            return Verdict.GO if stable or overdue else Verdict.WAIT
        return Verdict.FAIL if overdue else Verdict.WAIT

    def started(self, now_ms: float) -> None:
        """Records that the job was started or rescaled; the cooldown begins."""
        self._waiting_since, self._better_since = None, None
        self._quiet_until = now_ms + self.settings.cooldown_ms

    def rescales(self, differs: bool, all_there: bool, now_ms: float) -> bool:
        """Returns whether a running job, whose possible parallelism `differs` from its current one, is rescaled."""
        if not differs or now_ms < self._quiet_until:
            self._better_since = None
            return False
        if self._better_since is None:
            self._better_since = now_ms
        return all_there or now_ms - self._better_since >= self.settings.executing_stabilization_ms
