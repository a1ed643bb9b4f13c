"""Computes the parallelism at which a job runs in a number of slots, within its bounds. Pure.

Each slot sharing group gets the minimum of slots that it needs. The remaining slots are assigned one by one, each to
the group with the smallest fraction of the slots it could use.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import VertexId
from millstream.jobmanager.adaptive.bounds import Requirements, forward_groups

Parallelism = Mapping[VertexId, int]


def most_slots(graph: JobGraph, bounds: Requirements) -> int:
    """Returns the maximum number of slots that the job can use."""
    return sum(_by_group(graph, uppers(bounds)).values())


def least_slots(graph: JobGraph, bounds: Requirements) -> int:
    """Returns the minimum number of slots that the job needs to run."""
    return sum(_by_group(graph, {v: b.lower for v, b in bounds.items()}).values())


def fit(graph: JobGraph, bounds: Requirements, slots: int) -> Parallelism | None:
    """Returns the parallelism of each vertex in this number of slots; None when there are too few."""
    given = _by_group(graph, {v: b.lower for v, b in bounds.items()})
    usable = _by_group(graph, uppers(bounds))
    left = slots - sum(given.values())
    if left < 0:
        return None
    while left > 0 and (short := [group for group in given if given[group] < usable[group]]):
        neediest = min(short, key=lambda group: given[group] / usable[group])
        given[neediest] += 1
        left -= 1
    fitted = {v.id: min(bounds[v.id].upper, given[v.slot_sharing_group]) for v in graph.vertices}
    for together in forward_groups(graph):
        fitted |= dict.fromkeys(together, min(fitted[vertex] for vertex in together))
    return fitted


def uppers(bounds: Requirements) -> Parallelism:
    """Returns the maximum parallelism of each vertex."""
    return {vertex: bound.upper for vertex, bound in bounds.items()}


def graph_at(graph: JobGraph, parallelism: Parallelism) -> JobGraph:
    """Returns the same job at another parallelism; key groups are unchanged."""
    return replace(graph, vertices=tuple(replace(v, parallelism=parallelism[v.id]) for v in graph.vertices))


def parallelism_of(graph: JobGraph) -> dict[VertexId, int]:
    """Returns the parallelism of each vertex of the job."""
    return {vertex.id: vertex.parallelism for vertex in graph.vertices}


def in_words(graph: JobGraph, parallelism: Parallelism) -> str:
    """Formats the changes: `2` when all changed vertices get the same parallelism, else `'map': 2, 'sink': 1`."""
    changed = {v.name: parallelism[v.id] for v in graph.vertices if parallelism[v.id] != v.parallelism}
    if len(set(changed.values())) == 1:
        return str(next(iter(changed.values())))
    return ", ".join(f"'{name}': {value}" for name, value in changed.items()) or str(
        max((v.parallelism for v in graph.vertices), default=1)
    )


def _by_group(graph: JobGraph, parallelism: Parallelism) -> dict[str, int]:
    return graph_at(graph, parallelism).slots_by_group()
