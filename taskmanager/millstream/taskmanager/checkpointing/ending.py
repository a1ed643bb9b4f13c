"""When a task may finish, as a pure machine: the end of its input, savepoints that stop the job, and owed commits.

A task whose input has ended stays, where checkpoints are taken, until one has completed whose snapshot it took after
its end: only then is everything committed that its last records caused. A savepoint that stops the job suspends its
sources from the barrier on; when it is complete the tasks end without finishing their operators, and when it is given
up they go on. However a task ends, it does not while it owes the commit of a completed checkpoint.
"""

from __future__ import annotations

from millstream.core.barriers import StopMode


class TaskEnd:
    """Of one task. Ids of the checkpoints that a task takes ascend."""

    def __init__(self, awaits_checkpoint: bool) -> None:
        self._awaits_checkpoint = awaits_checkpoint
        self._input_ended = False
        self._first_with_end: int | None = None
        self._stopping: int | None = None
        self._stopped = False
        self._owed: int | None = None
        self._failures = 0

    @property
    def is_suspended(self) -> bool:
        """Whether a savepoint that stops the job was taken: sources emit nothing behind it."""
        return self._stopping is not None

    @property
    def is_stopped(self) -> bool:
        """Whether that savepoint is complete and committed: the task ends as soon as its producers have."""
        return self._stopped

    @property
    def may_finish(self) -> bool:
        """Whether nothing has to be waited for any more, once the end has been sent on."""
        return self._owed is None and (self._stopped or not self._awaits_checkpoint)

    def input_ended(self) -> None:
        """All input was handled: snapshots from now on hold the end."""
        self._input_ended = True

    def captured(self, checkpoint_id: int, stop: StopMode) -> None:
        """The task has taken a snapshot."""
        if self._input_ended and self._first_with_end is None:
            self._first_with_end = checkpoint_id
        if stop is not StopMode.NONE:
            self._stopping = checkpoint_id

    def committed(self, checkpoint_id: int) -> None:
        """A checkpoint is complete, and all that it and those before it hold is committed."""
        self._failures = 0
        if self._owed is not None and self._owed <= checkpoint_id:
            self._owed = None
        if self._first_with_end is not None and self._first_with_end <= checkpoint_id:
            self._awaits_checkpoint = False
        if checkpoint_id == self._stopping:
            self._stopped = True

    def commit_failed(self, checkpoint_id: int) -> int:
        """A completed checkpoint could not be committed; answers how often in a row that was."""
        self._owed = checkpoint_id
        self._failures += 1
        return self._failures

    def aborted(self, checkpoint_id: int) -> None:
        """A checkpoint was given up: a task that it was to stop goes on."""
        if checkpoint_id == self._stopping:
            self._stopping = None
