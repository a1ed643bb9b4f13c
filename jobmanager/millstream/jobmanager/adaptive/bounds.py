"""The bounds of the parallelism of each vertex of a job. Pure.

The bounds of a job are its resource requirements, as in Flink. A vertex that can only run as one subtask has the bounds
1 to 1. Vertices with a forward edge between them run at the same parallelism, so their bounds are the intersection of
theirs: records that stay in their subtask may already be partitioned by key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from millstream.core.errors import MillstreamError
from millstream.core.jobs.graph import JobGraph, JobVertex
from millstream.core.jobs.ids import VertexId
from millstream.core.messages.rescaling import VertexBounds

_FORWARD = "FORWARD"


class Bounds(Struct, frozen=True):
    """The minimum and maximum parallelism of a vertex."""

    lower: int
    upper: int


Requirements = Mapping[VertexId, Bounds]


class RequirementsError(MillstreamError):
    """The job cannot have the requested bounds; the message names bounds that are valid."""


def initial_requirements(graph: JobGraph, uses_all_slots: bool = False) -> dict[VertexId, Bounds]:
    """Returns the default bounds: from 1 up to the parallelism that the job was submitted with.

    A job that uses all slots may grow to its max parallelism, except for vertices whose parallelism the program sets.
    """

    def upper(vertex: JobVertex) -> int:
        free = uses_all_slots and not vertex.parallelism_fixed and not vertex.non_parallel
        return vertex.max_parallelism if free else vertex.parallelism

    return _together(graph, {vertex.id: Bounds(1, upper(vertex)) for vertex in graph.vertices})


def at_parallelism(graph: JobGraph, current: Requirements, parallelism: int) -> dict[VertexId, Bounds]:
    """Returns the bounds at this parallelism, for the vertices whose parallelism the program does not set."""
    if parallelism < 1:
        raise RequirementsError(f"parallelism {parallelism}: it has to be at least 1")
    following = [v for v in graph.vertices if not v.parallelism_fixed and not v.non_parallel]
    if not following:
        raise RequirementsError(
            "the program sets the parallelism of every vertex; name the vertices that are to be changed "
            "(PUT /jobs/:jobid/resource-requirements)"
        )
    changed = {v.id: Bounds(1, parallelism) for v in following}
    return _checked(graph, {**current, **changed})


def requested_requirements(graph: JobGraph, requested: Iterable[VertexBounds]) -> dict[VertexId, Bounds]:
    """Returns the requested bounds of every vertex. Raises RequirementsError if they are not valid."""
    bounds = {bound.vertex_id: Bounds(bound.lower, bound.upper) for bound in requested}
    known = {vertex.id: vertex.name for vertex in graph.vertices}
    if unknown := [vertex for vertex in bounds if vertex not in known]:
        raise RequirementsError(f"the job has no vertex {unknown[0]}; it has {', '.join(known)}")
    if missing := [vertex for vertex in known if vertex not in bounds]:
        raise RequirementsError(f"the bounds of vertex {missing[0]} ('{known[missing[0]]}') are missing")
    return _checked(graph, bounds)


def _checked(graph: JobGraph, bounds: Requirements) -> dict[VertexId, Bounds]:
    for vertex in graph.vertices:
        lower, upper = bounds[vertex.id].lower, bounds[vertex.id].upper
        if not 1 <= lower <= upper:
            raise RequirementsError(f"'{vertex.name}': bounds {lower} to {upper}: write 1 <= lowerBound <= upperBound")
        most = 1 if vertex.non_parallel else vertex.max_parallelism
        if upper > most:
            why = "it can only run as one subtask" if vertex.non_parallel else f"its max parallelism is {most}"
            raise RequirementsError(f"'{vertex.name}': parallelism {upper} is too high: {why}")
    together = _together(graph, bounds)
    for vertex in graph.vertices:
        if together[vertex.id].lower > together[vertex.id].upper:
            raise RequirementsError(
                f"'{vertex.name}' has forward edges, so it runs at the same parallelism as the vertices that they "
                "connect it with; their bounds do not overlap"
            )
    return together


def _together(graph: JobGraph, bounds: Requirements) -> dict[VertexId, Bounds]:
    result = dict(bounds)
    for group in forward_groups(graph):
        lower, upper = max(bounds[v].lower for v in group), min(bounds[v].upper for v in group)
        result |= dict.fromkeys(group, Bounds(lower, upper))
    return result


def forward_groups(graph: JobGraph) -> list[frozenset[VertexId]]:
    """Returns the sets of vertices that are connected by forward edges and run at the same parallelism."""
    group_of = {vertex.id: frozenset({vertex.id}) for vertex in graph.vertices}
    for edge in graph.edges:
        if edge.strategy == _FORWARD:
            joined = group_of[edge.source] | group_of[edge.target]
            group_of |= dict.fromkeys(joined, joined)
    return list(dict.fromkeys(group_of.values()))
