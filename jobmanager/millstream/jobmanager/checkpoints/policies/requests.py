"""Chooses which snapshot is triggered next: a pure policy over requests, the clock and pending checkpoints.

Savepoints are triggered at once, regardless of pending checkpoints. A user's checkpoints and the final one of a bounded
job wait only until fewer than `max-concurrent-checkpoints` are pending; a final one that failed is repeated a second
later. Periodic ones also wait for their time and for `min-pause` since the last snapshot completed or failed. A late
periodic checkpoint is taken once, not once for each interval that was missed.
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum

from msgspec import Struct

from millstream.jobmanager.checkpoints.model import SnapshotOptions, TriggerId
from millstream.jobmanager.checkpoints.settings import CheckpointSettings

MAX_QUEUED = 1000
FINAL_RETRY_MS = 1000


class Origin(StrEnum):
    """Why a snapshot is taken."""

    USER = "USER"
    FINAL = "FINAL"
    PERIODIC = "PERIODIC"


class Request(Struct, frozen=True):
    """A request for a snapshot."""

    origin: Origin
    options: SnapshotOptions
    trigger_id: TriggerId | None = None


class RequestQueue:
    """Owned by the coordinator. Times are readings of the steady clock."""

    def __init__(self, settings: CheckpointSettings, periodic: SnapshotOptions) -> None:
        self._settings = settings
        self._periodic = Request(Origin.PERIODIC, periodic)
        self._user: deque[Request] = deque()
        self._final: Request | None = None
        self._final_at = 0
        self._periodic_at: int | None = None
        self._last_end: int | None = None

    def add(self, request: Request) -> bool:
        """Queues a request; returns false when the queue is full."""
        if request.origin is Origin.FINAL:
            self._final = request
            return True
        if len(self._user) >= MAX_QUEUED:
            return False
        self._user.append(request)
        return True

    def holds(self, trigger_id: TriggerId) -> bool:
        """Whether the user's request is queued."""
        return any(request.trigger_id == trigger_id for request in self._user)

    def start_schedule(self, now_ms: int) -> None:
        """Starts the schedule when the job runs: the next periodic checkpoint is due an interval from now."""
        self._periodic_at = now_ms + self._settings.interval_ms if self._settings.enabled else None

    def stop_schedule(self) -> list[Request]:
        """Stops the schedule when the job does not run; removes and returns the users' requests."""
        self._periodic_at = self._final = None
        self._final_at = 0
        waiting = list(self._user)
        self._user.clear()
        return waiting

    def ended(self, request: Request, now_ms: int) -> None:
        """Records that a snapshot completed or failed, for `min-pause`."""
        self._last_end = now_ms
        if request.origin is Origin.FINAL:
            self._final_at = now_ms + FINAL_RETRY_MS

    @property
    def holds_final(self) -> bool:
        """Whether the final checkpoint is queued."""
        return self._final is not None

    def ready_at(self, pending: int) -> int | None:
        """The time at which a snapshot may start, or None when none waits for time alone."""
        if pending >= self._settings.max_concurrent:
            return None
        periodic_at = self._periodic_ready_at()
        if self._final is None:
            return periodic_at
        return self._final_at if periodic_at is None else min(self._final_at, periodic_at)

    def _periodic_ready_at(self) -> int | None:
        if self._periodic_at is None:
            return None
        if self._last_end is None:
            return self._periodic_at
        return max(self._periodic_at, self._last_end + self._settings.min_pause_ms)

    def choose(self, now_ms: int, pending: int) -> Request | None:
        """Removes and returns the request to start now, if there is one."""
        for request in self._user:
            if request.options.is_savepoint:
                self._user.remove(request)
                return request
        if pending >= self._settings.max_concurrent:
            return None
        if self._user:
            return self._user.popleft()
        if self._final is not None and now_ms >= self._final_at:
            final, self._final = self._final, None
            self.start_schedule(now_ms)
            return final
        ready_at = self._periodic_ready_at()
        if ready_at is None or now_ms < ready_at:
            return None
        self.start_schedule(now_ms)
        return self._periodic
