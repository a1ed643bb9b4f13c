"""Stream graph and job graph of programs written down by hand: chaining, partitioning, names, ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cloudpickle
import pytest
from msgspec.structs import replace
from program_graphs import Route, chain_of, graph_of, names, same, spec_of

from millstream.common import InvalidProgramError, Types
from millstream.core.jobs.graph import Exchange
from millstream.core.jobs.ids import stable_id
from millstream.core.jobs.plan.plan import (
    ChainedOperator,
    ChainedOutput,
    CollectSpec,
    ForwardPartitioner,
    HashPartitioner,
    RebalancePartitioner,
    SourceSpec,
)
from millstream.core.jobs.plan_json import plan_json
from millstream.core.records.types import LONG, STRING
from millstream.core.wire.contracts import JOB_GRAPH
from millstream.datastream import DataStream, OutputTag, StreamExecutionEnvironment
from millstream.datastream.connectors.base import Source
from millstream.datastream.graph.transformations import PartitionTransformation


def ends_of(operator: ChainedOperator) -> list[ChainedOutput]:
    """Where its outputs lead to."""
    return [replace(output, edge="", timed=True) for output in operator.outputs]


def source(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection([1], Types.LONG()).name("s")


def test_a_straight_program_is_one_task(env: StreamExecutionEnvironment) -> None:
    source(env).map(same).filter(bool).print()
    graph = graph_of(env)
    [vertex] = graph.vertices
    assert vertex.name == "Source: s -> Map -> Filter -> Sink: Print to Std. Out"
    assert [operator.name for operator in vertex.operators] == ["Source: s", "Map", "Filter", "Sink: Print to Std. Out"]
    chain = chain_of(vertex)
    assert [ends_of(operator) for operator in chain.operators] == [
        [ChainedOutput(operator=1)], [ChainedOutput(operator=2)], [ChainedOutput(operator=3)], []
    ]  # fmt: skip
    assert [operator.operator_id for operator in chain.operators] == [operator.id for operator in vertex.operators]
    assert vertex.id == vertex.operators[0].id
    assert isinstance(chain.operators[0].spec, SourceSpec)
    assert isinstance(cloudpickle.loads(vertex.source), Source)
    assert graph.edges == ()


def test_a_chain_may_be_a_tree(env: StreamExecutionEnvironment) -> None:
    stream = source(env).map(same).name("m")
    stream.filter(bool).name("f").map(same).name("g")
    stream.rebalance().map(same).name("other")
    stream.map(same).name("h")
    graph = graph_of(env)
    assert names(graph) == ["Source: s -> m -> (f -> g, h)", "other"]
    head, other = graph.vertices
    chain = chain_of(head)
    assert [operator.name for operator in chain.operators] == ["Source: s", "m", "f", "g", "h"]
    assert ends_of(chain.operators[1]) == [
        ChainedOutput(operator=2), ChainedOutput(output=0), ChainedOutput(operator=4)
    ]  # fmt: skip
    [edge] = graph.edges
    assert (edge.source, edge.target, edge.output, edge.input, edge.strategy) == (head.id, other.id, 0, 0, "REBALANCE")


@pytest.mark.parametrize("exchange", Exchange)
def test_a_blocking_edge_is_not_chained_and_named_in_the_plan(
    env: StreamExecutionEnvironment, exchange: Exchange
) -> None:
    stream = source(env).map(same).name("m")
    partitioned = PartitionTransformation(stream.transformation, ForwardPartitioner(), exchange)
    DataStream(env, partitioned, LONG).map(same).name("n")
    graph = graph_of(env)
    if exchange is Exchange.PIPELINED:
        assert names(graph) == ["Source: s -> m -> n"]
        return
    assert names(graph) == ["Source: s -> m", "n"]
    assert [(edge.strategy, edge.exchange) for edge in graph.edges] == [("FORWARD", Exchange.BLOCKING)]
    assert JOB_GRAPH.from_bytes(JOB_GRAPH.to_bytes(graph)) == graph
    assert plan_json(graph)["nodes"][1]["inputs"][0]["exchange"] == "blocking"


def test_of_several_partitionings_the_last_one_holds_with_its_exchange(env: StreamExecutionEnvironment) -> None:
    blocking = PartitionTransformation(source(env).transformation, RebalancePartitioner(), Exchange.BLOCKING)
    DataStream(env, blocking, LONG).shuffle().map(same)
    assert [(edge.strategy, edge.exchange) for edge in graph_of(env).edges] == [("SHUFFLE", Exchange.PIPELINED)]


def test_a_key_starts_a_task(env: StreamExecutionEnvironment) -> None:
    source(env).key_by(same).reduce(lambda a, b: a).name("r").set_parallelism(2).set_max_parallelism(8).map(same)
    graph = graph_of(env)
    assert names(graph) == ["Source: s", "r", "Map"]
    assert [edge.strategy for edge in graph.edges] == ["HASH", "REBALANCE"]
    spec = spec_of(graph)
    assert isinstance(spec.partitioner, HashPartitioner)
    assert (spec.type, spec.max_parallelism) == (LONG, 8)
    assert (graph.vertices[1].parallelism, graph.vertices[1].max_parallelism) == (2, 8)
    assert spec_of(graph, 1).max_parallelism == 128
    assert [v.max_parallelism_derived for v in graph.vertices] == [True, False, True]
    assert JOB_GRAPH.from_bytes(JOB_GRAPH.to_bytes(graph)) == graph


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda stream: stream, ["Source: s -> a -> b"]),
        (lambda stream: stream.start_new_chain(), ["Source: s", "a -> b"]),
        (lambda stream: stream.disable_chaining(), ["Source: s", "a", "b"]),
        (lambda stream: stream.slot_sharing_group("other"), ["Source: s", "a -> b"]),
        (lambda stream: stream.set_parallelism(3), ["Source: s", "a", "b"]),
        (lambda stream: stream.set_max_parallelism(7), ["Source: s -> a -> b"]),
    ],
)
def test_what_breaks_a_chain(
    env: StreamExecutionEnvironment, change: Callable[[DataStream], DataStream], expected: list[str]
) -> None:
    change(source(env).map(same).name("a")).map(same).name("b")
    assert names(graph_of(env)) == expected


def test_chaining_can_be_disabled_altogether(env: StreamExecutionEnvironment) -> None:
    env.disable_operator_chaining()
    source(env).map(same).print()
    graph = graph_of(env)
    assert len(graph.vertices) == 3
    assert [edge.strategy for edge in graph.edges] == ["FORWARD", "FORWARD"]


def test_the_default_partitioning_follows_the_parallelism(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(4)
    source(env).map(same).name("a").set_parallelism(4).map(same).name("b").set_parallelism(2)
    graph = graph_of(env)
    assert names(graph) == ["Source: s", "a", "b"]
    assert [edge.strategy for edge in graph.edges] == ["REBALANCE", "REBALANCE"]
    assert [vertex.parallelism for vertex in graph.vertices] == [1, 4, 2]


def test_forward_needs_equal_parallelism(env: StreamExecutionEnvironment) -> None:
    source(env).forward().map(same).name("m").set_parallelism(2)
    with pytest.raises(InvalidProgramError, match=r"forward\(\) from 'Source: s' to 'm'.* 1 and 2"):
        graph_of(env)


def test_the_last_of_several_partitionings_holds(env: StreamExecutionEnvironment) -> None:
    source(env).rebalance().broadcast().map(same)
    assert graph_of(env).edges[0].strategy == "BROADCAST"


def test_a_partitioning_around_a_union_holds_for_all_of_it(env: StreamExecutionEnvironment) -> None:
    first, second = source(env), source(env)
    first.shuffle().union(second).map(same).name("a")
    first.union(second).global_().map(same).name("b")
    strategies = {(edge.target, edge.strategy) for edge in graph_of(env).edges}
    ids = {vertex.name: vertex.id for vertex in graph_of(env).vertices}
    assert strategies == {(ids["a"], "SHUFFLE"), (ids["a"], "FORWARD"), (ids["b"], "GLOBAL")}


def test_a_union_breaks_the_chain_into_its_consumer(env: StreamExecutionEnvironment) -> None:
    first = source(env).map(same).name("a")
    second = source(env).map(str).name("b")
    first.union(second, first).map(same).name("u").print()
    graph = graph_of(env)
    assert names(graph) == ["Source: s -> a", "Source: s -> b", "u -> Sink: Print to Std. Out"]
    assert [(edge.output, edge.input) for edge in graph.edges] == [(0, 0), (1, 0), (0, 0)]
    assert ends_of(chain_of(graph.vertices[0]).operators[1]) == [ChainedOutput(output=0), ChainedOutput(output=1)]


def test_united_streams_without_a_type_are_pickled(env: StreamExecutionEnvironment) -> None:
    numbers = source(env)
    numbers.union(numbers.map(lambda x: x)).map(same).name("mixed")
    numbers.union(numbers.filter(bool)).map(same).name("alike")
    graph = graph_of(env)
    types = {vertex.name: set[Any]() for vertex in graph.vertices}
    by_id = {vertex.id: vertex.name for vertex in graph.vertices}
    for index, edge in enumerate(graph.edges):
        types[by_id[edge.target]].add(spec_of(graph, index).type)
    assert types["mixed"] == {Types.PICKLED_BYTE_ARRAY()}
    assert types["alike"] == {LONG}


def test_a_union_of_one_stream_chains(env: StreamExecutionEnvironment) -> None:
    source(env).union().map(same)
    assert names(graph_of(env)) == ["Source: s -> Map"]


def test_side_outputs_are_outputs_with_a_tag(env: StreamExecutionEnvironment) -> None:
    tag = OutputTag("late", str)
    processed = source(env).process(Route()).name("p")
    processed.map(same).name("main")
    processed.get_side_output(tag).map(same).name("chained side")
    processed.get_side_output(tag).rebalance().map(same).name("side")
    graph = graph_of(env)
    assert names(graph) == ["Source: s -> p -> (main, chained side)", "side"]
    assert ends_of(chain_of(graph.vertices[0]).operators[1]) == [
        ChainedOutput(operator=2), ChainedOutput(operator=3, tag="late", tag_type=STRING),
        ChainedOutput(output=0, tag="late", tag_type=STRING),
    ]  # fmt: skip
    assert spec_of(graph).type == STRING


@pytest.mark.parametrize("uids", [True, False])
def test_an_edge_keeps_its_name_and_its_operator_when_operators_are_chained_otherwise(uids: bool) -> None:
    def edges(parallelism: int) -> tuple[dict[str, tuple[str, str]], dict[str, tuple[str, str]]]:
        """Source and target by the edges' names: those between tasks, and those inside of them."""
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(parallelism)
        numbers = env.from_sequence(1, 9).name("numbers")
        two = numbers.map(same, Types.LONG()).set_parallelism(2).name("two")
        both = two.key_by(lambda n: n).reduce(max).name("both")
        other = numbers.key_by(lambda n: n).reduce(max).name("other")
        twice = other.union(other).key_by(lambda n: n).reduce(max).name("twice")
        if uids:
            for stream in (numbers, two, both, other, twice):
                stream.uid(stream.get_name())
        graph = graph_of(env)
        operators = {o.id: o.name.removeprefix("Source: ") for vertex in graph.vertices for o in vertex.operators}
        heads = {vertex.id: operators[vertex.id] for vertex in graph.vertices}
        specs = [(edge, spec_of(graph, index)) for index, edge in enumerate(graph.edges)]
        inner = {
            output.edge: (operators[operator.operator_id], operators[chain.operators[output.operator].operator_id])
            for chain in map(chain_of, graph.vertices)
            for operator in chain.operators
            for output in operator.outputs
            if output.operator is not None
        }
        return {spec.name: (operators[spec.source], heads[edge.target]) for edge, spec in specs}, inner

    (chained, chained_inner), (apart, apart_inner) = edges(2), edges(3)
    assert sorted(chained_inner.values()) == [("numbers", "two")]
    assert apart_inner == {}
    assert {**chained, **chained_inner} == apart
    assert sorted(chained.values()) == [("numbers", "other"), ("other", "twice"), ("other", "twice"), ("two", "both")]


