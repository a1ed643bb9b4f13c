"""Pipelined regions: the smallest sets of subtasks that can be deployed and restarted without the rest of the job.

Two subtasks with a pipelined channel between them share a region: a producer that restarts sends records again, and a
consumer that restarts has lost what it received. Regions are therefore the connected components of the pipelined
channels. An all-to-all exchange joins everything on both sides; pointwise exchanges keep independent pipelines apart.

Regions are connected by blocking results: what the producers of a blocking edge have written when all of them have
finished. A region can run once the results that it consumes are available; so regions that consume results of each
other, or of themselves, never could, and are refused. When a region restarts, the regions that consume its results
restart as well, because it may produce other records; and if results that it consumes were lost, so do their producers.

A result is kept once for all of its consumers, so an all-to-all edge costs as much as it has subtasks, not channels.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec import Struct

from millstream.core.errors import MillstreamError
from millstream.core.jobs.graph import Exchange
from millstream.jobmanager.failover.topology import Edge, JobTopology, Subtask


class RegionCycleError(MillstreamError):
    """Regions wait for the blocking results of each other."""


class _Result(Struct, frozen=True):
    """What the producers of a blocking edge write for the same consumers; regions by their numbers."""

    edge: Edge
    producers: tuple[Subtask, ...]
    written_by: frozenset[int]
    read_by: frozenset[int]


class PipelinedRegions:
    """The regions of one job, and their order. Immutable. Raises RegionCycleError if there is no order."""

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
            if edge.exchange is Exchange.BLOCKING:
                continue
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
        self._numbers = {subtask: number for number, region in enumerate(self._regions) for subtask in region}
        self._results = self._blocking_results(topology)
        self._consumed: dict[int, list[int]] = {}
        self._produced: dict[int, list[int]] = {}
        for index, result in enumerate(self._results):
            for number in result.read_by:
                self._consumed.setdefault(number, []).append(index)
            for number in result.written_by:
                self._produced.setdefault(number, []).append(index)
        self._check_order()

    @property
    def regions(self) -> tuple[frozenset[Subtask], ...]:
        """All regions, in the order of their first subtasks."""
        return self._regions

    def region_of(self, subtask: Subtask) -> frozenset[Subtask]:
        """Returns the region that a subtask belongs to."""
        return self._regions[self._numbers[subtask]]

    def affected(self, failed: Iterable[Subtask], lost: Collection[Subtask] = ()) -> frozenset[Subtask]:
        """Returns all subtasks that must restart when these fail.

        `lost` are the subtasks whose blocking results are no longer available although they have finished.
        """
        affected = {self._numbers[subtask] for subtask in failed}
        pending = list(affected)
        produced, consumed = set[int](), set[int]()  # the results that were looked at, once each
        while pending:
            number = pending.pop()
            found = set[int]()
            for index in self._produced.get(number, ()):
                if index not in produced:
                    produced.add(index)
                    found |= self._results[index].read_by
            for index in self._consumed.get(number, ()) if lost else ():
                if index not in consumed:
                    consumed.add(index)
                    producers = self._results[index].producers
                    found.update(self._numbers[producer] for producer in producers if producer in lost)
            pending += found - affected
            affected |= found
        return self._subtasks(affected)

    def blocked(self, available: Collection[Subtask]) -> frozenset[Subtask]:
        """Returns the subtasks whose regions consume other blocking results than those of `available` subtasks."""
        blocked: set[int] = set()
        for result in self._results:
            if not all(producer in available for producer in result.producers):
                blocked |= result.read_by
        return self._subtasks(blocked)

    def _subtasks(self, numbers: Iterable[int]) -> frozenset[Subtask]:
        return frozenset().union(*[self._regions[number] for number in numbers])

    def _blocking_results(self, topology: JobTopology) -> list[_Result]:
        results: list[_Result] = []
        for edge in topology.edges:
            if edge.exchange is Exchange.PIPELINED:
                continue
            consumers = [Subtask(edge.target, index) for index in range(topology.parallelism[edge.target])]
            if edge.pointwise:
                ends = [(topology.producers_of(edge, consumer.index), [consumer]) for consumer in consumers]
            else:
                everyone = [Subtask(edge.source, index) for index in range(topology.parallelism[edge.source])]
                ends = [(everyone, consumers)]
            results += [
                _Result(edge, tuple(producers), self._numbers_of(producers), self._numbers_of(readers))
                for producers, readers in ends
            ]
        return results

    def _numbers_of(self, subtasks: Iterable[Subtask]) -> frozenset[int]:
        return frozenset([self._numbers[subtask] for subtask in subtasks])

    def _check_order(self) -> None:
        """Removes regions that wait for nothing, until none are left, or the rest wait for each other."""
        awaited = {number: len(results) for number, results in self._consumed.items()}
        unwritten = [len(result.written_by) for result in self._results]
        runnable = [number for number in range(len(self._regions)) if not awaited.get(number)]
        done = 0
        while runnable:
            done += 1
            for index in self._produced.get(runnable.pop(), ()):
                unwritten[index] -= 1
                if unwritten[index]:
                    continue
                for number in self._results[index].read_by:
                    awaited[number] -= 1
                    if not awaited[number]:
                        runnable.append(number)
        if done < len(self._regions):
            edges = [result.edge for result, left in zip(self._results, unwritten, strict=True) if left]
            named = ", ".join(dict.fromkeys(f"{edge.source} -> {edge.target}" for edge in edges))
            raise RegionCycleError(
                f"the job cannot be deployed: blocking edges ({named}) lead between tasks that wait for each other, "
                "because other edges connect them; make these edges pipelined, or the others blocking"
            )

