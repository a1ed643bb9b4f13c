"""The measurements of a job's tasks, summed by vertex, and the differences between two readings. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from millstream.core.jobs.ids import AttemptId, VertexId
from millstream.jobmanager.job_master.execution_graph import Execution

BACKLOG = "pendingRecords"
"""The gauge, by Flink's name, in which a source reports how many records are waiting to be read."""


class Totals(Struct, frozen=True):
    """The totals of all subtasks of a vertex since their attempts began; times in milliseconds."""

    records_in: int = 0
    records_out: int = 0
    busy_ms: int = 0
    backpressured_ms: int = 0
    other_ms: int = 0
    backlog: float = 0.0
    tasks: int = 0
    """The number of subtasks that have not ended."""

    def since(self, earlier: Totals) -> Totals:
        """Returns the difference to an earlier reading, with the current backlog and number of tasks."""
        return Totals(
            self.records_in - earlier.records_in,
            self.records_out - earlier.records_out,
            self.busy_ms - earlier.busy_ms,
            self.backpressured_ms - earlier.backpressured_ms,
            self.other_ms - earlier.other_ms,
            self.backlog,
            self.tasks,
        )

    @property
    def busy(self) -> float:
        """The fraction of the time in which the tasks were busy."""
        return self._part(self.busy_ms)

    @property
    def backpressured(self) -> float:
        """The fraction of the time in which the tasks were backpressured."""
        return self._part(self.backpressured_ms)

    def _part(self, ms: int) -> float:
        whole = self.busy_ms + self.backpressured_ms + self.other_ms
        return ms / whole if whole > 0 else 0.0


class Reading(Struct, frozen=True):
    """The totals of all vertices at one time. Readings of different attempts cannot be compared."""

    at_ms: float
    attempts: frozenset[AttemptId]
    vertices: Mapping[VertexId, Totals]

    @staticmethod
    def of(executions: Iterable[Execution], at_ms: float) -> Reading:
        """Sums up the last reports of the current attempts."""
        totals: dict[VertexId, Totals] = {}
        attempts: set[AttemptId] = set()
        for execution in executions:
            attempts.add(execution.attempt_id)
            metrics, known = execution.metrics, totals.get(execution.vertex.id, Totals())
            totals[execution.vertex.id] = Totals(
                known.records_in + metrics.records_in,
                known.records_out + metrics.records_out,
                known.busy_ms + metrics.busy_ms,
                known.backpressured_ms + metrics.backpressured_ms,
                known.other_ms + metrics.idle_ms + metrics.paused_ms,
                known.backlog + sum(v for name, v in metrics.gauges.items() if name.endswith(BACKLOG) and v > 0),
                known.tasks + (not execution.state.is_terminal),
            )
        return Reading(at_ms, frozenset(attempts), totals)
