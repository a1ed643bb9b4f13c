"""The exception history of a job: its root causes, newest last, each with its concurrent failures.

A failure that arrives while an earlier one is still being handled is concurrent to it: it is recorded under that root
cause, not as one of its own. When the first failure turns out to be a consequence of another (a task that lost its
peer), the other becomes the root cause and the first becomes concurrent. The history is bounded; the oldest entries are
removed first, and `truncated` is true then, as in Flink's REST API.
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
    """A failure that made the job fail or restart, and the failures concurrent to it.

    `restart` is the number of the restart that it caused, from 1; 0 when it caused none.
    """

    failure: TaskFailure
    concurrent: tuple[TaskFailure, ...] = ()
    dropped: int = 0
    restart: int = 0
    restart_delay_ms: int = 0

    def as_failure(self) -> TaskFailure:
        """Returns the root cause with its concurrent failures, as it is reported to other services."""
        return replace(
            self.failure,
            concurrent=self.concurrent,
            restart=self.restart,
            restart_delay_ms=self.restart_delay_ms,
        )


def _in_short(failure: TaskFailure) -> TaskFailure:
    """Shortens a concurrent failure: one traceback in full is enough."""
    traceback, exception = shortened(failure.traceback, _CONCURRENT), shortened(failure.exception, _CONCURRENT)
    return replace(failure, traceback=traceback, exception=exception)


def _is_echo(failure: TaskFailure) -> bool:
    """Whether the failure is only a consequence of another one."""
    return failure.kind is FailureKind.PEER_LOST


class ExceptionHistory:
    """Append-only, and bounded in the entries and in the concurrent failures of each."""

    def __init__(self, max_entries: int = 16, max_concurrent: int = 128) -> None:
        self._entries: deque[RootCause] = deque(maxlen=max_entries)
        self._max_concurrent = max_concurrent
        self._handling = False
        self._truncated = False

    @property
    def entries(self) -> tuple[RootCause, ...]:
        """The recorded root causes, oldest first."""
        return tuple(self._entries)

    @property
    def truncated(self) -> bool:
        """Whether older entries were removed."""
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
        """Records the restart that the newest root cause leads to; concurrent failures may delay it."""
        if self._entries:
            self._entries[-1] = replace(self._entries[-1], restart=number, restart_delay_ms=delay_ms)

    def handled(self) -> None:
        """Closes the newest root cause when tasks run again or the job has ended; the next failure is a new one."""
        self._handling = False
