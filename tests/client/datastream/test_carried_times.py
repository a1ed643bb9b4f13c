"""Which streams carry timestamps: those with a consumer that may read them, and no others."""

from __future__ import annotations

from typing import Any

import pytest
from program_graphs import chain_of, graph_of

from millstream.common import Types, WatermarkStrategy
from millstream.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from millstream.datastream.connectors.base import Sink, SinkWriter
from millstream.datastream.connectors.print import PrintSink
from millstream.datastream.data_stream import DataStream
from millstream.datastream.functions import SinkFunction
from millstream.datastream.window import TumblingEventTimeWindows

STRATEGY = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: n)


class AnySink(Sink):
    def create_writer(self, context: Any) -> SinkWriter:
        raise NotImplementedError


class Invoked(SinkFunction):
    def invoke(self, value: Any, context: Any) -> None:
        context.timestamp()


def numbers(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_collection([1, 2]).assign_timestamps_and_watermarks(STRATEGY).name("times")


def timed_behind(env: StreamExecutionEnvironment) -> dict[str, set[bool]]:
    """The operators by name, with whether the edges behind each carry timestamps."""
    chains = [chain_of(vertex) for vertex in graph_of(env).vertices]
    return {
        operator.name: {output.timed for output in operator.outputs}
        for chain in chains
        for operator in chain.operators
        if operator.outputs
    }


def steps(stream: DataStream) -> DataStream:
    reduced = stream.map(lambda n: n).name("map").key_by(lambda n: n).reduce(max).name("reduce")
    return reduced.filter(bool).name("filter").flat_map(lambda n: [n]).name("flat")


def test_no_stream_does_in_front_of_functions_and_sinks_that_never_look(env: StreamExecutionEnvironment) -> None:
    steps(numbers(env)).print()
    behind = timed_behind(env)
    assert [behind[name] for name in ("times", "map", "reduce", "filter", "flat")] == [{False}] * 5


@pytest.mark.parametrize("end", ["process", "sink", "sink function", "window"])
def test_streams_with_a_consumer_that_may_read_timestamps_carry_them(env: StreamExecutionEnvironment, end: str) -> None:
    stream = steps(numbers(env))
    match end:
        case "process":
            stream.process(lambda n, ctx: [ctx.timestamp()]).name("end").print()
        case "sink":
            stream.sink_to(AnySink())
        case "sink function":
            stream.add_sink(Invoked())
        case "window":
            windows = stream.key_by(lambda n: n).window(TumblingEventTimeWindows.of(5))
            windows.reduce(max).name("end").print()
    behind = timed_behind(env)
    assert [behind[name] for name in ("times", "map", "reduce", "filter", "flat")] == [{True}] * 5
    assert behind.get("end", {False}) == {False}


def test_of_two_branches_only_the_one_with_such_a_consumer_carries_them(env: StreamExecutionEnvironment) -> None:
    stream = numbers(env)
    stream.map(lambda n: n).name("printed").print()
    stream.map(lambda n: n).name("written").sink_to(AnySink())
    behind = timed_behind(env)
    assert behind["times"] == {True, False}
    assert (behind["printed"], behind["written"]) == ({False}, {True})


def test_a_sink_declares_whether_its_writers_read_timestamps(env: StreamExecutionEnvironment) -> None:
    class Careless(AnySink):
        reads_timestamps = False

    numbers(env).sink_to(Careless())
    assert timed_behind(env)["times"] == {False}
    assert not PrintSink.reads_timestamps


def test_only_a_function_that_assigns_timestamps_receives_the_previous_ones(env: StreamExecutionEnvironment) -> None:
    pairs = env.from_collection([(1, 2)], Types.TUPLE([Types.LONG(), Types.LONG()])).name("pairs")
    by_field = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_field(1)
    first = pairs.assign_timestamps_and_watermarks(STRATEGY).name("first")
    first.assign_timestamps_and_watermarks(by_field).name("by field").sink_to(AnySink())
    second = pairs.assign_timestamps_and_watermarks(by_field).name("second")
    second.assign_timestamps_and_watermarks(STRATEGY).name("by function").print()
    behind = timed_behind(env)
    assert (behind["first"], behind["by field"]) == ({False}, {True})
    assert (behind["second"], behind["by function"]) == ({True}, {False})


def test_in_a_batch_records_come_to_the_operators_that_sort_them_with_their_timestamps(
    env: StreamExecutionEnvironment,
) -> None:
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    steps(numbers(env)).print()
    behind = timed_behind(env)
    assert (behind["times"], behind["map"]) == ({True}, {True})
    assert (behind["reduce"], behind["filter"]) == ({False}, {False})
