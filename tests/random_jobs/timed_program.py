"""The event-time parts of random jobs, as programs: windows, timers and joins with their own sources."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import random_oracle as oracle
import timed_oracle as timed
from random_plans import Node

from millstream.common import Duration, Time, Types, WatermarkStrategy
from millstream.datastream import (
    AggregateFunction,
    AsyncDataStream,
    AsyncFunction,
    DataStream,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessWindowFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from millstream.datastream.aggregates import count
from millstream.datastream.aggregates import sum as total
from millstream.datastream.connectors.datagen import ColumnDataGeneratorSource, DataGeneratorSource
from millstream.datastream.state import ListStateDescriptor
from millstream.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
KEY_TYPES = {"text": Types.STRING(), "pair": Types.TUPLE([Types.LONG(), Types.STRING()])}


class TimedParts:
    """`inner` sets what an operator needs that a node has in addition to the one with its name."""

    def __init__(
        self, env: StreamExecutionEnvironment, node: Node, inner: Callable[[DataStream, str], DataStream]
    ) -> None:
        self._env = env
        self._node = node
        self._inner = inner
        self._key = partial(oracle.key_of, node.settings)
        self._type = PAIR if node.typed else None
        self._key_type = KEY_TYPES.get(node.settings["key"], Types.LONG()) if node.typed else None

    def build(self) -> DataStream:
        """The operator of the node's kind, after its sources."""
        made: DataStream = getattr(self, f"_{self._node.kind}")()
        return made

    def _source(self, side: int) -> DataStream:
        settings = self._node.settings["sources"][side]
        count, rate, first = settings["count"], settings["count"] / settings["seconds"], settings["first"]
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(timed.DISORDER))
        strategy = strategy.with_timestamp_assigner(lambda record, _: timed.time_of(first, record))
        source: Any = DataGeneratorSource(lambda index: oracle.source(settings, index), count, rate, PAIR)
        if settings["form"] == "columns":
            source = ColumnDataGeneratorSource(partial(columns, settings), count, rate, 40, PAIR)
        stream = self._inner(self._env.from_source(source, strategy, f"source {side}"), f"source-{side}")
        if settings["asked"]:
            stream = self._inner(awaited(stream, lambda record: [tuple(record)], settings, PAIR), f"asked-{side}")
        if not settings["millis"]:
            return stream
        pause = settings["millis"] / 1000
        slow = stream.rebalance().map(lambda record: (time.sleep(pause), tuple(record))[1], self._type)
        return self._inner(slow, f"slow-{side}")

    def _keyed(self, side: int = 0) -> Any:
        return self._source(side).key_by(self._key, self._key_type)

    def _assigner(self) -> Any:
        settings = self._node.settings
        size, slide = Time.milliseconds(settings["size"]), Time.milliseconds(settings["slide"])
        match settings["window"]:
            case "sliding":
                return SlidingEventTimeWindows.of(size, slide)
            case "session":
                return EventTimeSessionWindows.with_gap(size)
        return TumblingEventTimeWindows.of(size)

    def _windows(self) -> DataStream:
        if self._node.settings["form"] == "columns":
            return self._column_windows()
        windowed = self._keyed().window(self._assigner()).allowed_lateness(self._node.settings["lateness"])
        if self._node.settings["form"] == "aggregate":
            made: DataStream = windowed.aggregate(Total(), Show(self._node.name), PAIR, self._type)
        else:
            made = windowed.process(Show(self._node.name), self._type)
        return made

    def _column_windows(self) -> DataStream:
        """The columns of the key, two for a pair, and the id; at the end the key is one value again."""
        name, key, kind = self._node.name, self._key, self._node.settings["key"]
        pair = kind == "pair"
        types = [Types.LONG(), Types.STRING()] if pair else [KEY_TYPES.get(kind, Types.LONG())]
        keys = [f"f{number}" for number in range(len(types))]

        def spread(record: Any) -> tuple[Any, ...]:
            return (*key(record), record[0]) if pair else (key(record), record[0])

        def shown(row: Any) -> oracle.Record:
            values = list(row)
            own = tuple(values[:2]) if pair else values[0]
            return timed.of_total(name, own, tuple(values[-2:]), *values[-4:-2])

        spread_out = self._source(0).map(spread, Types.TUPLE([*types, Types.LONG()]))
        keyed = self._inner(spread_out, "spread").key_by(keys).window(self._assigner())
        totals = keyed.allowed_lateness(self._node.settings["lateness"]).aggregate(count(), total(f"f{len(keys)}"))
        return self._inner(totals, "totals").map(shown, self._type)

    def _pairs(self, joined: Any) -> Any:
        keyed = joined.where(self._key, self._key_type).equal_to(self._key)
        return keyed.window(self._assigner()).allowed_lateness(self._node.settings["lateness"])

    def _window_join(self) -> DataStream:
        made: DataStream = self._pairs(self._source(0).join(self._source(1))).apply(
            lambda one, two: oracle.joined(tuple(one), tuple(two)), self._type
        )
        return made

    def _co_group(self) -> DataStream:
        name = self._node.name

        def together(first: Any, second: Any) -> Iterator[oracle.Record]:
            yield timed.of_window(name, None, (0, 0), [r[0] for r in first], [r[0] for r in second])

        made: DataStream = self._pairs(self._source(0).co_group(self._source(1))).apply(together, self._type)
        return made

    def _interval_join(self) -> DataStream:
        settings = self._node.settings
        joined = self._keyed(0).interval_join(self._keyed(1)).between(settings["lower"], settings["upper"])
        made: DataStream = joined.process(lambda one, two, ctx: [oracle.joined(tuple(one), tuple(two))], self._type)
        return made

    def _timers(self) -> DataStream:
        if len(self._node.settings["sources"]) == 2:
            made: DataStream = self._keyed(0).connect(self._keyed(1)).process(CoTimers(self._node), self._type)
        else:
            made = self._keyed().process(Timers(self._node), self._type)
        return made


