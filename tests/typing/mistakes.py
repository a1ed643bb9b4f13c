"""Mistakes that type checkers report: each line that is marked, and no other one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from millstream.common import Time, Types
from millstream.datastream import DataStream, OutputTag, RuntimeContext, StreamExecutionEnvironment
from millstream.datastream.connectors.base import Sink
from millstream.datastream.functions import (
    AsyncFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessWindowFunction,
    ReduceFunction,
    SinkFunction,
)
from millstream.datastream.state import ValueStateDescriptor
from millstream.datastream.window import TimeWindow, TumblingEventTimeWindows


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


class OfEventWindows(ProcessWindowFunction[Event, int, str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Event]
    ) -> Iterable[int]:
        return [context.window().begin]  # mistake


class OfInts(AsyncFunction[int, int]):
    async def async_invoke(self, value: int) -> list[int]:
        return [value]


class ToStrings(SinkFunction[str]): ...


def int_function(value: int) -> int:
    return value


def int_key(value: int) -> int:
    return value


def add_numbers(a: int, b: int) -> int:
    return a + b


env = StreamExecutionEnvironment.get_execution_environment()
stream_of_str = env.from_collection(["a"])
numbers = env.from_sequence(1, 3)
events = env.from_collection([Event("a", 1)])
strings: Sink[str]
tag = OutputTag("tag", Types.STRING())

stream_of_str.map(int_function)  # mistake
stream_of_str.map(int_function, Types.INT())  # mistake
stream_of_str.map(IntToInt())  # mistake
stream_of_str.map(lambda text: text.upperr())  # mistake
stream_of_str.flat_map(lambda text: len(text))  # mistake
stream_of_str.filter(int_function)  # mistake
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
wrong: DataStream[int] = stream_of_str.map(str.upper)  # mistake

numbers.map(int_function).map(IntToInt()).key_by(int_key).reduce(Larger())
numbers.key_by(int_key).reduce(add_numbers)
events.key_by(lambda event: event.user).process(OfEvents()).map(int_function)