def test_slot_sharing_groups_are_inherited_unless_inputs_differ(env: StreamExecutionEnvironment) -> None:
    first = source(env).slot_sharing_group("one").map(same).name("a")
    second = source(env).slot_sharing_group("two")
    first.union(second).map(same).name("u")
    groups = {vertex.name: vertex.slot_sharing_group for vertex in graph_of(env).vertices}
    assert groups == {"Source: s -> a": "one", "Source: s": "two", "u": "default"}


def test_buffer_timeouts_belong_to_the_producer(env: StreamExecutionEnvironment) -> None:
    env.set_buffer_timeout(20)
    stream = source(env).rebalance().map(same).set_buffer_timeout(-1)
    stream.rebalance().map(same)
    graph = graph_of(env)
    assert [spec_of(graph, index).buffer_timeout for index in (0, 1)] == [0.02, -1.0]


def test_max_parallelism_bounds_parallelism(env: StreamExecutionEnvironment) -> None:
    env.set_max_parallelism(4)
    source(env).map(same).name("wide").set_parallelism(5)
    with pytest.raises(InvalidProgramError, match="'wide': its parallelism 5 is more than its max parallelism, 4"):
        graph_of(env)


def test_max_parallelism_follows_the_operator_then_the_environment_then_flinks_rule(
    env: StreamExecutionEnvironment,
) -> None:
    source(env).rebalance().map(same).set_parallelism(200).rebalance().map(same).set_max_parallelism(77)
    assert [vertex.max_parallelism for vertex in graph_of(env).vertices] == [128, 512, 77]
    env.set_max_parallelism(300)
    assert [vertex.max_parallelism for vertex in graph_of(env).vertices] == [300, 300, 77]


