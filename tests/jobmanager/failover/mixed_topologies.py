"""Random topologies with pipelined and blocking edges, and what follows from their channels one by one."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from millstream.core.jobs.graph import Exchange
from millstream.core.jobs.ids import VertexId
from millstream.jobmanager.failover.topology import Edge, JobTopology, Subtask


@st.composite
def mixed_topologies(draw: st.DrawFn, exchanges: Sequence[Exchange] = tuple(Exchange)) -> JobTopology:
    """Directed acyclic graphs of a few vertices; their regions may wait for each other."""
    vertices = [VertexId(f"v{i}") for i in range(draw(st.integers(1, 5)))]
    edges = [
        Edge(
            one,
            other,
            draw(st.sampled_from(["FORWARD", "RESCALE", "HASH", "BROADCAST"])),
            draw(st.sampled_from(exchanges)),
        )
        for i, one in enumerate(vertices)
        for other in vertices[i + 1 :]
        if draw(st.booleans())
    ]
    return JobTopology({v: draw(st.integers(1, 4)) for v in vertices}, edges)


def neighbours(topology: JobTopology, exchange: Exchange) -> dict[Subtask, set[Subtask]]:
    """The consumers of each subtask over edges of this kind."""
    found: dict[Subtask, set[Subtask]] = {subtask: set() for subtask in topology.subtasks()}
    for edge in topology.edges:
        if edge.exchange is exchange:
            for producer, consumer in topology.pairs(edge):
                found[producer].add(consumer)
    return found


def components(topology: JobTopology) -> dict[Subtask, frozenset[Subtask]]:
    """The connected component of each subtask over pipelined channels."""
    consumers = neighbours(topology, Exchange.PIPELINED)
    connected = {subtask: set(others) for subtask, others in consumers.items()}
    for producer, others in consumers.items():
        for consumer in others:
            connected[consumer].add(producer)
    found: dict[Subtask, frozenset[Subtask]] = {}
    for subtask in connected:
        reached, frontier = {subtask}, [subtask]
        while frontier:
            new = connected[frontier.pop()] - reached
            reached |= new
            frontier += new
        found[subtask] = frozenset(reached)
    return found
