"""Golden pipelines with state of every kind, as a program: `golden_restores.py PIPELINE OUTPUT RATE`.

Each writes to the exactly-once file sink. The complete output of a pipeline depends neither on its parallelism nor on
the order in which its inputs interleave, so the outputs of all runs can be compared.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import Any

from millstream.common import Row, Time, Types, WatermarkStrategy
from millstream.datastream import (
    AsyncDataStream,
    AsyncFunction,
    DataStream,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
    WindowFunction,
)
from millstream.datastream.aggregates import count, count_distinct, first, last
from millstream.datastream.aggregates import sum as sum_of
from millstream.datastream.connectors.datagen import DataGeneratorSource
from millstream.datastream.connectors.file_system import FileSink, RollingPolicy
from millstream.datastream.functions.checkpointed import CheckpointedFunction
from millstream.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from millstream.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows

N = 3_000
KEYS = 23
RULES = MapStateDescriptor("rules", Types.INT(), Types.STRING())


def numbers(env: StreamExecutionEnvironment, rate: float | None, count: int = N, uid: str = "numbers") -> DataStream:
    """Numbers from 0 to `count` - 1."""
    source = DataGeneratorSource(lambda index: index, count, rate, Types.LONG())
    return env.from_source(source, None, uid).uid(uid)


def keyed_counts(env: StreamExecutionEnvironment, rate: float | None) -> DataStream:
    """(key, 1), (key, 2), ... for each key."""
    pairs = numbers(env, rate).map(lambda x: (x % KEYS, 1), Types.TUPLE([Types.LONG(), Types.LONG()]))
    return pairs.key_by(lambda t: t[0]).reduce(lambda a, b: (a[0], a[1] + b[1])).uid("counts")


class Gather(KeyedProcessFunction):
    """Emits everything about a key, once it has all its numbers."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.kinds = runtime_context.get_map_state(MapStateDescriptor("kinds", Types.STRING(), Types.LONG()))
        self.number = runtime_context.get_state(ValueStateDescriptor("number", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        self.seen.add(value)
        kind = "even" if value % 2 == 0 else "odd"
        self.kinds.put(kind, (self.kinds.get(kind) or 0) + 1)
        self.number.update((self.number.value() or 0) + 1)
        if self.number.value() == len(range(ctx.get_current_key(), N, KEYS)):
            yield (ctx.get_current_key(), sorted(self.seen.get()), sorted(self.kinds.items()))


def list_and_map(env: StreamExecutionEnvironment, rate: float | None) -> DataStream:
    """Lists and maps of each key."""
    return numbers(env, rate).key_by(lambda x: x % KEYS, Types.LONG()).process(Gather()).uid("gather")


class ApplyRules(KeyedBroadcastProcessFunction):
    """Each number is emitted with the rule of its key, if that has arrived."""

    def process_element(self, value: int, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        yield value, ctx.get_broadcast_state(RULES).get(ctx.get_current_key())

    def process_broadcast_element(self, value: tuple[int, str], ctx: KeyedBroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(RULES).put(value[0], value[1])


def broadcast_rules(env: StreamExecutionEnvironment, rate: float | None) -> DataStream:
    """The rules' source ends long before the numbers' does: after a restore, rules come from state alone."""
    rules = env.from_collection([(key, f"rule {key}") for key in range(KEYS)]).uid("rules").broadcast(RULES)
    keyed = numbers(env, rate).key_by(lambda x: x % KEYS, Types.INT())
    return keyed.connect(rules).process(ApplyRules()).uid("apply")


class Remember(MapFunction, CheckpointedFunction):
    """After a restore, each subtask emits how many records all subtasks had processed before."""

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.union = store.get_union_list_state(ListStateDescriptor("seen by all", Types.LONG()))
        self.own = store.get_list_state(ListStateDescriptor("own", Types.LONG()))
        self.restored = sum(self.union.get()) if context.is_restored() else None
        self.seen = 0

    def snapshot_state(self, context: Any) -> None:
        self.union.update([self.seen])
        self.own.update([self.seen])

    def map(self, value: int) -> Any:
        self.seen += 1
        restored, self.restored = self.restored, None
        return (value, restored)


def union_list(env: StreamExecutionEnvironment, rate: float | None) -> DataStream:
    """(number, None), and (number, total) for the first number of each restored subtask."""
    return numbers(env, rate).rebalance().map(Remember()).uid("remember")


class Join(KeyedCoProcessFunction):
    """Joins each number with its square."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.left = runtime_context.get_state(ValueStateDescriptor("left", Types.LONG()))
        self.right = runtime_context.get_state(ValueStateDescriptor("right", Types.LONG()))

    def process_element1(self, value: int, ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        if self.right.value() is None:
            self.left.update(value)
        else:
            yield value, self.right.value()

    def process_element2(self, value: tuple[int, int], ctx: KeyedCoProcessFunction.Context) -> Iterator[Any]:
        if self.left.value() is None:
            self.right.update(value[1])
        else:
            yield self.left.value(), value[1]


def two_inputs(env: StreamExecutionEnvironment, rate: float | None) -> DataStream:
    """The right side runs backwards, so most numbers wait for their square in state."""
    left = numbers(env, rate).key_by(lambda x: x, Types.LONG())
    right = numbers(env, rate, uid="reversed").map(lambda x: (N - 1 - x, (N - 1 - x) ** 2))
    return left.connect(right.key_by(lambda t: t[0], Types.LONG())).process(Join()).uid("join")


def plain_files(env: StreamExecutionEnvironment, rate: float | None) -> DataStream:
    """The file sink alone."""
    return numbers(env, rate).rebalance().map(lambda x: (x, f"text {x}"))


def timed(env: StreamExecutionEnvironment, rate: float | None, uid: str = "numbers") -> DataStream:
    """The numbers with timestamps: in blocks of 500 with a pause between them."""
    source = DataGeneratorSource(lambda index: index, N, rate, Types.LONG())
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda x, _: x + 1_000 * (x // 500))
    return env.from_source(source, times, uid).uid(uid)


class Shown(WindowFunction):
    """(key, start, end, the window's contents)."""

    def apply(self, key: int, window: Any, inputs: Any) -> Iterator[Any]:
        yield key, window.start, window.end, sorted(inputs)


def tumbling_windows(env: StreamExecutionEnvironment, rate: float | None) -> DataStream:
    """(key, start, end, highest) for each window of 100 ms."""
    keyed = timed(env, rate).key_by(lambda x: x % KEYS, Types.LONG())
    return keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(100))).reduce(max, Shown()).uid("windows")


def session_windows(env: StreamExecutionEnvironment, rate: float | None) -> DataStream:
    """One session for each key and block: the records of a key are 23 ms apart."""
    keyed = timed(env, rate).key_by(lambda x: x % KEYS, Types.LONG())
    return keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(200))).apply(Shown()).uid("sessions")


def column_windows(env: StreamExecutionEnvironment, rate: float | None) -> DataStream:
    """Aggregates over columns, in windows of 200 ms that start every 50 ms and in sessions."""
    kind = Types.ROW_NAMED(["key", "number", "digit"], [Types.LONG(), Types.LONG(), Types.STRING()])
    rows = timed(env, rate).map(lambda x: Row(key=x % KEYS, number=x, digit=str(x % 10)), kind)
    keyed = rows.key_by("key")
    found = (count(), sum_of("number").alias("total"), first("digit"), last("number"), count_distinct("digit"))
    sliding = keyed.window(SlidingEventTimeWindows.of(200, 50)).aggregate(*found).uid("sliding")
    return sliding.union(keyed.window(EventTimeSessionWindows.with_gap(200)).aggregate(*found).uid("column sessions"))


class Quarter(KeyedProcessFunction):
    """How many numbers a key had by the end of each 250 ms."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.times = runtime_context.get_list_state(ListStateDescriptor("times", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> None:
        time = ctx.timestamp()
        assert time is not None
        self.times.add(time)
        ctx.timer_service().register_event_time_timer(time - time % 250 + 249)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield ctx.get_current_key(), timestamp, sum(time <= timestamp for time in self.times.get())


def event_timers(env: StreamExecutionEnvironment, rate: float | None) -> DataStream:
    """(key, time, numbers so far) for each timer, which exists once."""
    return timed(env, rate).key_by(lambda x: x % KEYS, Types.LONG()).process(Quarter()).uid("timers")


class Looked(AsyncFunction[int, Any]):
    """Takes long enough for a barrier to find some calls in flight."""

    async def async_invoke(self, value: int) -> list[Any]:
        await asyncio.sleep(0.05)
        return [(value, value * value)]


def async_calls(env: StreamExecutionEnvironment, rate: float | None) -> DataStream:
    """(number, its square), from calls that savepoints find in flight."""
    moved = numbers(env, rate).rebalance()
    return AsyncDataStream.unordered_wait(moved, Looked(), Time.minutes(10), 200).uid("calls")


class BothQuarters(KeyedCoProcessFunction):
    """How many numbers of each stream a key has at the end of a quarter of a second, when both have arrived so far."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.times = [
            runtime_context.get_list_state(ListStateDescriptor(name, Types.LONG())) for name in ("first", "second")
        ]

    def process_element1(self, value: int, ctx: KeyedCoProcessFunction.Context) -> None:
        self._take(0, ctx)

    def process_element2(self, value: int, ctx: KeyedCoProcessFunction.Context) -> None:
        self._take(1, ctx)

    def _take(self, side: int, ctx: KeyedCoProcessFunction.Context) -> None:
        time = ctx.timestamp()
        assert time is not None
        self.times[side].add(time)
        ctx.timer_service().register_event_time_timer(time - time % 250 + 249)

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterator[Any]:
        counts = [sum(time <= timestamp for time in times.get()) for times in self.times]
        yield ctx.get_current_key(), timestamp, *counts


