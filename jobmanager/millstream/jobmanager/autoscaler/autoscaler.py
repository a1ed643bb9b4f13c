"""Computes the parallelism at which the vertices of a job reach their target utilisation. Pure; time is passed in.

A window of measurements begins when the job has run undisturbed for the stabilisation interval, and is evaluated when
it is full; then the next one begins. So there is at most one decision per window, and none about a job that was just
started or rescaled.

The expected load of a vertex is its measured load in the window, multiplied by the growth of its sources. A source that
was backpressured would have emitted more in that time, and one with a backlog should process it within the catch-up
time; how much more is unknown, so the growth is limited to a factor of two, and the next window corrects it. The loads
of the other vertices grow with the output of their producers. A vertex whose expected utilisation is out of its bounds
gets the parallelism that brings it to the target. Vertices with a forward edge between them get the highest parallelism
that any of them needs. A job is scaled down only when it has run undisturbed for the scale-down interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct

from millstream.core.jobs.graph import JobGraph, JobVertex
from millstream.core.jobs.ids import VertexId
from millstream.jobmanager.adaptive.bounds import forward_groups
from millstream.jobmanager.autoscaler.measured import Reading, Totals
from millstream.jobmanager.autoscaler.settings import AutoscalerSettings

_MOST_GROWTH = 2.0
_IDLE = 0.001  # below this, the capacity of a vertex cannot be estimated


class Decision(Struct, frozen=True):
    """The new parallelism of the vertices to be changed, and the reason.

    Contains no vertices when a vertex is too busy but the autoscaler may not change its parallelism.
    """

    parallelism: Mapping[VertexId, int]
    reason: str


class Autoscaler:
    """The autoscaler of one job. `observe` is called periodically while all its tasks run, `disturbed` otherwise."""

    def __init__(self, settings: AutoscalerSettings) -> None:
        self.settings = settings
        self._quiet_since: float | None = None
        self._first: Reading | None = None

    def disturbed(self) -> None:
        """Drops the measurements, because the job does not run or is being rescaled."""
        self._quiet_since = self._first = None

    def observe(self, graph: JobGraph, reading: Reading) -> Decision | None:
        """Adds a reading; returns a decision when a window is full and the parallelism should change."""
        if self._first is not None and self._first.attempts != reading.attempts:
            self.disturbed()
        if self._quiet_since is None:
            self._quiet_since = reading.at_ms
        if reading.at_ms - self._quiet_since < self.settings.stabilization_ms:
            return None
        if self._first is None:
            self._first = reading
            return None
        if reading.at_ms - self._first.at_ms < self.settings.window_ms:
            return None
        first, self._first = self._first, reading
        done = {
            vertex: totals.since(first.vertices.get(vertex, Totals())) for vertex, totals in reading.vertices.items()
        }
        return self._decide(graph, done, reading.at_ms - first.at_ms, reading.at_ms)

    def _decide(
        self, graph: JobGraph, done: Mapping[VertexId, Totals], window_ms: float, now_ms: float
    ) -> Decision | None:
        growth = self._growth(graph, done, window_ms)
        expected = {v.id: done[v.id].busy * growth[v.id] for v in graph.vertices}
        wanted = {v.id: self._wanted(v, expected[v.id], done[v.id].tasks) for v in graph.vertices}
        current = {v.id: v.parallelism for v in graph.vertices}
        fixed = {v.id for v in graph.vertices if self._is_fixed(v)}
        for group in forward_groups(graph):
            together = next((current[v] for v in group if v in fixed), max(wanted[v] for v in group))
            wanted |= dict.fromkeys(group, together)
        assert self._quiet_since is not None, "observe sets it"
        if now_ms - self._quiet_since < self.settings.scale_down_interval_ms:
            wanted = {vertex: max(parallelism, current[vertex]) for vertex, parallelism in wanted.items()}
        changed = {vertex: parallelism for vertex, parallelism in wanted.items() if parallelism != current[vertex]}
        if not changed:
            return self._left(graph, expected)
        reasons = [
            f"'{v.name}' {current[v.id]} -> {changed[v.id]}: busy {done[v.id].busy:.0%}, {expected[v.id]:.0%} expected"
            for v in graph.vertices
            if v.id in changed
        ]
        return Decision(changed, f"{'; '.join(reasons)}; the target is {self.settings.target:.0%}")

    def _left(self, graph: JobGraph, expected: Mapping[VertexId, float]) -> Decision | None:
        """Returns the same text each time, so that callers can recognise that it was already reported."""
        names = [f"'{v.name}'" for v in graph.vertices if expected[v.id] > self.settings.highest and self._is_fixed(v)]
        if not names:
            return None
        left = "busier than it should be, and left as it is: its parallelism is set by the program, can only be 1, or"
        return Decision({}, f"{', '.join(names)}: {left} is excluded (job.autoscaler.vertex.exclude.ids)")

    def _growth(self, graph: JobGraph, done: Mapping[VertexId, Totals], window_ms: float) -> dict[VertexId, float]:
        """Returns the factor by which the load of each vertex is expected to grow."""
        growth: dict[VertexId, float] = {}
        for vertex in graph.vertices:  # producers first
            producers = {edge.source for edge in graph.edges if edge.target == vertex.id}
            if not producers:
                growth[vertex.id] = self._source_growth(done[vertex.id], window_ms)
                continue
            emitted = sum(done[p].records_out for p in producers)
            parts = (
                (growth[p], done[p].records_out / emitted if emitted > 0 else 1 / len(producers)) for p in producers
            )
            growth[vertex.id] = sum(factor * part for factor, part in parts)
        return growth

    def _source_growth(self, did: Totals, window_ms: float) -> float:
        growth = 1.0
        if did.backpressured > 0:
            growth = (did.busy + did.backpressured) / max(did.busy, _IDLE)
        if did.backlog > 0 and did.records_in > 0 and self.settings.catch_up_ms > 0:
            in_time = did.backlog * window_ms / self.settings.catch_up_ms
            growth += in_time / did.records_in
        return min(growth, _MOST_GROWTH)

    def _wanted(self, vertex: JobVertex, utilisation: float, tasks: int) -> int:
        """Returns the parallelism that reaches the target; tasks that have ended, as without splits, do not count."""
        settings, now = self.settings, vertex.parallelism
        if self._is_fixed(vertex) or settings.lowest <= utilisation <= settings.highest:
            return now
        wanted = math.ceil(tasks * utilisation / settings.target)
        wanted = min(wanted, math.floor(now * (1 + settings.scale_up_factor)))
        wanted = max(wanted, math.ceil(now * (1 - settings.scale_down_factor)))
        wanted = max(wanted, now) if utilisation > settings.highest else wanted
        return max(1, min(max(wanted, settings.least), settings.most, vertex.max_parallelism))

    def _is_fixed(self, vertex: JobVertex) -> bool:
        return vertex.parallelism_fixed or vertex.non_parallel or vertex.id in self.settings.excluded
