"""Pipelined regions: the smallest sets of subtasks that can restart without affecting the rest of the job.

Every exchange of a streaming job is pipelined, so two subtasks with a channel between them share a region: a producer
that restarts sends records again, and a consumer that restarts has lost what it received. Regions are therefore the
connected components of the channels. An all-to-all exchange joins everything on both sides; pointwise exchanges keep
independent pipelines apart.
"""

from __future__ import annotations

from collections.abc import Iterable

from millstream.jobmanager.failover.topology import JobTopology, Subtask


class PipelinedRegions:
    """The regions of one job. Immutable."""

    def __init__(self, topology: JobTopology) -> None:
        parent: dict[Subtask, Subtask] = {subtask: subtask for subtask in topology.subtasks()}

        def root(subtask: Subtask) -> Subtask:
            while parent[subtask] != subtask:
                parent[subtask] = parent[parent[subtask]]
                subtask = parent[subtask]
            return subtask

        def join(one: Subtask, other: Subtask) -> None:
            parent[root(other)] = root(one)

        for edge in topology.edges:
            if edge.pointwise:
                for producer, consumer in topology.pairs(edge):
                    join(producer, consumer)
            else:
                first = Subtask(edge.source, 0)
                for vertex in (edge.source, edge.target):
                    for index in range(topology.parallelism[vertex]):
                        join(first, Subtask(vertex, index))
        members: dict[Subtask, list[Subtask]] = {}
        for subtask in parent:
            members.setdefault(root(subtask), []).append(subtask)
        self._regions = tuple(frozenset(region) for region in members.values())
        self._region_of = {subtask: region for region in self._regions for subtask in region}

    @property
    def regions(self) -> tuple[frozenset[Subtask], ...]:
        """All regions, in the order of their first subtasks."""
        return self._regions

    def region_of(self, subtask: Subtask) -> frozenset[Subtask]:
        """Returns the region that a subtask belongs to."""
        return self._region_of[subtask]

    def affected(self, failed: Iterable[Subtask]) -> frozenset[Subtask]:
        """Returns all subtasks that must restart when these fail."""
        affected: set[Subtask] = set()
        for subtask in failed:
            if subtask not in affected:
                affected |= self._region_of[subtask]
        return frozenset(affected)
