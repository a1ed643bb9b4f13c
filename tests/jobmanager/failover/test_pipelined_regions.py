from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from millstream.core.jobs.graph import JobEdge, JobGraph, JobVertex
from millstream.core.jobs.ids import JobId, VertexId
from millstream.jobmanager.failover.regions import PipelinedRegions
from millstream.jobmanager.failover.topology import Edge, JobTopology, Subtask

A, B, C = VertexId("a"), VertexId("b"), VertexId("c")


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

    graph = JobGraph(JobId("j"), "job", (vertex(A, 2), vertex(B, 2)), (JobEdge(A, B, 0, 0, "FORWARD", b""),))
    assert len(PipelinedRegions(JobTopology.of(graph)).regions) == 2


def test_upstream_of_sources_is_always_within() -> None:
    topology = JobTopology({A: 2, B: 2, C: 1}, [Edge(A, B, "FORWARD"), Edge(B, C, "HASH")])
    assert topology.upstream_within(Subtask(A, 0), {})
    assert topology.upstream_within(Subtask(B, 1), {A: {1}})
    assert not topology.upstream_within(Subtask(B, 0), {A: {1}})
    assert not topology.upstream_within(Subtask(C, 0), {B: {1}})
    assert topology.upstream_within(Subtask(C, 0), {B: {0, 1}})


@st.composite
def topologies(draw: st.DrawFn) -> JobTopology:
    vertices = [VertexId(f"v{i}") for i in range(draw(st.integers(1, 5)))]
    edges = [
        Edge(a, b, draw(st.sampled_from(["FORWARD", "RESCALE", "HASH", "BROADCAST"])))
        for i, a in enumerate(vertices)
        for b in vertices[i + 1 :]
        if draw(st.booleans())
    ]
    return JobTopology({v: draw(st.integers(1, 4)) for v in vertices}, edges)


@given(topology=topologies())
def test_regions_are_the_connected_components(topology: JobTopology) -> None:
    regions = PipelinedRegions(topology)
    subtasks = list(topology.subtasks())
    assert sorted(s for region in regions.regions for s in region) == sorted(subtasks)
    neighbours: dict[Subtask, set[Subtask]] = {s: {s} for s in subtasks}
    for edge in topology.edges:
        for producer, consumer in topology.pairs(edge):
            neighbours[producer].add(consumer)
            neighbours[consumer].add(producer)
    for subtask in subtasks:
        reached, frontier = {subtask}, [subtask]
        while frontier:
            new = neighbours[frontier.pop()] - reached
            reached |= new
            frontier += new
        assert regions.affected([subtask]) == reached
