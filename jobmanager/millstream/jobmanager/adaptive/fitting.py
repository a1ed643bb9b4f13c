"""At which parallelism a job runs in a number of slots, within its bounds. Pure.

Each slot sharing group gets the slots that it needs at least, and what is left is dealt out one by one, to the group
that has the smallest part of what it could use.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import VertexId
from millstream.jobmanager.adaptive.bounds import Requirements, forward_groups

Parallelism = Mapping[VertexId, int]


def most_slots(graph: JobGraph, bounds: Requirements) -> int:
    """How many slots the job can use."""
    return sum(_by_group(graph, uppers(bounds)).values())


def least_slots(graph: JobGraph, bounds: Requirements) -> int:
    """With fewer slots the job does not run."""
    return sum(_by_group(graph, {v: b.lower for v, b in bounds.items()}).values())


def fit(graph: JobGraph, bounds: Requirements, slots: int) -> Parallelism | None:
    """The parallelism of each vertex in so many slots; None when they are too few."""
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
    """The most that the bounds allow."""
    return {vertex: bound.upper for vertex, bound in bounds.items()}


def graph_at(graph: JobGraph, parallelism: Parallelism) -> JobGraph:
    """The same job at another parallelism; key groups stay as they are."""
    return replace(graph, vertices=tuple(replace(v, parallelism=parallelism[v.id]) for v in graph.vertices))


def parallelism_of(graph: JobGraph) -> dict[VertexId, int]:
    """At which parallelism the job runs."""
    return {vertex.id: vertex.parallelism for vertex in graph.vertices}


def in_words(graph: JobGraph, parallelism: Parallelism) -> str:
    """`2`, when all that change get the same, else `'map': 2, 'sink': 1`."""
    changed = {v.name: parallelism[v.id] for v in graph.vertices if parallelism[v.id] != v.parallelism}
    if len(set(changed.values())) == 1:
        return str(next(iter(changed.values())))
    return ", ".join(f"'{name}': {value}" for name, value in changed.items()) or str(
        max((v.parallelism for v in graph.vertices), default=1)
    )


def _by_group(graph: JobGraph, parallelism: Parallelism) -> dict[str, int]:
    return graph_at(graph, parallelism).slots_by_group()
