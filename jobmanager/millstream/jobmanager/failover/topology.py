"""The subtasks of a job and which of them exchange data, without keeping an entry for every channel.

An all-to-all edge between two vertices of a thousand subtasks has a million channels, which are never enumerated here;
only the channels of pointwise edges are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct

from millstream.core.jobs.graph import Exchange, JobGraph
from millstream.core.jobs.ids import VertexId
from millstream.core.jobs.wiring import POINTWISE, consumers_of


class Subtask(Struct, frozen=True, order=True):
    """One parallel instance of a vertex, independent of its current attempt."""

    vertex_id: VertexId
    index: int


class Edge(Struct, frozen=True):
    """An exchange between two vertices: from every subtask to all of the other's subtasks, or to its own ones."""

    source: VertexId
    target: VertexId
    strategy: str
    exchange: Exchange = Exchange.PIPELINED

    @property
    def pointwise(self) -> bool:
        """Whether each producer sends only to its own consumers."""
        return self.strategy in POINTWISE


class JobTopology:
    """Immutable. Vertices in topological order with their parallelism, and the edges between them."""

    def __init__(self, parallelism: Mapping[VertexId, int], edges: Collection[Edge]) -> None:
        self.parallelism = dict(parallelism)
        self.edges = tuple(dict.fromkeys(edges))
        self._inputs: dict[VertexId, list[Edge]] = {vertex: [] for vertex in self.parallelism}
        self._producers: dict[tuple[Edge, int], list[int]] = {}
        for edge in self.edges:
            self._inputs[edge.target].append(edge)
            if edge.pointwise:
                for producer, consumer in self.pairs(edge):
                    self._producers.setdefault((edge, consumer.index), []).append(producer.index)

    @staticmethod
    def of(graph: JobGraph) -> JobTopology:
        """The topology of a job graph."""
        return JobTopology(
            {v.id: v.parallelism for v in graph.vertices},
            [Edge(e.source, e.target, e.strategy, e.exchange) for e in graph.edges],
        )

    def subtasks(self) -> Iterator[Subtask]:
        """Iterates over all subtasks, producers first."""
        for vertex, parallelism in self.parallelism.items():
            for index in range(parallelism):
                yield Subtask(vertex, index)

    def pairs(self, edge: Edge) -> Iterator[tuple[Subtask, Subtask]]:
        """Iterates over the channels of a pointwise edge as pairs of producer and consumer."""
        producers, consumers = self.parallelism[edge.source], self.parallelism[edge.target]
        for producer in range(producers):
            for consumer in consumers_of(edge.strategy, producer, producers, consumers):
                yield Subtask(edge.source, producer), Subtask(edge.target, consumer)

    def producers_of(self, edge: Edge, consumer: int) -> list[Subtask]:
        """Returns the producers of one consumer of a pointwise edge."""
        return [Subtask(edge.source, index) for index in self._producers.get((edge, consumer), ())]

    def upstream_within(self, subtask: Subtask, places: Mapping[VertexId, Collection[int]]) -> bool:
        """Whether all producers of the subtask are among `places` (indexes by vertex); true for sources."""
        for edge in self._inputs[subtask.vertex_id]:
            among = places.get(edge.source, ())
            if edge.pointwise:
                if not all(index in among for index in self._producers.get((edge, subtask.index), ())):
                    return False
            elif len(among) < self.parallelism[edge.source]:
                return False
        return True
