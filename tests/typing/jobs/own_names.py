"""Functions with names of their own for their parameters, and contexts with the type of their key."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import TypedDict

from millstream.common import Time, TimestampAssigner, WatermarkStrategy
from millstream.datastream import (
    AggregateFunction,
    CoMapFunction,
    FilterFunction,
    FlatMapFunction,
    JobListener,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ProcessWindowFunction,
    ReduceFunction,
    RuntimeContext,
    SinkFunction,
    StreamExecutionEnvironment,
    TimeWindow,
)
from millstream.datastream.execution.executor import JobClient, JobExecutionResult
from millstream.datastream.functions import SinkContext
from millstream.datastream.state import MapStateDescriptor
from millstream.datastream.window import TumblingEventTimeWindows

RULES = MapStateDescriptor("rules", str, int)


@dataclass
class Click:
    user: str
    at: int


class Order(TypedDict):
    item: str
    price: float


class Ordered(MapFunction[str, Order]):
    def open(self, context: RuntimeContext) -> None:
        self.orders = context.get_metrics_group().counter("orders")

    def map(self, line: str) -> Order:
        item, price = line.split()
        return {"item": item, "price": float(price)}


class Words(FlatMapFunction[str, str]):
    def flat_map(self, line: str) -> Generator[str, None, None]:
        yield from line.split()


class Long(FilterFunction[str]):
    def filter(self, word: str) -> bool:
        return len(word) > 3


class ByUser(KeySelector[Click, str]):
    def get_key(self, click: Click) -> str:
        return click.user


class Added(ReduceFunction[tuple[str, int]]):
    def reduce(self, a: tuple[str, int], b: tuple[str, int]) -> tuple[str, int]:
        return a[0], a[1] + b[1]


class Clicks(AggregateFunction[Click, int, int]):
    def create_accumulator(self) -> int:
        return 0

    def add(self, click: Click, count: int) -> int:
        return count + 1

    def get_result(self, count: int) -> int:
        return count

    def merge(self, a: int, b: int) -> int:
        return a + b


class ClickTime(TimestampAssigner[Click]):
    def extract_timestamp(self, click: Click, previous: int) -> int:
        return click.at


class Timed(KeyedProcessFunction[str, Click, int]):
    def process_element(self, click: Click, context: KeyedProcessFunction.Context[str]) -> None:
        context.timer_service().register_event_time_timer(len(context.get_current_key().upper()))

    def on_timer(self, when: int, context: KeyedProcessFunction.OnTimerContext[str]) -> list[int]:
        return [when + len(context.get_current_key().upper())]


class Windowed(ProcessWindowFunction[tuple[str, int], str, str, TimeWindow]):
    def process(
        self, word: str, ctx: ProcessWindowFunction.Context[TimeWindow], pairs: Iterable[tuple[str, int]]
    ) -> Iterator[str]:
        for pair in pairs:
            yield f"{word} {ctx.window().start} {pair[1]}"


class Names(CoMapFunction[Click, str, str]):
    def map1(self, click: Click) -> str:
        return click.user

    def map2(self, name: str) -> str | None:
        return name or None


class Both(KeyedCoProcessFunction[str, Click, str, int]):
    def process_element1(self, click: Click, context: KeyedCoProcessFunction.Context[str]) -> list[int]:
        return [click.at]

    def process_element2(self, name: str, context: KeyedCoProcessFunction.Context) -> list[int]:
        return []


class Ruled(KeyedBroadcastProcessFunction[str, Click, tuple[str, int], int]):
    def process_element(
        self, click: Click, context: KeyedBroadcastProcessFunction.ReadOnlyContext[str]
    ) -> Iterator[int]:
        yield context.get_broadcast_state(RULES).get(context.get_current_key()) or click.at

    def process_broadcast_element(
        self, rule: tuple[str, int], context: KeyedBroadcastProcessFunction.Context
    ) -> None:
        context.get_broadcast_state(RULES).put(*rule)

    def on_timer(self, when: int, context: KeyedBroadcastProcessFunction.OnTimerContext[str]) -> list[int]:
        return [when + len(context.get_current_key().upper())]


class Printed(SinkFunction[str]):
    def invoke(self, text: str, ctx: SinkContext) -> None:
        print(text)


class Listening(JobListener):
    def on_job_submitted(self, client: JobClient | None, error: BaseException | None) -> None: ...

    def on_job_executed(self, result: JobExecutionResult | None, error: BaseException | None) -> None: ...


def added(a: tuple[str, int], b: tuple[str, int]) -> tuple[str, int]:
    return a[0], a[1] + b[1]


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.register_job_listener(Listening())
    lines = env.from_collection(["to be"])
    lines.map(Ordered()).map(lambda order: order["price"] / 2).print()
    pairs = lines.flat_map(Words()).filter(Long()).map(lambda word: (word, 1)).key_by(lambda pair: pair[0])
    pairs.reduce(Added()).map(lambda pair: pair[1].bit_length()).print()
    windows = pairs.window(TumblingEventTimeWindows.of(Time.seconds(5)))
    windows.reduce(Added()).print()
    windows.reduce(added).print()
    windows.reduce(Added(), Windowed()).map(str.upper).print()
    windows.reduce(lambda a, b: (a[0], a[1] + b[1]), Windowed()).map(str.upper).add_sink(Printed())
    windows.reduce(added, lambda key, window, pairs: [(key, pairs[0][1])]).map(lambda pair: pair[0].upper()).print()
    windows.reduce(Added(), window_function=Windowed(), output_type=str).map(str.upper).print()
    clicks = env.from_collection([Click("ann", 1)])
    clicks.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ClickTime())
    ).print()
    keyed = clicks.key_by(ByUser())
    keyed.process(Timed()).map(lambda number: number.bit_length()).print()
    keyed.window(TumblingEventTimeWindows.of(Time.seconds(5))).aggregate(Clicks()).map(lambda n: n + 1).print()
    clicks.connect(lines).map(Names()).map(str.upper).print()
    clicks.connect(lines).key_by(lambda click: click.user, lambda name: name).process(Both()).print()
    keyed.connect(pairs.map(lambda pair: pair).broadcast(RULES)).process(Ruled()).map(lambda n: n + 1).print()
    env.execute()


if __name__ == "__main__":
    main()
