"""Connected streams and broadcast streams: their operators, edges and types, and what they refuse."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, TypeVar

import cloudpickle
import pytest
from program_graphs import chain_of, graph_of

from millstream.common import InvalidProgramError, Types
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.plan.plan import (
    BroadcastProcessSpec,
    CoFlatMapSpec,
    CoMapSpec,
    CoProcessSpec,
    EdgeSpec,
    ForwardPartitioner,
    HashPartitioner,
)
from millstream.core.records.types import LONG, PICKLED, STRING
from millstream.datastream import (
    BroadcastProcessFunction,
    BroadcastStream,
    CoFlatMapFunction,
    CoMapFunction,
    ConnectedStreams,
    CoProcessFunction,
    DataStream,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedStream,
    OutputTag,
    StreamExecutionEnvironment,
)
from millstream.datastream.state import MapStateDescriptor, StateTtlConfig

Spec = TypeVar("Spec")
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
TAG = OutputTag("late", Types.STRING())


class Texts(CoMapFunction):
    def map1(self, value: int) -> str:
        return str(value)

    def map2(self, value: str) -> str:
        return value


class Parts(CoFlatMapFunction):
    def flat_map1(self, value: int) -> Iterator[int]:
        yield value

    def flat_map2(self, value: str) -> list[int]:
        return [len(value)]


class Both(CoProcessFunction):
    def process_element1(self, value: int, ctx: CoProcessFunction.Context) -> Iterator[int]:
        yield value

    def process_element2(self, value: str, ctx: CoProcessFunction.Context) -> Iterator[int | tuple[OutputTag, str]]:
        yield TAG, value


class KeyedBoth(KeyedCoProcessFunction):
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        yield ctx.get_current_key()

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        yield ctx.get_current_key()


class Apply(BroadcastProcessFunction):
    def process_element(self, value: int, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[int]:
        yield value

    def process_broadcast_element(self, value: str, ctx: BroadcastProcessFunction.Context) -> Iterator[int]:
        yield len(value)


class KeyedApply(KeyedBroadcastProcessFunction):
    def process_element(self, value: int, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterator[int]:
        yield value

    def process_broadcast_element(self, value: str, ctx: KeyedBroadcastProcessFunction.Context) -> None:
        return None


def expiring() -> MapStateDescriptor:
    descriptor = MapStateDescriptor("short", str, int)
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(timedelta(seconds=1)).build())
    return descriptor


def numbers(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection([1], Types.LONG()).name("numbers")


def texts(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection(["a"], Types.STRING()).name("texts")


def edges_of(graph: JobGraph) -> list[tuple[str, int, EdgeSpec]]:
    names = {vertex.id: vertex.name for vertex in graph.vertices}
    return [(names[e.source], e.input, cloudpickle.loads(e.spec)) for e in graph.edges]


def spec_of(env: StreamExecutionEnvironment, kind: type[Spec]) -> Spec:
    """Of the last vertex's head."""
    spec = chain_of(graph_of(env).vertices[-1]).operators[0].spec
    assert isinstance(spec, kind)
    return spec


def test_the_two_streams_become_the_two_inputs_of_a_task_of_their_own(env: StreamExecutionEnvironment) -> None:
    connected = numbers(env).connect(texts(env))
    assert isinstance(connected, ConnectedStreams)
    connected.map(Texts()).filter(bool)
    graph = graph_of(env)
    assert [v.name for v in graph.vertices] == ["Source: numbers", "Source: texts", "Co-Map -> Filter"]
    first, second = edges_of(graph)
    assert first[:2] == ("Source: numbers", 0)
    assert second[:2] == ("Source: texts", 1)
    assert first[2].partitioner == second[2].partitioner == ForwardPartitioner()
    assert (first[2].type, second[2].type) == (LONG, STRING)
    spec_of(env, CoMapSpec)


def test_a_union_is_one_input_with_one_type(env: StreamExecutionEnvironment) -> None:
    numbers(env).union(numbers(env)).connect(texts(env).union(texts(env).map(lambda x: x))).process(Both())
    kinds = [(index, spec.type) for _, index, spec in edges_of(graph_of(env))]
    assert sorted(kinds, key=lambda pair: pair[0]) == [(0, LONG), (0, LONG), (1, PICKLED), (1, PICKLED)]


