"""The subtasks of a job and which of them exchange data, without keeping an entry for every channel.

An all-to-all edge between two vertices of a thousand subtasks has a million channels. Nothing here lists them: such an
edge is kept as an edge, and only pointwise edges are spelled out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from msgspec import Struct

from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import VertexId
from millstream.core.jobs.wiring import POINTWISE, consumers_of


class Subtask(Struct, frozen=True, order=True):
    """A place in the job, whichever attempt fills it."""

    vertex_id: VertexId
    index: int


class Edge(Struct, frozen=True):
    """Data from every subtask of one vertex to all, or to its own, subtasks of another."""

    source: VertexId
    target: VertexId
    strategy: str

    @property
    def pointwise(self) -> bool:
        """Whether a producer feeds only its own consumers."""
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
            {v.id: v.parallelism for v in graph.vertices}, [Edge(e.source, e.target, e.strategy) for e in graph.edges]
        )

    def subtasks(self) -> Iterator[Subtask]:
        """All places, producers first."""
        for vertex, parallelism in self.parallelism.items():
            for index in range(parallelism):
                yield Subtask(vertex, index)

    def pairs(self, edge: Edge) -> Iterator[tuple[Subtask, Subtask]]:
        """The channels of one edge, as producer and consumer."""
        producers, consumers = self.parallelism[edge.source], self.parallelism[edge.target]
        for producer in range(producers):
            for consumer in consumers_of(edge.strategy, producer, producers, consumers):
                yield Subtask(edge.source, producer), Subtask(edge.target, consumer)

    def upstream_within(self, subtask: Subtask, places: Mapping[VertexId, Collection[int]]) -> bool:
        """Whether every producer of the subtask is among the places, which are indexes by vertex; true for sources."""
        for edge in self._inputs[subtask.vertex_id]:
            among = places.get(edge.source, ())
            if edge.pointwise:
                if not all(index in among for index in self._producers.get((edge, subtask.index), ())):
                    return False
            elif len(among) < self.parallelism[edge.source]:
                return False
        return True
