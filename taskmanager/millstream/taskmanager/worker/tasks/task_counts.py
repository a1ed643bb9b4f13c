"""What a task counts: its records, and the metrics of its functions. Owned by the worker's loop.

A task that reads a source takes in what its source emits, and one with a sink also emits what its sink writes, so a job
of one task has both. Bytes are those of the exchange: gates and partitions count them, and the task's pacing counts
time; here they are combined for reports.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from millstream.core.jobs import details
from millstream.core.pickling import to_bytes
from millstream.datastream.functions import Accumulator, Counter
from millstream.taskmanager.worker.function_metrics import FunctionMetrics
from millstream.taskmanager.worker.network.inputs import InputGate
from millstream.taskmanager.worker.network.outputs import ResultPartition
from millstream.taskmanager.worker.operators.base import Operator
from millstream.taskmanager.worker.tasks.task_pacing import TaskPacing


class TaskCounts:
    """The counts of one task, created before its operators, since a task may fail before it has any."""

    __slots__ = (
        "_gates", "_now", "_pacing", "_partitions", "accumulators", "functions", "records_in", "records_polled",
        "sinks",
    )  # fmt: skip

    def __init__(
        self,
        gates: Sequence[InputGate],
        partitions: Sequence[ResultPartition],
        pacing: TaskPacing,
        now: Callable[[], float],
    ) -> None:
        """`now` reads the monotonic clock."""
        self._gates = gates
        self._partitions = partitions
        self._pacing = pacing
        self._now = now
        self.functions = FunctionMetrics()
        self.accumulators: dict[str, Accumulator[Any]] = {}
        self.records_in = 0
        self.records_polled = 0
        self.sinks: Sequence[Operator] = ()

    @property
    def counters(self) -> dict[str, Counter]:
        """The counters of its functions, by name."""
        return self.functions.counters

    @property
    def records_taken(self) -> int:
        """Records taken from the inputs or a source's reader, including those of the current batch."""
        return self.records_in + self.records_polled

    def metrics(self) -> details.TaskMetrics:
        """The task's counts so far."""
        pacing = self._pacing
        return details.TaskMetrics(
            records_in=self.records_taken,
            records_out=pacing.records_out + sum(sink.records_written for sink in self.sinks),
            bytes_in=sum(g.bytes_in for g in self._gates),
            bytes_out=sum(p.bytes_out for p in self._partitions),
            busy_ms=round(pacing.busy * 1000),
            idle_ms=round(pacing.idle * 1000),
            backpressured_ms=round(pacing.backpressured * 1000),
            counters=self.functions.counted(),
            gauges=self.functions.measured(self._now()),
            paused_ms=round(pacing.paused * 1000),
        )

    def accumulated(self) -> list[details.Accumulator]:
        """The accumulators, for the job's result."""
        return [details.Accumulator(name, type(a).__name__, to_bytes(a)) for name, a in self.accumulators.items()]
