"""The commits of one task: which completed checkpoints its operators have not committed yet, and how often that failed.

An operator commits when it is notified, or on a thread of its own until `is_committed` returns True. A failure is
reported for the newest completed checkpoint, whose notification the coordinator repeats: it stands for all before it.
Owned by the worker's loop; what it decides goes to `TaskLife` and `report`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from millstream.taskmanager.worker.operators.base import Operator
from millstream.taskmanager.worker.tasks.task_life import TaskLife

COMMIT_ATTEMPTS = 5  # in a row; after that the task fails, and commits again when it is restored


class TaskCommits:
    """`report` is called with a checkpoint that could not be committed, and the error."""

    def __init__(self, life: TaskLife, report: Callable[[int, Exception], None]) -> None:
        self._life = life
        self._report = report
        self._pending: list[int] = []  # ascending

    def completed(self, checkpoint_id: int, operators: Sequence[Operator]) -> None:
        """A checkpoint is durable: notifies all operators, also if some raise."""
        if checkpoint_id not in self._pending:
            self._pending = sorted([*self._pending, checkpoint_id])
        failure: Exception | None = None
        for operator in operators:
            try:
                operator.notify_checkpoint_complete(checkpoint_id)
            except Exception as error:
                failure = failure or error
        if failure is None:
            self.look(operators)
        else:
            self._failed(failure)

    def look(self, operators: Sequence[Operator]) -> None:
        """Called after each mail: commits of an operator may have ended."""
        while self._pending:
            checkpoint_id = self._pending[0]
            try:
                committed = [operator.is_committed(checkpoint_id) for operator in operators]
            except Exception as error:
                self._failed(error)
                return
            if not all(committed):
                return
            del self._pending[0]
            self._life.committed(checkpoint_id)

    def _failed(self, failure: Exception) -> None:
        newest = self._pending[-1]
        self._pending.clear()
        if self._life.commit_failed(newest) >= COMMIT_ATTEMPTS:
            raise failure
        self._report(newest, failure)
