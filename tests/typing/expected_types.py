"""What type checkers infer: every line is an error where they infer anything else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, assert_type

import millstream
from millstream.common import Row, Time, TypeInformation, Types, WatermarkStrategy
from millstream.datastream import (
    CloseableIterator,
    ConnectedStreams,
    DataStream,
    KeyedStream,
    OutputTag,
    RuntimeContext,
    StreamExecutionEnvironment,
    WindowedStream,
)
from millstream.datastream.connectors.datagen import DataGeneratorSource
from millstream.datastream.connectors.file_system import FileSource, StreamFormat
from millstream.datastream.connectors.hybrid_source import HybridSource
from millstream.datastream.connectors.number_seq import NumberSequenceSource
from millstream.datastream.expressions import Expression, RowExpression, coalesce, col, if_then_else, lit, row
from millstream.datastream.functions import (
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ProcessWindowFunction,
    ReduceFunction,
)
from millstream.datastream.state import (
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from millstream.datastream.window import TimeWindow, TumblingEventTimeWindows


@dataclass
class Event:
    user: str
    amount: int


class Length(MapFunction[str, int]):
    def map(self, value: str) -> int:
        return len(value)


class Sum(ReduceFunction[tuple[str, int]]):
    def reduce(self, value1: tuple[str, int], value2: tuple[str, int]) -> tuple[str, int]:
        return value1[0], value1[1] + value2[1]


class Untyped(MapFunction):
    def map(self, value: str) -> int:
        return len(value)


def split(value: Event, ctx: ProcessFunction.Context) -> Iterator[int | tuple[OutputTag[Event], Event]]:
    yield value.amount
    yield OTHERS, value


class Count(ProcessWindowFunction[Event, tuple[str, int], str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Event]
    ) -> Iterator[tuple[str, int]]:
        assert_type(context.window(), TimeWindow)
        yield key, context.window().start


class Total(KeyedProcessFunction[str, Event, int]):
    def open(self, runtime_context: RuntimeContext) -> None:
        assert_type(runtime_context.get_state(ValueStateDescriptor("a", Types.LONG())), ValueState[int])
        assert_type(runtime_context.get_state(ValueStateDescriptor("b", Event)), ValueState[Event])
        assert_type(runtime_context.get_state(ValueStateDescriptor("c")), ValueState[Any])
        assert_type(runtime_context.get_state("d", str), ValueState[str])
        assert_type(runtime_context.get_list_state(ListStateDescriptor("e", Types.STRING())), ListState[str])
        assert_type(
            runtime_context.get_map_state(MapStateDescriptor("f", Types.STRING(), Types.DOUBLE())), MapState[str, float]
        )
        reducing = ReducingStateDescriptor("g", max, Types.LONG())
        assert_type(runtime_context.get_reducing_state(reducing), ReducingState[int])

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context) -> Iterator[int]:
        yield value.amount


OTHERS = OutputTag("others", Event)

assert_type(millstream.__version__, str)
assert_type(Types.STRING(), TypeInformation[str])
assert_type(Types.INSTANT(), TypeInformation[datetime])
assert_type(Types.LIST(Types.DOUBLE()), TypeInformation[list[float]])
assert_type(Types.MAP(Types.STRING(), int), TypeInformation[dict[str, int]])
assert_type(Types.ROW_NAMED(["a"], [int]), TypeInformation[Row])
assert_type(OTHERS, OutputTag[Event])
assert_type(OutputTag("any"), OutputTag[Any])

env = StreamExecutionEnvironment.get_execution_environment()
texts = env.from_collection(["a", "b"])
events = env.from_collection([Event("a", 1)], type_info=Event)
assert_type(texts, DataStream[str])
assert_type(events, DataStream[Event])
assert_type(env.from_sequence(1, 3), DataStream[int])

no_watermarks = WatermarkStrategy.no_watermarks()
text_files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "in")
generated = DataGeneratorSource(lambda number: Event("a", number), 10)
assert_type(env.from_source(NumberSequenceSource(1, 3), no_watermarks, "numbers"), DataStream[int])
assert_type(env.from_source(text_files, no_watermarks, "lines"), DataStream[str])
assert_type(env.from_source(text_files.build(), None, "lines"), DataStream[str])
assert_type(env.from_source(FileSource.for_json_lines("in", type_info=Event)), DataStream[Event])
assert_type(env.from_source(FileSource.for_json_lines("in", type_info=dict[str, int])), DataStream[dict[str, int]])
assert_type(env.from_source(FileSource.for_json_lines("in")), DataStream[Any])
assert_type(env.from_source(FileSource.for_csv("in", types=Event)), DataStream[Event])
assert_type(env.from_source(FileSource.for_csv("in", types={"amount": int})), DataStream[Any])
assert_type(env.from_source(FileSource.for_parquet("in", type_info=Types.ROW([Types.INT()]))), DataStream[Row])
assert_type(env.from_source(generated), DataStream[Event])
assert_type(env.from_source(DataGeneratorSource(str, rate_per_second=5, type_info=str)), DataStream[str])
assert_type(env.from_source(DataGeneratorSource(lambda number: (number,), type_info=Row)), DataStream[Row])
hybrid = HybridSource.builder(FileSource.for_csv("in", types=Event)).add_source(generated).build()
assert_type(env.from_source(hybrid), DataStream[Event])

assert_type(texts.map(len), DataStream[int])
assert_type(texts.map(lambda text: text.encode()), DataStream[bytes])
assert_type(texts.map(Length()), DataStream[int])
assert_type(texts.map(Untyped()), DataStream[Any])
assert_type(texts.map(lambda text: Row(text), Types.ROW([Types.STRING()])), DataStream[Row])
assert_type(texts.map(lambda text: None, int), DataStream[int])
assert_type(texts.map(lambda text: None, int | None), DataStream[Any])
assert_type(texts.flat_map(lambda text: text.split()), DataStream[str])
assert_type(texts.flat_map(lambda text: [len(text)], Types.LONG()), DataStream[int])
assert_type(texts.filter(str.isdigit).filter(lambda text: len(text) > 1), DataStream[str])
assert_type(col("amount") * 2 + lit(1) > 3, Expression)
assert_type((col("amount") > 1) & ~(col("user") == "ann"), Expression)
assert_type(if_then_else(col("user").is_null, "", coalesce(col("user"), "")).cast(str), Expression)
assert_type(row(col("user"), (col("amount") % 2).alias("odd")), RowExpression)
assert_type(events.filter(col("amount") > 1), DataStream[Event])
assert_type(events.map(col("amount") > 1), DataStream[Any])
assert_type(events.map(row(col("user"))), DataStream[Row])
assert_type(events.process(split), DataStream[int])
assert_type(events.process(split).get_side_output(OTHERS), DataStream[Event])
assert_type(texts.union(texts), DataStream[str])
assert_type(texts.rebalance(), DataStream[str])
assert_type(texts.connect(events), ConnectedStreams[str, Event])
assert_type(texts.connect(events).map((len, lambda event: event.amount)), DataStream[int])

keyed = events.key_by(lambda event: event.user)
assert_type(keyed, KeyedStream[str, Event])
assert_type(events.key_by("user"), KeyedStream[Any, Event])
assert_type(events.key_by("user", Types.STRING()), KeyedStream[str, Event])
assert_type(keyed.process(Total()), DataStream[int])
assert_type(keyed.process(lambda event, ctx: [(ctx.get_current_key(), event.amount)]), DataStream[tuple[str, int]])
assert_type(keyed.reduce(lambda a, b: a), DataStream[Event])
assert_type(keyed.sum("amount"), DataStream[Event])
pairs = texts.map(lambda text: (text, 1)).key_by(lambda pair: pair[0])
assert_type(pairs.reduce(lambda a, b: (a[0], a[1] + b[1])), DataStream[tuple[str, int]])

assert_type(pairs.reduce(Sum()), DataStream[tuple[str, int]])

windows = keyed.window(TumblingEventTimeWindows.of(Time.seconds(1)))
assert_type(windows, WindowedStream[str, Event, TimeWindow])
assert_type(windows.process(Count()), DataStream[tuple[str, int]])
assert_type(windows.reduce(lambda a, b: b), DataStream[Event])
assert_type(windows.reduce(lambda a, b: b, Count()), DataStream[tuple[str, int]])
assert_type(windows.apply(lambda key, window, inputs: [window.end]), DataStream[int])
assert_type(WatermarkStrategy.no_watermarks(), WatermarkStrategy[Any])
in_order = WatermarkStrategy[Event].for_monotonous_timestamps()
assert_type(in_order, WatermarkStrategy[Event])
assert_type(in_order.with_timestamp_assigner(lambda event, _: event.amount), WatermarkStrategy[Event])

assert_type(texts.execute_and_collect(), CloseableIterator[str])
assert_type(texts.execute_and_collect("name", 3), list[str])
assert_type(texts.execute_and_collect(limit=3), list[str])
