"""Properties of every program: chaining loses no path, and nothing but the program decides the ids."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st
from program_graphs import Route, chain_of, same, spec_of
from thoroughness import cases

from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.plan.plan import ForwardPartitioner, SourceSpec
from millstream.datastream import DataStream, OutputTag, StreamExecutionEnvironment
from millstream.datastream.graph.stream_graph import StreamGraph

TAG = OutputTag("side")


@dataclass(frozen=True)
class Step:
    """One call of a random program: what to do, on which of the streams so far."""

    action: str
    first: int
    second: int
    parallelism: int | None
    chaining: str


ACTIONS = [
    "source", "map", "filter", "flat_map", "process", "side",
    "union", "rebalance", "broadcast", "key", "reduce", "sink",
]  # fmt: skip
steps = st.lists(
    st.builds(
        Step,
        st.sampled_from(ACTIONS),
        st.integers(0, 50),
        st.integers(0, 50),
        st.sampled_from([None, None, None, 1, 2]),
        st.sampled_from(["default", "default", "default", "new", "never", "group"]),
    ),
    max_size=25,
)


def build(program: list[Step], parallelism: int = 1, names: str = "") -> tuple[StreamGraph, JobGraph]:
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(parallelism)
    streams: list[DataStream] = [env.from_collection([1]).set_parallelism(parallelism)]
    for number, step in enumerate(program):
        made = _apply(env, step, streams)
        if made is None:
            continue
        if step.action in ("source", "map", "filter", "flat_map", "process", "reduce"):
            _set(made, step, f"{names}{number}" if names else "")
        streams.append(made)
    job = env.generate_job()
    return job.stream_graph, job.graph


def _apply(env: StreamExecutionEnvironment, step: Step, streams: list[DataStream]) -> DataStream | None:
    stream = streams[step.first % len(streams)]
    other = streams[step.second % len(streams)]
    match step.action:
        case "source":
            return env.from_sequence(1, 2)
        case "map":
            return stream.map(same)
        case "filter":
            return stream.filter(bool)
        case "flat_map":
            return stream.flat_map(lambda x: [x])
        case "process":
            return stream.process(Route())
        case "side":
            return stream.process(Route()).get_side_output(TAG)
        case "union":
            return stream.union(other)
        case "rebalance":
            return stream.union(other).rebalance()
        case "broadcast":
            return stream.union().broadcast()
        case "key":
            return stream.key_by(same).map(same)
        case "reduce":
            return stream.key_by(same).reduce(max)
        case _:
            stream.print()
            return None


def _set(stream: DataStream, step: Step, name: str) -> None:
    if step.parallelism is not None:
        stream.set_parallelism(step.parallelism)
    match step.chaining:
        case "new":
            stream.start_new_chain()
        case "never":
            stream.disable_chaining()
        case "group":
            stream.slot_sharing_group("other")
    if name:
        stream.name(name)


Edges = Counter[tuple[str, str, str | None]]


def stream_edges(graph: StreamGraph) -> Edges:
    return Counter((edge.source.id, edge.target.id, edge.tag) for node in graph.nodes for edge in node.outputs)


def job_edges(graph: JobGraph) -> Edges:
    """The edges between operators that the chains and job edges of a job graph amount to."""
    found: Edges = Counter()
    for vertex in graph.vertices:
        chain = chain_of(vertex)
        leaving = [edge for edge in graph.edges if edge.source == vertex.id]
        for operator in chain.operators:
            for output in operator.outputs:
                assert (output.operator is None) != (output.output is None)
                if output.operator is not None:
                    target = chain.operators[output.operator].operator_id
                else:
                    assert output.output is not None
                    target = leaving[output.output].target
                found[operator.operator_id, target, output.tag] += 1
    return found


@settings(max_examples=cases(150))
@given(steps, st.sampled_from([1, 2]))
def test_chaining_keeps_every_edge_and_every_operator(program: list[Step], parallelism: int) -> None:
    stream_graph, graph = build(program, parallelism)
    assert job_edges(graph) == stream_edges(stream_graph)
    operators = [operator.id for vertex in graph.vertices for operator in vertex.operators]
    assert sorted(operators) == sorted(node.id for node in stream_graph.nodes)
    assert len(set(operators)) == len(operators)


@settings(max_examples=cases(150))
@given(steps, st.sampled_from([1, 2]))
def test_vertices_and_chains_are_well_formed(program: list[Step], parallelism: int) -> None:
    stream_graph, graph = build(program, parallelism)
    nodes = {node.id: node for node in stream_graph.nodes}
    position = {vertex.id: index for index, vertex in enumerate(graph.vertices)}
    for index, edge in enumerate(graph.edges):
        assert position[edge.source] < position[edge.target]
        assert spec_of(graph, index).max_parallelism == graph.vertices[position[edge.target]].max_parallelism
    for vertex in graph.vertices:
        leaving = [edge.output for edge in graph.edges if edge.source == vertex.id]
        assert leaving == list(range(len(leaving)))
        chain = chain_of(vertex)
        inside = [output.operator for operator in chain.operators for output in operator.outputs]
        children = [index for index in inside if index is not None]
        assert sorted(children) == list(range(1, len(chain.operators)))
        for index, operator in enumerate(chain.operators):
            assert all(output.operator is None or output.operator > index for output in operator.outputs)
            node = nodes[operator.operator_id]
            assert (node.parallelism, node.slot_sharing_group) == (vertex.parallelism, vertex.slot_sharing_group)
            assert index == 0 or [type(e.partitioner) for e in node.inputs] == [ForwardPartitioner]
        assert bool(vertex.source) == isinstance(chain.operators[0].spec, SourceSpec)


@settings(max_examples=cases(100))
@given(steps)
def test_ids_are_those_of_the_program_alone(program: list[Step]) -> None:
    first, first_graph = build(program)
    again, again_graph = build(program)
    renamed, _ = build(program, parallelism=2, names="x")
    ids = [node.id for node in first.nodes]
    assert ids == [node.id for node in again.nodes] == [node.id for node in renamed.nodes]
    assert [vertex.id for vertex in first_graph.vertices] == [vertex.id for vertex in again_graph.vertices]
    assert first_graph.job_id != again_graph.job_id


@settings(max_examples=cases(100))
@given(steps, steps)
def test_what_is_appended_to_a_program_changes_no_earlier_id(program: list[Step], more: list[Step]) -> None:
    before, _ = build(program)
    after, _ = build(program + more)
    assert [node.id for node in before.nodes] == [node.id for node in after.nodes][: len(before.nodes)]