def test_uids_give_ids_and_must_differ(env: StreamExecutionEnvironment) -> None:
    source(env).uid("in").map(same).uid("m").print()
    [vertex] = graph_of(env).vertices
    assert [operator.id for operator in vertex.operators[:2]] == [stable_id("uid", "in"), stable_id("uid", "m")]
    assert [operator.uid for operator in vertex.operators] == ["in", "m", ""]
    source(env).uid("m").name("late")
    with pytest.raises(InvalidProgramError, match="uid 'm' is used twice, by 'Map' and 'Source: late'"):
        graph_of(env)


def test_a_new_sibling_of_another_kind_changes_no_id(env: StreamExecutionEnvironment) -> None:
    def map_id(with_filter: bool) -> str:
        program = StreamExecutionEnvironment.get_execution_environment()
        stream = source(program)
        if with_filter:
            stream.filter(bool)
        mapped = stream.map(same)
        operator = mapped.transformation
        return next(n.id for n in program.generate_job().stream_graph.nodes if n.operator is operator)

    assert map_id(with_filter=False) == map_id(with_filter=True)


def test_very_long_programs_are_no_problem(env: StreamExecutionEnvironment) -> None:
    stream = source(env)
    for _ in range(1500):
        stream = stream.map(same)
    union = stream
    for _ in range(1500):
        union = union.union(stream).rebalance()
    union.print()
    graph = graph_of(env)
    assert len(graph.vertices[0].operators) == 1501
    assert len(graph.edges) == 1501


def test_programs_without_sinks_or_operators_run(env: StreamExecutionEnvironment) -> None:
    source(env)
    assert names(graph_of(env)) == ["Source: s"]


def test_collecting_is_a_sink_of_its_own_kind(env: StreamExecutionEnvironment) -> None:
    stream = source(env)
    env.add_operator("Collect", stream.transformation, CollectSpec(), LONG)
    [vertex] = graph_of(env).vertices
    assert vertex.name == "Source: s -> Sink: Collect"
    assert chain_of(vertex).operators[1].spec == CollectSpec()


def test_an_empty_program_is_refused(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidProgramError, match=r"^No operators defined in .*\. Cannot execute\. Add a source"):
        graph_of(env)
