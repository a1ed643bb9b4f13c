"""What the tasks of a job have done so far, added up by vertex, and what they did between two such readings. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from millstream.core.jobs.ids import AttemptId, VertexId
from millstream.jobmanager.job_master.execution_graph import Execution

BACKLOG = "pendingRecords"
"""The gauge, by Flink's name, in which a source says how many records wait for it outside."""


class Totals(Struct, frozen=True):
    """Of all subtasks of a vertex, since their attempts began; times in milliseconds."""

    records_in: int = 0
    records_out: int = 0
    busy_ms: int = 0
    backpressured_ms: int = 0
    other_ms: int = 0
    backlog: float = 0.0
    tasks: int = 0
    """That have not ended."""

    def since(self, earlier: Totals) -> Totals:
        """What was done in between, with the backlog and the tasks of now."""
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
        """The part of the time that was work."""
        return self._part(self.busy_ms)

    @property
    def backpressured(self) -> float:
        """The part of the time in which consumers had no room."""
        return self._part(self.backpressured_ms)

    def _part(self, ms: int) -> float:
        whole = self.busy_ms + self.backpressured_ms + self.other_ms
        return ms / whole if whole > 0 else 0.0


class Reading(Struct, frozen=True):
    """All vertices at one moment. Readings of other attempts cannot be compared with each other."""

    at_ms: float
    attempts: frozenset[AttemptId]
    vertices: Mapping[VertexId, Totals]

    @staticmethod
    def of(executions: Iterable[Execution], at_ms: float) -> Reading:
        """What the current attempts last reported."""
        totals: dict[VertexId, Totals] = {}
        attempts: set[AttemptId] = set()
        for execution in executions:
            attempts.add(execution.attempt_id)
            told, known = execution.metrics, totals.get(execution.vertex.id, Totals())
            totals[execution.vertex.id] = Totals(
                known.records_in + told.records_in,
                known.records_out + told.records_out,
                known.busy_ms + told.busy_ms,
                known.backpressured_ms + told.backpressured_ms,
                known.other_ms + told.idle_ms + told.paused_ms,
                known.backlog + sum(v for name, v in told.gauges.items() if name.endswith(BACKLOG) and v > 0),
                known.tasks + (not execution.state.is_terminal),
            )
        return Reading(at_ms, frozenset(attempts), totals)