def connected_timers(env: StreamExecutionEnvironment, rate: float | None) -> DataStream:
    """(key, time, numbers of the first stream, numbers of the second so far); the second stream is the slower one."""
    first, second = timed(env, rate), timed(env, rate and rate / 2, "others")
    connected = first.key_by(lambda x: x % KEYS, Types.LONG()).connect(second.key_by(lambda x: x % KEYS, Types.LONG()))
    return connected.process(BothQuarters()).uid("timers")


def window_join(env: StreamExecutionEnvironment, rate: float | None) -> DataStream:
    """The pairs of each key in windows of 50 ms."""
    joined = timed(env, rate).join(timed(env, rate, "others"))
    keyed = joined.where(lambda x: x % KEYS, Types.LONG()).equal_to(lambda x: x % KEYS)
    return keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(50))).apply(lambda x, y: (x, y)).uid("join")


def window_join_of_pairs(env: StreamExecutionEnvironment, rate: float | None) -> DataStream:
    """The same pairs, of records whose first part is their key: a getter replaces the selectors."""
    streams = [timed(env, rate, uid).map(lambda x: (x % KEYS, x)) for uid in ("numbers", "others")]
    keyed = streams[0].join(streams[1]).where(lambda pair: pair[0], Types.LONG()).equal_to(lambda pair: pair[0])
    windows = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(50)))
    return windows.apply(lambda x, y: (x[1], y[1])).uid("join")


