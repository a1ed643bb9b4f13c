"""When a job that runs in the slots that there are starts, and when it is rescaled. Pure; time is handed in.

A job that waits continues at once with all slots that it can use. With fewer, but enough, it waits for more until the
stabilisation timeout is over; after the wait timeout it continues with what there is, or fails. A running job is left
alone for the cooldown after it was (re)started or rescaled. After it, a change that gives it all that it can use is
acted upon at once, any other when the job could have been rescaled for the stabilisation timeout without a break: so a
task manager that comes and goes does not rescale it every time.
"""

from __future__ import annotations

from enum import Enum, auto

from millstream.jobmanager.adaptive.settings import AdaptiveSettings


class Verdict(Enum):
    """What a job that waits for slots does."""

    WAIT = auto()
    GO = auto()
    FAIL = auto()


class AdaptiveScheduler:
    """Owned by the JobMaster, which tells it what there is whenever something may have changed."""

    def __init__(self, settings: AdaptiveSettings) -> None:
        self.settings = settings
        self._waiting_since: float | None = None
        self._enough_since: float | None = None
        self._quiet_until = 0.0
        self._better_since: float | None = None

    def wait(self, now_ms: float) -> None:
        """The job is not running, and waits for slots from now on."""
        self._waiting_since, self._enough_since, self._better_since = now_ms, None, None

    def verdict(self, enough: bool, all_there: bool, now_ms: float) -> Verdict:
        """Of a job that waits: whether there are enough slots to run, and all that it can use."""
        assert self._waiting_since is not None, "wait comes first"
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
        """The job runs, or runs at another parallelism: it is left alone for a while."""
        self._waiting_since, self._better_since = None, None
        self._quiet_until = now_ms + self.settings.cooldown_ms

    def rescales(self, differs: bool, all_there: bool, now_ms: float) -> bool:
        """Of a running job: whether it could run differently now, and whether with all slots that it can use."""
        if not differs or now_ms < self._quiet_until:
            self._better_since = None
            return False
        if self._better_since is None:
            self._better_since = now_ms
        return all_there or now_ms - self._better_since >= self.settings.executing_stabilization_ms
