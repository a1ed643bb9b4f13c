from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mixed_topologies import components, mixed_topologies, neighbours

from millstream.core.jobs.graph import Exchange, JobEdge, JobGraph, JobVertex
from millstream.core.jobs.ids import JobId, VertexId
from millstream.jobmanager.failover.regions import PipelinedRegions, RegionCycleError
from millstream.jobmanager.failover.topology import Edge, JobTopology, Subtask

A, B, C, D = VertexId("a"), VertexId("b"), VertexId("c"), VertexId("d")


def places(*pairs: tuple[VertexId, int]) -> frozenset[Subtask]:
    return frozenset(Subtask(vertex, index) for vertex, index in pairs)


def test_forward_edges_make_a_region_for_each_pipeline() -> None:
    regions = PipelinedRegions(JobTopology({A: 3, B: 3}, [Edge(A, B, "FORWARD")]))
    assert len(regions.regions) == 3
    assert regions.affected([Subtask(A, 1)]) == places((A, 1), (B, 1))
    assert regions.affected([Subtask(A, 1), Subtask(B, 0)]) == places((A, 0), (A, 1), (B, 0), (B, 1))
    assert regions.affected([]) == frozenset()


def test_a_hash_edge_joins_everything() -> None:
    regions = PipelinedRegions(JobTopology({A: 3, B: 2}, [Edge(A, B, "HASH")]))
    assert len(regions.regions) == 1
    assert len(regions.affected([Subtask(B, 0)])) == 5


def test_rescale_joins_by_share() -> None:
    regions = PipelinedRegions(JobTopology({A: 2, B: 4}, [Edge(A, B, "RESCALE")]))
    assert regions.region_of(Subtask(B, 3)) == places((A, 1), (B, 2), (B, 3))


def test_the_topology_of_a_job_graph() -> None:
    def vertex(name: VertexId, parallelism: int) -> JobVertex:
        return JobVertex(name, name, parallelism, 128, "default", (), b"")

    edges = (JobEdge(A, B, 0, 0, "FORWARD", b""), JobEdge(B, C, 0, 0, "HASH", b"", Exchange.BLOCKING))
    graph = JobGraph(JobId("j"), "job", (vertex(A, 2), vertex(B, 2), vertex(C, 1)), edges)
    assert len(PipelinedRegions(JobTopology.of(graph)).regions) == 3


def test_upstream_of_sources_is_always_within() -> None:
    topology = JobTopology({A: 2, B: 2, C: 1}, [Edge(A, B, "FORWARD"), Edge(B, C, "HASH")])
    assert topology.upstream_within(Subtask(A, 0), {})
    assert topology.upstream_within(Subtask(B, 1), {A: {1}})
    assert not topology.upstream_within(Subtask(B, 0), {A: {1}})
    assert not topology.upstream_within(Subtask(C, 0), {B: {1}})
    assert topology.upstream_within(Subtask(C, 0), {B: {0, 1}})


def test_a_blocking_edge_separates_regions_and_a_failure_restarts_what_consumes_the_result() -> None:
    edges = [Edge(A, B, "FORWARD", Exchange.BLOCKING), Edge(B, C, "HASH", Exchange.BLOCKING)]
    regions = PipelinedRegions(JobTopology({A: 2, B: 2, C: 1}, edges))
    assert [len(region) for region in regions.regions] == [1] * 5
    assert regions.affected([Subtask(A, 1)]) == places((A, 1), (B, 1), (C, 0))
    assert regions.affected([Subtask(C, 0)]) == places((C, 0))
    assert regions.affected([Subtask(C, 0)], lost={Subtask(B, 1)}) == places((B, 1), (C, 0))
    assert regions.affected([Subtask(C, 0)], lost={Subtask(B, 1), Subtask(A, 1)}) == places((A, 1), (B, 1), (C, 0))
    assert regions.affected([Subtask(C, 0)], lost={Subtask(A, 1)}) == places((C, 0)), "it is not read again"


def test_tasks_that_wait_for_each_other_are_refused() -> None:
    within = [Edge(A, B, "HASH"), Edge(A, C, "HASH", Exchange.BLOCKING), Edge(C, B, "HASH")]
    with pytest.raises(RegionCycleError, match="a -> c"):
        PipelinedRegions(JobTopology({A: 1, B: 1, C: 1}, within))
    blocking = Exchange.BLOCKING
    between = [Edge(A, D, "HASH"), Edge(B, C, "HASH"), Edge(A, B, "HASH", blocking), Edge(C, D, "HASH", blocking)]
    with pytest.raises(RegionCycleError, match="a -> b, c -> d"):
        PipelinedRegions(JobTopology({A: 1, B: 1, C: 1, D: 1}, between))


@given(topology=mixed_topologies())
def test_regions_are_the_connected_components_of_pipelined_edges(topology: JobTopology) -> None:
    subtasks, expected = list(topology.subtasks()), components(topology)
    try:
        regions = PipelinedRegions(topology)
    except RegionCycleError:
        assert has_cycle(topology)
        return
    assert not has_cycle(topology)
    assert sorted(s for region in regions.regions for s in region) == sorted(subtasks), "each is in exactly one"
    assert all(regions.region_of(subtask) == expected[subtask] for subtask in subtasks)


@given(topology=mixed_topologies(exchanges=[Exchange.PIPELINED]), data=st.data())
def test_without_blocking_edges_a_failure_affects_the_regions_of_the_failed(
    topology: JobTopology, data: st.DataObject
) -> None:
    regions, expected = PipelinedRegions(topology), components(topology)
    failed = data.draw(st.frozensets(st.sampled_from(sorted(topology.subtasks()))))
    assert regions.affected(failed, lost=frozenset(topology.subtasks())) == frozenset().union(
        *[expected[subtask] for subtask in failed]
    )


def has_cycle(topology: JobTopology) -> bool:
    """Whether a subtask waits for itself, directly or through others, by its blocking channels and its region."""
    region_of, consumers = components(topology), neighbours(topology, Exchange.BLOCKING)
    for start in set(region_of.values()):
        reached, frontier = set[frozenset[Subtask]](), [start]
        while frontier:
            following = {region_of[consumer] for member in frontier.pop() for consumer in consumers[member]}
            if start in following:
                return True
            frontier += following - reached
            reached |= following
    return False
