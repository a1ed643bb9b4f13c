"""How much a task takes in one step, and where its time is spent. Owned by the worker's loop.

The duration of a step is reported to the pace of the kind of batch that it took, to the outlet towards the task's
consumers, and to the gate that it came from, which limits what its senders have in flight: see `pacing` and
`debloating`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import assert_never

from millstream.core.records.batches import Batch
from millstream.taskmanager.worker.network.inputs import InputGate
from millstream.taskmanager.worker.network.outputs import ResultPartition
from millstream.taskmanager.worker.tasks.pacing import Outlet, Pace


class StepResult(Enum):
    """The result of a step."""

    WORKED = "worked"
    IDLE = "idle"  # no input
    BACKPRESSURED = "backpressured"  # no room for output
    PAUSED = "paused"  # a source that waits for others of its alignment group
    ENDED = "ended"


class TaskPacing:
    """The pacing of one task.

    The calls of a step are `waited_until`, `begin`, either `polled` or any number of `processing`, `worked_until`.
    """

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
        """Called before the first step, when the operators are known."""
        self._outlet = outlet
        if polls_columns:
            self._pace = Pace(self._max_column_rows, columns=True, batch=self._max_rows)

    def rows_to_poll(self) -> tuple[int, int]:
        """How many rows a source should return for its own sake, and how many for that of its consumers."""
        return self._pace.rows, self._outlet.rows

    def rows_at_once(self, batch: Batch) -> int:
        """The rows to process at once. Columns are cut only for their consumers: small batches make kernels slow."""
        return self._outlet.rows if batch.in_columns else min(self._pace.rows, self._outlet.rows)

    def rows_together(self, batch: Batch) -> int:
        """Up to how many rows other batches may be appended to this one; none to a large one."""
        if len(batch) >= self._max_rows:
            return 0
        pace = self._column_pace if batch.in_columns else self._pace
        return min(pace.rows, self._outlet.rows)

    @property
    def records_out(self) -> int:
        """The number of records that the task has emitted."""
        return sum(partition.records_out for partition in self._partitions)

    @property
    def held_up(self) -> float:
        """How long, in seconds, the task has been unable to emit: no consumer may treat it as idle for that time."""
        return self.backpressured + self.paused

    def begin(self) -> None:
        """Begins a step."""
        self._rows, self._step_pace, self._gate = 0, self._pace, None
        self._records_before = self.records_out

    def polled(self, batch: Batch) -> None:
        """The step processes a batch of the task's source."""
        self._rows = len(batch)

    def processing(self, batch: Batch, gate: InputGate) -> None:
        """The step also processes this batch of an input."""
        self._rows += len(batch)
        self._gate = gate
        if batch.in_columns:
            self._step_pace = self._column_pace

    @property
    def is_short(self) -> bool:
        """Whether the step processes less than half of the rows that it could, none of them in columns."""
        return self._step_pace is self._pace and 2 * self._rows < min(self._pace.rows, self._outlet.rows)

    def waited_until(self, now: float, last: StepResult) -> None:
        """Accounts for the time since the last step: waiting for input, for room, or for the thread."""
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
        """Accounts for the time of the step, and keeps the next one short: mails wait meanwhile."""
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
