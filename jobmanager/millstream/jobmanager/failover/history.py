"""The exception history of a job: its root causes, newest last, each with the failures that came along with it.

A failure that arrives while the job is still dealing with an earlier one is concurrent to it: it is filed under that
root cause, not as one of its own. When the failure that came first turns out to be only an echo (a task that lost its
peer), the cause takes its place and the echo becomes concurrent. The history is bounded; the oldest entries go first
and `truncated` says so, as Flink's REST does.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct
from msgspec.structs import replace

from millstream.core.jobs.failure_kinds import FailureKind
from millstream.core.jobs.failures import TaskFailure
from millstream.core.logs.tracebacks import shortened

_CONCURRENT = 4 * 1024  # characters


class RootCause(Struct, frozen=True):
    """What made the job fail or restart, and what failed with it.

    `restart` is the number of the restart that it led to, from 1 on; 0 when it led to none.
    """

    failure: TaskFailure
    concurrent: tuple[TaskFailure, ...] = ()
    dropped: int = 0
    restart: int = 0
    restart_delay_ms: int = 0

    def as_failure(self) -> TaskFailure:
        """All of it in one, as others are told."""
        return replace(
            self.failure,
            concurrent=self.concurrent,
            restart=self.restart,
            restart_delay_ms=self.restart_delay_ms,
        )


def _in_short(failure: TaskFailure) -> TaskFailure:
    """One of many that failed together: of those that tell the same, one at length is enough."""
    traceback, exception = shortened(failure.traceback, _CONCURRENT), shortened(failure.exception, _CONCURRENT)
    return replace(failure, traceback=traceback, exception=exception)


def _is_echo(failure: TaskFailure) -> bool:
    """Whether it only tells of another failure."""
    return failure.kind is FailureKind.PEER_LOST


class ExceptionHistory:
    """Append only, and bounded in entries and in concurrent failures for each."""

    def __init__(self, max_entries: int = 16, max_concurrent: int = 128) -> None:
        self._entries: deque[RootCause] = deque(maxlen=max_entries)
        self._max_concurrent = max_concurrent
        self._handling = False
        self._truncated = False

    @property
    def entries(self) -> tuple[RootCause, ...]:
        """All that is remembered, oldest first."""
        return tuple(self._entries)

    @property
    def truncated(self) -> bool:
        """Whether older entries were forgotten."""
        return self._truncated

    @property
    def latest(self) -> RootCause | None:
        """The newest root cause."""
        return self._entries[-1] if self._entries else None

    def failed(self, failure: TaskFailure) -> None:
        """Records a failure: a new root cause, or a concurrent one while the last is still being handled."""
        if not self._handling or not self._entries:
            self._truncated = self._truncated or len(self._entries) == self._entries.maxlen
            self._entries.append(RootCause(failure))
            self._handling = True
            return
        entry = self._entries[-1]
        concurrent = (*entry.concurrent, _in_short(failure))
        if _is_echo(entry.failure) and not _is_echo(failure):
            concurrent, entry = (_in_short(entry.failure), *entry.concurrent), replace(entry, failure=failure)
        kept = concurrent[: self._max_concurrent]
        dropped = entry.dropped + len(concurrent) - len(kept)
        self._entries[-1] = replace(entry, concurrent=kept, dropped=dropped)

    def restarts(self, number: int, delay_ms: int) -> None:
        """The newest root cause leads to this restart; what joins it later puts it off."""
        if self._entries:
            self._entries[-1] = replace(self._entries[-1], restart=number, restart_delay_ms=delay_ms)

    def handled(self) -> None:
        """The affected tasks run again, or the job has ended: the next failure is a root cause of its own."""
        self._handling = False