def test_a_stream_can_be_connected_with_itself(env: StreamExecutionEnvironment) -> None:
    stream = numbers(env)
    stream.connect(stream).map((str, str))
    assert [(name, index) for name, index, _ in edges_of(graph_of(env))] == [
        ("Source: numbers", 0), ("Source: numbers", 1)
    ]  # fmt: skip


def test_names_specs_and_result_types(env: StreamExecutionEnvironment) -> None:
    connected = numbers(env).connect(texts(env))
    keyed = connected.key_by(lambda n: n, len)
    made = [
        (connected.map(Texts()), "Co-Map", STRING),
        (connected.flat_map(Parts()), "Co-Flat Map", LONG),
        (connected.process(Both()), "Co-Process", LONG),
        (keyed.process(KeyedBoth()), "Keyed Co-Process", PICKLED),
        (keyed.process(Both()), "Keyed Co-Process", LONG),
        (connected.map(Texts(), Types.LONG()), "Co-Map", LONG),
        (connected.map((str, len)), "Co-Map", PICKLED),
        (numbers(env).connect(texts(env).broadcast(RULES)).process(Apply()), "Co-Process-Broadcast", LONG),
        (
            numbers(env).key_by(lambda n: n).connect(texts(env).broadcast(RULES)).process(KeyedApply(), Types.LONG()),
            "Co-Process-Broadcast-Keyed",
            LONG,
        ),
    ]
    assert [(stream.get_name(), stream.get_type()) for stream, _, _ in made] == [(n, t) for _, n, t in made]


def test_a_pair_of_callables_is_a_function(env: StreamExecutionEnvironment) -> None:
    def first(value: int) -> int:
        return value

    def second(value: str) -> int:
        return len(value)

    connected = numbers(env).connect(texts(env))
    assert connected.map((first, second)).get_type() == LONG
    spec = spec_of(env, CoMapSpec)
    assert (spec.function.map1(3), spec.function.map2("ab")) == (3, 2)

    connected.flat_map([lambda n: [n], lambda s: [s]])
    flat = spec_of(env, CoFlatMapSpec)
    assert (flat.function.flat_map1(3), flat.function.flat_map2("ab")) == ([3], ["ab"])

    connected.process((lambda n, ctx: [n], lambda s, ctx: [ctx]))
    process = spec_of(env, CoProcessSpec)
    assert (process.function.process_element1(3, None), process.function.process_element2("a", "c")) == ([3], ["c"])


