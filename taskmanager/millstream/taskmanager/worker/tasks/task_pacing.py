"""How much a task takes in one step, and where its time goes. Owned by the worker's loop.

What a step took is learned by the pace of the kind of batch that it took, by the outlet to the task's consumers, and by
the gate that it came from, which tells its senders how much to have on the way: see `pacing` and `debloating`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import assert_never

from millstream.core.records.batches import Batch, RowBatch
from millstream.taskmanager.worker.network.inputs import InputGate
from millstream.taskmanager.worker.network.outputs import ResultPartition
from millstream.taskmanager.worker.tasks.pacing import Outlet, Pace


class StepResult(Enum):
    """What came of a step."""

    WORKED = "worked"
    IDLE = "idle"  # no input
    BACKPRESSURED = "backpressured"  # no room for output
    PAUSED = "paused"  # a source that waits for others of its alignment group
    ENDED = "ended"


class TaskPacing:
    """Of one task. A step is `waited_until`, `begin`, either `polled` or any number of `processing`, `worked_until`."""

    __slots__ = (
        "_column_pace", "_gate", "_max_column_rows", "_max_rows", "_outlet", "_pace", "_partitions", "_records_before",
        "_rows", "_seen_at", "_stalled", "_step_pace", "backpressured", "busy", "idle", "paused",
    )  # fmt: skip

    def __init__(self, partitions: Sequence[ResultPartition], max_rows: int, max_column_rows: int) -> None:
        self._partitions = partitions
        self._max_rows = max_rows
        self._max_column_rows = max_column_rows
        self._pace = self._step_pace = Pace(max_rows)
        self._column_pace = Pace(max_column_rows, batch=max_rows)
        self._outlet = Outlet(max_column_rows, None)
        self._gate: InputGate | None = None
        self._rows = 0
        self._records_before = 0
        self._seen_at: float | None = None
        self._stalled = 0.0
        self.busy = self.idle = self.backpressured = self.paused = 0.0

    def attach(self, outlet: Outlet, polls_columns: bool) -> None:
        """Before the first step, when it is known what the operators do."""
        self._outlet = outlet
        if polls_columns:
            self._pace = Pace(self._max_column_rows, columns=True, batch=self._max_rows)

    def rows_to_poll(self) -> tuple[int, int]:
        """How many rows a source should answer for its own sake, and how many for that of its consumers."""
        return self._pace.rows, self._outlet.rows

    def rows_at_once(self, batch: Batch) -> int:
        """Columns are cut only for the sake of their consumers: small batches are what makes kernels slow."""
        return min(self._pace.rows, self._outlet.rows) if isinstance(batch, RowBatch) else self._outlet.rows

    def rows_together(self, batch: Batch) -> int:
        """Up to how many rows others like it may join a batch; none may join a large one."""
        if len(batch) >= self._max_rows:
            return 0
        pace = self._pace if isinstance(batch, RowBatch) else self._column_pace
        return min(pace.rows, self._outlet.rows)

    @property
    def records_out(self) -> int:
        """What the task has emitted so far."""
        return sum(partition.records_out for partition in self._partitions)

    @property
    def held_up(self) -> float:
        """For how long so far, in seconds, the task could not have emitted anything: nobody may call it idle then."""
        return self.backpressured + self.paused

    def begin(self) -> None:
        """A step begins."""
        self._rows, self._step_pace, self._gate = 0, self._pace, None
        self._records_before = self.records_out

    def polled(self, batch: Batch) -> None:
        """The step is about a batch of the task's source."""
        self._rows = len(batch)

    def processing(self, batch: Batch, gate: InputGate) -> None:
        """The step is also about this batch, of an input."""
        self._rows += len(batch)
        self._gate = gate
        if not isinstance(batch, RowBatch):
            self._step_pace = self._column_pace

    @property
    def is_short(self) -> bool:
        """Whether the step is about less than half of the rows that it could be about, none of them in columns."""
        return self._step_pace is self._pace and 2 * self._rows < min(self._pace.rows, self._outlet.rows)

    def waited_until(self, now: float, last: StepResult) -> None:
        """Counts the time since the last step: waiting for input, for room, or for the thread."""
        if self._seen_at is not None:
            gap = now - self._seen_at
            match last:
                case StepResult.IDLE:
                    self.idle += gap
                case StepResult.PAUSED:
                    self.paused += gap
                case StepResult.BACKPRESSURED:
                    self._stalled += gap
                    self.backpressured += gap
                case StepResult.WORKED | StepResult.ENDED:
                    self._stalled += gap
                    self.busy += gap
                case _:
                    assert_never(last)
        self._seen_at = now

    def worked_until(self, now: float) -> None:
        """Counts the time of the step, and keeps the next one short: mails wait meanwhile."""
        assert self._seen_at is not None, "a step begins with waited_until"
        took = now - self._seen_at
        self._seen_at = now
        self.busy += took
        rows = self._rows
        if not rows:
            return
        self._step_pace.stepped(rows, took, self.records_out - self._records_before)
        crowding = max([partition.take_crowding() for partition in self._partitions], default=0.0)
        self._outlet.stepped(rows, took, crowding)
        if self._gate is not None:
            self._gate.stepped(rows, self._stalled + took, self._step_pace.rows)
        self._stalled = 0.0
