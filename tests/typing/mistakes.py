"""Mistakes that type checkers report: each line that is marked, and no other one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from millstream.common import Time, TypeInformation, Types, WatermarkStrategy
from millstream.core.records.batches import Batch
from millstream.datastream import DataStream, KeyedStream, OutputTag, RuntimeContext, StreamExecutionEnvironment
from millstream.datastream.connectors import FileSource
from millstream.datastream.connectors.base import Sink
from millstream.datastream.connectors.two_phase_commit import TwoPhaseCommitSink
from millstream.datastream.expressions import col
from millstream.datastream.functions import (
    AsyncFunction,
    KeyedProcessFunction,
    MapFunction,
    Partitioner,
    ProcessWindowFunction,
    ReduceFunction,
    SinkFunction,
)
from millstream.datastream.state import (
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from millstream.datastream.window import TimeWindow, Trigger, TumblingEventTimeWindows, WindowAssigner


@dataclass
class Event:
    user: str
    amount: int


class IntToInt(MapFunction[int, int]):
    def map(self, value: int) -> int:
        return value


class Larger(ReduceFunction[int]):
    def reduce(self, value1: int, value2: int) -> int:
        return max(value1, value2)


class OfEvents(KeyedProcessFunction[str, Event, int]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context) -> Iterator[int]:
        self.count.update("one")  # mistake
        yield value.amount


class WithDeclaredAttributes(KeyedProcessFunction[str, Event, int]):
    count: ValueState[int]
    name: ValueState[str]
    names: ListState[str]
    pages: MapState[str, str]
    pairs: ValueState[tuple[str, int]]
    lists: ValueState[list[str]]

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.count = runtime_context.get_state(ValueStateDescriptor("any"))
        self.count = runtime_context.get_state("optional", int | None)
        self.pairs = runtime_context.get_state("pairs", Types.TUPLE([Types.STRING(), Types.LONG()]))
        self.name = runtime_context.get_state(ValueStateDescriptor("name", Types.LONG()))  # mistake
        self.name = runtime_context.get_state("name", int)  # mistake
        self.names = runtime_context.get_list_state(ListStateDescriptor("names", Types.LONG()))  # mistake
        self.names = runtime_context.get_list_state("names", int)  # mistake
        self.pages = runtime_context.get_map_state(MapStateDescriptor("p", Types.STRING(), Types.LONG()))  # mistake
        self.pages = runtime_context.get_map_state("pages", str, int)  # mistake
        self.lists = runtime_context.get_state("lists", Types.LIST(Types.LONG()))  # mistake
        highest = runtime_context.get_reducing_state(ReducingStateDescriptor("highest", Larger(), Types.STRING()))
        highest.get().upper()  # mistake

    def process_element(self, value: Event, ctx: KeyedProcessFunction.Context) -> Iterator[str]:  # mistake
        yield value.user


class OfEventWindows(ProcessWindowFunction[Event, int, str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Event]
    ) -> Iterable[int]:
        return [context.window().begin]  # mistake


class OfInts(AsyncFunction[int, int]):
    async def async_invoke(self, value: int) -> list[int]:
        return [value]


class ToStrings(SinkFunction[str]): ...


class EventSink(TwoPhaseCommitSink[list[str], Event]):
    def begin_transaction(self) -> list[str]:
        return []

    def write(self, transaction: list[str], batch: Batch) -> None: ...

    def pre_commit(self, transaction: list[str]) -> None: ...

    def commit(self, transaction: list[str]) -> None: ...

    def abort(self, transaction: str) -> None: ...  # mistake


class ByName(Partitioner[str]):
    def partition(self, key: str, num_partitions: int) -> int:
        return len(key) % num_partitions


def int_function(value: int) -> int:
    return value


def int_key(value: int) -> int:
    return value


def event_time(value: Event, record_timestamp: int) -> int:
    return value.amount


def declared_result() -> DataStream[str]:
    return numbers.map(int_function, Types.INT())  # mistake


def right_result() -> DataStream[tuple[str, int]]:
    return numbers.map(lambda number: ("a", number), Types.TUPLE([Types.STRING(), Types.LONG()]))


def declared_key() -> KeyedStream[str, int]:
    return numbers.key_by(lambda number: number, Types.LONG())  # mistake


def of_texts(stream: DataStream[str]) -> None: ...


def sinks(strings: Sink[str]) -> None:
    stream_of_str.sink_to(strings)
    events.sink_to(strings)  # mistake


def windows(assigner: WindowAssigner[Event, TimeWindow], trigger: Trigger[Event, TimeWindow]) -> None:
    events.key_by("user").window(assigner).trigger(trigger).process(OfEventWindows())
    numbers.window_all(assigner)  # mistake
    numbers.key_by(int_key).window(assigner)  # mistake
    numbers.key_by(int_key).window(TumblingEventTimeWindows.of(Time.seconds(1))).trigger(trigger)  # mistake


def add_numbers(a: int, b: int) -> int:
    return a + b


env = StreamExecutionEnvironment.get_execution_environment()
stream_of_str = env.from_collection(["a"])
numbers = env.from_sequence(1, 3)
events = env.from_collection([Event("a", 1)])
tag = OutputTag("tag", Types.STRING())
of_events = WatermarkStrategy[Event].for_monotonous_timestamps()

stream_of_str.map(int_function)  # mistake
stream_of_str.map(int_function, Types.INT())  # mistake
stream_of_str.map(IntToInt())  # mistake
stream_of_str.map(lambda text: text.upperr())  # mistake
stream_of_str.flat_map(lambda text: len(text))  # mistake
stream_of_str.filter(int_function)  # mistake
stream_of_str.filter("length > 1")  # mistake
col("amount").alias(1)  # mistake
stream_of_str.key_by(int_key)  # mistake
stream_of_str.key_by(len).reduce(Larger())  # mistake
stream_of_str.key_by(len).reduce(add_numbers)  # mistake
numbers.key_by(int_key).reduce(lambda a, b: str(a))  # mistake
events.key_by(lambda event: event.name)  # mistake
events.key_by(lambda event: event.amount).process(OfEvents())  # mistake
numbers.key_by(str).process(OfEvents())  # mistake
numbers.key_by(str).window(TumblingEventTimeWindows.of(Time.seconds(1))).process(OfEventWindows())  # mistake
numbers.window(TumblingEventTimeWindows.of(Time.seconds(1)))  # mistake
numbers.add_sink(ToStrings())  # mistake
events.get_side_output(tag).map(int_function)  # mistake
stream_of_str.sink_to(EventSink())  # mistake
numbers.partition_custom(ByName(), int_key)  # mistake
of_events.with_timestamp_assigner(lambda event, _: event.time)  # mistake
numbers.assign_timestamps_and_watermarks(of_events.with_timestamp_assigner(event_time))  # mistake
of_texts(numbers.map(int_function, Types.INT()))  # mistake
wrong: DataStream[int] = stream_of_str.map(str.upper)  # mistake
wrong_tag: OutputTag[str] = OutputTag("tag", Types.INT())  # mistake
wrong_source: FileSource[str] = FileSource.for_json_lines("in", type_info=Event)  # mistake
wrong_type: TypeInformation[list[str]] = Types.LIST(Types.INT())  # mistake

numbers.map(int_function).map(IntToInt()).key_by(int_key).reduce(Larger())
numbers.key_by(int_key).reduce(add_numbers)
events.key_by(lambda event: event.user).process(OfEvents()).map(int_function)
events.sink_to(EventSink())
stream_of_str.partition_custom(ByName(), lambda text: text[0])
events.assign_timestamps_and_watermarks(of_events.with_timestamp_assigner(lambda event, _: event.amount))
events.assign_timestamps_and_watermarks(of_events.with_timestamp_assigner(event_time))
of_texts(numbers.map(str, Types.STRING()))
