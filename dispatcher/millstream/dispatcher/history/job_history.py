"""What the vertices and subtasks of one job did over the last hour, out of what its job manager reports. Pure.

Reports hold totals. A rate is the difference between the totals of a slot and those of three slots before: reports come
once a second, and not at the moment of a slot. While the job does not run, or nothing is reported, there is no value.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from millstream.core.jobs.details import JobDetails, SubtaskStatus, VertexStatus
from millstream.core.jobs.ids import VertexId
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.core.records.batches import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.dispatcher.history.rings import SLOT_S, Ring

VERTEX_FIGURES = ("records-in", "records-out", "busy", "backpressured", "watermark-lag")
"""Records a second, shares of time from 0 to 1, and milliseconds."""
SUBTASK_FIGURES = VERTEX_FIGURES[:4]
MOST_SUBTASKS = 256
"""Of a job with more of them, only the figures of its vertices are kept."""
_WINDOW = 3

Key = tuple[VertexId, int]
"""Of a vertex and a subtask; -1 stands for the whole vertex."""
WHOLE = -1
_Totals = tuple[int, int, int, int, int]


class JobHistory:
    """Of one job: `record` is called once in a slot."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.ended = 0
        """In which slot it was found to have ended; 0: it has not."""
        self._rings: dict[Key, tuple[Ring, ...]] = {}
        self._before: deque[tuple[int, JobDetails, dict[Key, _Totals]]] = deque(maxlen=_WINDOW)

    def record(self, slot: int, details: JobDetails, now_ms: int) -> None:
        """How the job is in this slot."""
        if details.state is not JobStatus.RUNNING:
            self._before.clear()
            return
        totals = _totals(details)
        since, earlier, before = self._before[0] if self._before else (slot, details, totals)
        self._before.append((slot, details, totals))
        for gone in self._rings.keys() - totals.keys():
            del self._rings[gone]
        if earlier is details:  # nothing was reported meanwhile
            return
        seconds = (slot - since) * SLOT_S
        marks = {vertex.id: _lag(vertex, now_ms) for vertex in details.vertices}
        for key, now in totals.items():
            figures = _rates(before.get(key), now, seconds)
            rings = self._rings.get(key)
            if rings is None:
                names = VERTEX_FIGURES if key[1] == WHOLE else SUBTASK_FIGURES
                rings = self._rings[key] = tuple(Ring() for _ in names)
            for ring, figure in zip(rings, (*figures, marks[key[0]]), strict=False):
                ring.put(slot, figure)

    def values(self, key: Key, figure: str, axis: Sequence[tuple[int, int]]) -> list[float | None]:
        """A figure of a vertex or subtask along an axis; no values where it is not recorded."""
        rings = self._rings.get(key)
        place = VERTEX_FIGURES.index(figure)
        return [None] * len(axis) if rings is None or place >= len(rings) else rings[place].at(axis)


def weight(details: JobDetails) -> int:
    """What the history of a job takes: its rings, and the subtasks that are added up."""
    subtasks = sum(len(vertex.subtasks) for vertex in details.vertices)
    each = len(SUBTASK_FIGURES) if subtasks <= MOST_SUBTASKS else 1
    return len(VERTEX_FIGURES) * len(details.vertices) + each * subtasks


def _totals(details: JobDetails) -> dict[Key, _Totals]:
    found: dict[Key, _Totals] = {}
    each = sum(len(vertex.subtasks) for vertex in details.vertices) <= MOST_SUBTASKS
    for vertex in details.vertices:
        of_subtasks = [_total(subtask) for subtask in vertex.subtasks]
        found[vertex.id, WHOLE] = _added(of_subtasks)
        if each:
            found.update({(vertex.id, s.index): t for s, t in zip(vertex.subtasks, of_subtasks, strict=True)})
    return found


def _total(subtask: SubtaskStatus) -> _Totals:
    metrics = subtask.metrics
    return metrics.records_in, metrics.records_out, metrics.busy_ms, metrics.backpressured_ms, metrics.idle_ms


def _added(totals: Sequence[_Totals]) -> _Totals:
    records_in, records_out, busy, backpressured, idle = (sum(part) for part in zip((0,) * 5, *totals, strict=True))
    return records_in, records_out, busy, backpressured, idle


def _rates(before: _Totals | None, now: _Totals, seconds: int) -> tuple[float | None, ...]:
    if before is None or not seconds or before == now:  # not even its idle time has advanced: it does not report
        return None, None, None, None
    records_in, records_out, busy, backpressured, idle = (
        max(0, b - a)
        for a, b in zip(before, now, strict=True)  # after a restart, totals begin at 0
    )
    time = busy + backpressured + idle
    shares = (busy / time, backpressured / time) if time else (None, None)
    return records_in / seconds, records_out / seconds, *shares


def _lag(vertex: VertexStatus, now_ms: int) -> float | None:
    """By how much the slowest running subtask's watermark is behind the clock."""
    marks = [
        subtask.metrics.output_watermark
        for subtask in vertex.subtasks
        if subtask.state is ExecutionState.RUNNING and subtask.metrics.output_watermark is not None
    ]
    lowest = min(marks, default=MIN_TIMESTAMP)
    return None if lowest in (MIN_TIMESTAMP, MAX_TIMESTAMP) else float(now_ms - lowest)
