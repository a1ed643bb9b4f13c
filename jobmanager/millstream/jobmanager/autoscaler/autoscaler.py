"""At which parallelism the vertices of a job would be as busy as they should be. Pure; time is handed in.

A window of measurements begins when the job has run undisturbed for the stabilisation interval, and is judged when it
is full; the next one begins after that. So there is at most one decision a window, and none about a job that was just
started or rescaled.

What is expected of a vertex is what it did in the window, times what its sources would have done more. A source that
was held back by its consumers would have emitted more in that time, and one with a backlog should work it off within
the catch-up time; nobody knows how much more there is, so it counts as at most twice as much, and the next window tells
more. The parts of the other vertices grow with what their producers emit. A vertex whose expected utilisation is
outside of its bounds gets the parallelism that brings it to the target. Vertices with a forward edge between them get
what the one needs that needs most. A job is scaled down only when it has run undisturbed for the scale-down interval.
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
_IDLE = 0.001  # busier than this, or nothing can be said about what the vertex can do


class Decision(Struct, frozen=True):
    """The parallelism that vertices should have, of those that should have another one, and why.

    Of none, when one is too busy whose parallelism is not the autoscaler's to choose.
    """

    parallelism: Mapping[VertexId, int]
    reason: str


class Autoscaler:
    """Of one job. `observe` is called again and again while all its tasks run, `disturbed` when they do not."""

    def __init__(self, settings: AutoscalerSettings) -> None:
        self.settings = settings
        self._quiet_since: float | None = None
        self._first: Reading | None = None

    def disturbed(self) -> None:
        """The job does not run, or is being rescaled: what was measured before says nothing about what follows."""
        self._quiet_since = self._first = None

    def observe(self, graph: JobGraph, reading: Reading) -> Decision | None:
        """What the tasks have done so far; answers a decision when a window is full and something should change."""
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
            f"'{v.name}' {current[v.id]} -> {changed[v.id]}: busy {done[v.id].busy:.0%}, "
            f"{expected[v.id]:.0%} with what is to come"
            for v in graph.vertices
            if v.id in changed
        ]
        return Decision(changed, f"{'; '.join(reasons)}; the target is {self.settings.target:.0%}")

    def _left(self, graph: JobGraph, expected: Mapping[VertexId, float]) -> Decision | None:
        """In the same words each time: whoever shows them need not do so twice."""
        names = [f"'{v.name}'" for v in graph.vertices if expected[v.id] > self.settings.highest and self._is_fixed(v)]
        if not names:
            return None
        left = "busier than it should be, and left as it is: its parallelism is set by the program, can only be 1, or"
        return Decision({}, f"{', '.join(names)}: {left} is excluded (job.autoscaler.vertex.exclude.ids)")

    def _growth(self, graph: JobGraph, done: Mapping[VertexId, Totals], window_ms: float) -> dict[VertexId, float]:
        """How many times as much as in the window is expected of each vertex."""
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
        """What brings its tasks to the target; those that have ended, as readers without splits do, are no help."""
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