def test_keyed_inputs_are_hashed_over_the_same_key_groups(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(3)
    connected = numbers(env).connect(texts(env)).key_by(lambda n: n, len, key_type=int)
    assert isinstance(connected.stream1, KeyedStream)
    connected.process(KeyedBoth()).set_max_parallelism(64)
    graph = graph_of(env)
    for _, _, spec in edges_of(graph):
        assert isinstance(spec.partitioner, HashPartitioner)
        assert spec.max_parallelism == 64
    spec = spec_of(env, CoProcessSpec)
    assert spec.keys.key_type == LONG
    assert spec.keys.second.function("abc") == 3


def test_streams_that_were_keyed_before_are_keyed_together_or_again(env: StreamExecutionEnvironment) -> None:
    first, second = numbers(env).key_by(lambda n: n), texts(env).key_by(len)
    first.connect(second).map(Texts())
    spec = spec_of(env, CoMapSpec)
    assert spec.keys is not None
    again = first.connect(second).key_by(str, lambda text: text)
    assert isinstance(again.stream1, KeyedStream)
    assert again.stream1.key_selector.function is str


def test_one_keyed_stream_alone_gives_no_keyed_operator(env: StreamExecutionEnvironment) -> None:
    numbers(env).key_by(lambda n: n).connect(texts(env)).process(Both())
    graph = graph_of(env)
    spec = spec_of(env, CoProcessSpec)
    assert spec.keys is None
    assert [type(edge.partitioner) for _, _, edge in edges_of(graph)] == [HashPartitioner, ForwardPartitioner]


def test_a_broadcast_stream_goes_everywhere(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(2)
    rules = texts(env).broadcast(RULES)
    assert isinstance(rules, BroadcastStream)
    assert isinstance(texts(env).broadcast(), DataStream)
    numbers(env).key_by(lambda n: n).connect(rules).process(KeyedApply())
    graph = graph_of(env)
    assert {(e.input, e.strategy) for e in graph.edges} == {(0, "HASH"), (1, "BROADCAST")}
    spec = spec_of(env, BroadcastProcessSpec)
    assert [descriptor.name for descriptor in spec.descriptors] == ["rules"]
    assert spec.keys.second is None


def test_side_outputs(env: StreamExecutionEnvironment) -> None:
    connected = numbers(env).connect(texts(env))
    assert connected.process(Both()).get_side_output(TAG).get_type() == STRING
    with pytest.raises(InvalidProgramError, match="only process"):
        connected.map(Texts()).get_side_output(TAG)


def test_ids_follow_from_the_inputs_and_their_order(env: StreamExecutionEnvironment) -> None:
    def ids(*order: int) -> dict[str, str]:
        made = StreamExecutionEnvironment.get_execution_environment()
        streams = [texts(made).uid("n"), texts(made).uid("t"), texts(made).uid("u")]
        a, b, c = (streams[i] for i in order)
        a.union(b).connect(c).map((str, str)).name("x")
        a.connect(b.union(c)).map((str, str)).name("y")
        return {o.name: o.id for v in graph_of(made).vertices for o in v.operators}

    straight = ids(0, 1, 2)
    assert straight == ids(0, 1, 2)
    assert straight["x"] != straight["y"]
    assert straight["x"] != ids(0, 2, 1)["x"]


def test_what_does_not_fit_is_refused(env: StreamExecutionEnvironment) -> None:
    connected = numbers(env).connect(texts(env))
    other = StreamExecutionEnvironment.get_execution_environment()
    keyed = numbers(env).key_by(lambda n: n)
    broadcast = texts(env).broadcast(RULES)
    refused: list[tuple[Any, str]] = [
        (lambda: numbers(env).connect(3), "connect: expected a stream, got 3"),
        (lambda: numbers(env).connect(texts(other)), "connect: the streams belong to different environments"),
        (lambda: numbers(env).connect(texts(other).broadcast(RULES)), "different environments"),
        (lambda: connected.map(str), r"map: .* expected a CoMapFunction, or a pair of callables"),
        (lambda: connected.map((str, 3)), "map: expected a callable"),
        (lambda: connected.map((str, lambda a, b: a)), "cannot be called with one argument"),
        (lambda: connected.map((str, Parts().flat_map1)), "use flat_map"),
        (lambda: connected.flat_map(Texts()), "flat_map: .* expected a CoFlatMapFunction"),
        (lambda: connected.process((str, str, str)), "expected a CoProcessFunction or a KeyedCoProcessFunction"),
        (lambda: connected.process(KeyedBoth()), r"KeyedBoth is a KeyedCoProcessFunction, which needs both streams"),
        (lambda: connected.process(Apply()), "Apply needs a broadcast stream"),
        (lambda: keyed.connect(texts(env)).process(KeyedBoth()), "needs both streams keyed"),
        (lambda: keyed.connect(broadcast).process(Apply()), "a keyed stream .* need a KeyedBroadcastProcessFunction"),
        (lambda: numbers(env).connect(broadcast).process(KeyedApply()), "not keyed .* need a BroadcastProcessFunction"),
        (lambda: numbers(env).connect(broadcast).process(Both()), "need a BroadcastProcessFunction, got Both"),
        (lambda: texts(env).broadcast("rules"), "broadcast: expected a MapStateDescriptor, got 'rules'"),
        (lambda: texts(env).broadcast(expiring()), "broadcast: state 'short' has a time-to-live"),
        (lambda: texts(env).broadcast(RULES, RULES), "two of the states are called 'rules'"),
        (lambda: keyed.broadcast(RULES), "cannot be overridden"),
    ]
    for build, message in refused:
        with pytest.raises(InvalidProgramError, match=message):
            build()


def test_keys_of_different_types_would_not_meet(env: StreamExecutionEnvironment) -> None:
    first = numbers(env).key_by(lambda n: n, key_type=int)
    with pytest.raises(InvalidProgramError, match=r"keyed by different types.*Key both by the same type"):
        first.connect(texts(env).key_by(lambda s: s, key_type=str)).process(KeyedBoth())
    first.connect(texts(env).key_by(lambda s: s)).process(KeyedBoth())
    spec = spec_of(env, CoProcessSpec)
    assert spec.keys.key_type == PICKLED


def test_what_cannot_be_pickled_is_named(env: StreamExecutionEnvironment) -> None:
    lock = threading.Lock()
    numbers(env).connect(texts(env)).map((lambda n: lock, str)).name("joined")
    with pytest.raises(InvalidProgramError, match=r"operator 'joined': the variable 'lock' of .*the attribute 'first'"):
        graph_of(env)