def awaited(
    stream: DataStream, function: Callable[[Any], list[Any]], settings: dict[str, Any], kind: Any
) -> DataStream:
    """The results of an asynchronous function for each record, ordered or unordered."""
    wait = AsyncDataStream.ordered_wait if settings["asked"] == "ordered" else AsyncDataStream.unordered_wait
    return wait(stream, Slow(function), Time.minutes(5), settings["capacity"], kind)


class Slow(AsyncFunction):
    """Some results take longer than others."""

    def __init__(self, function: Callable[[Any], list[Any]]) -> None:
        self._function = function

    async def async_invoke(self, value: Any) -> list[Any]:
        if late := oracle.mix(value[0]) % 4:
            await asyncio.sleep(late / 1000)
        return self._function(value)


def columns(settings: dict[str, Any], start: int, count: int) -> Any:
    """Some records of a source, as columns."""
    records = [oracle.source(settings, index) for index in range(start, start + count)]
    return {"f0": [record[0] for record in records], "f1": [record[1] for record in records]}


class Total(AggregateFunction):
    """Counts and sums ids."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Any, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + 1, accumulator[1] + value[0]

    def get_result(self, accumulator: tuple[int, int]) -> tuple[str, int, int]:
        return "total", *accumulator

    def merge(self, acc1: tuple[int, int], acc2: tuple[int, int]) -> tuple[int, int]:
        return acc1[0] + acc2[0], acc1[1] + acc2[1]


class Show(ProcessWindowFunction):
    """The contents of a window: its records, or their aggregate."""

    def __init__(self, name: str) -> None:
        self._name = name

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        window, found = (context.window().start, context.window().end), list(elements)
        if found[0][0] == "total":
            yield timed.of_total(self._name, key, window, *found[0][1:])
        else:
            yield timed.of_window(self._name, key, window, [record[0] for record in found])


class _Timing:
    """Counts the records of a key by their time, and emits the count when a timer fires."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def open(self, runtime_context: RuntimeContext) -> None:
        self._times = runtime_context.get_list_state(ListStateDescriptor("times", Types.LONG()))

    def take(self, ctx: Any) -> None:
        self._times.add(ctx.timestamp())
        ctx.timer_service().register_event_time_timer(timed.due_after(self._node.settings, ctx.timestamp()))

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        count = sum(time <= timestamp for time in self._times.get())
        yield timed.of_timer(self._node.name, ctx.get_current_key(), timestamp, count)


class Timers(_Timing, KeyedProcessFunction):
    """Timers of one stream."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        self.take(ctx)


class CoTimers(_Timing, KeyedCoProcessFunction):
    """Timers of two streams."""

    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> None:
        self.take(ctx)

    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> None:
        self.take(ctx)
