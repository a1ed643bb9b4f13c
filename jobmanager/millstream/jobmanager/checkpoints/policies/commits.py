"""Repeats the notification of a completed checkpoint to tasks that did not receive it or could not commit it."""

from __future__ import annotations

from collections.abc import Callable, Collection

from millstream.core.jobs.ids import AttemptId
from millstream.jobmanager.checkpoints.events import NotifyComplete
from millstream.jobmanager.checkpoints.model import CheckpointId

RETRY_MS = 1000


class CommitRetries:
    """One entry a task at most. A newer completed checkpoint commits everything before it, so it replaces the entry.

    Times are readings of the steady clock.
    """

    def __init__(self) -> None:
        self._due: dict[AttemptId, tuple[CheckpointId, int]] = {}

    def failed(self, checkpoint_id: CheckpointId, attempt: AttemptId, now_ms: int) -> None:
        """Schedules another notification of the task."""
        self._due.setdefault(attempt, (checkpoint_id, now_ms + RETRY_MS))

    def forget(self, attempts: Collection[AttemptId]) -> None:
        """Drops the entries of tasks that are notified of a newer checkpoint or have finished."""
        for attempt in attempts:
            self._due.pop(attempt, None)

    def keep(self, is_active: Callable[[AttemptId], bool]) -> None:
        """Drops the entries of tasks that no longer run: they commit when they are restored."""
        self._due = {attempt: due for attempt, due in self._due.items() if is_active(attempt)}

    def times(self) -> list[int]:
        """The times at which notifications are due."""
        return [at for _, at in self._due.values()]

    def take_due(self, now_ms: int) -> list[NotifyComplete]:
        """Removes and returns the notifications that are due."""
        due = {attempt: checkpoint_id for attempt, (checkpoint_id, at) in self._due.items() if at <= now_ms}
        self.forget(due)
        return [NotifyComplete(checkpoint_id, (attempt,)) for attempt, checkpoint_id in due.items()]