def interval_join(env: StreamExecutionEnvironment, rate: float | None) -> DataStream:
    """Each number with itself, and with the next one of its key, which is 23 ms after it."""
    pairs = [timed(env, rate, uid).map(lambda x: (x % KEYS, x)) for uid in ("numbers", "others")]
    first, second = (stream.key_by(lambda pair: pair[0], Types.LONG()) for stream in pairs)
    bounds = first.interval_join(second).between(Time.milliseconds(-KEYS), Time.milliseconds(KEYS))
    return bounds.lower_bound_exclusive().process(lambda x, y, ctx: [(x[1], y[1], ctx.get_timestamp())]).uid("join")


SHOWN_AT_CHECKPOINTS = (broadcast_rules, union_list)
PIPELINES = (
    keyed_counts, list_and_map, broadcast_rules, union_list, two_inputs, plain_files,
    tumbling_windows, session_windows, column_windows, event_timers, connected_timers, window_join, interval_join,
    window_join_of_pairs, async_calls,
)  # fmt: skip


def main(name: str, output: str, rate: str = "") -> None:
    """Builds and runs a pipeline."""
    env = StreamExecutionEnvironment.get_execution_environment()
    build = {pipeline.__name__: pipeline for pipeline in PIPELINES}[name]
    results = build(env, float(rate) if rate else None)
    policy = RollingPolicy.default_rolling_policy(part_size=1_024)
    if build in SHOWN_AT_CHECKPOINTS:
        policy = RollingPolicy.on_checkpoint_rolling_policy()
    results.sink_to(FileSink.for_json_lines(output).with_rolling_policy(policy)).uid("files")
    env.execute(name)


if __name__ == "__main__":
    main(*sys.argv[1:])
