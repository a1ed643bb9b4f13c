"""Whole jobs in batch mode, compared with the result of the same program in streaming mode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from millstream.common import Configuration, Time, Types, WatermarkStrategy
from millstream.datastream import DataStream, KeyedProcessFunction, RuntimeExecutionMode, StreamExecutionEnvironment
from millstream.datastream.state import ValueStateDescriptor
from millstream.datastream.window import TumblingEventTimeWindows

pytestmark = pytest.mark.process

MANY, KEYS = 250_000, 7  # more than a task holds in memory


def environment(mode: RuntimeExecutionMode, parallelism: int = 2) -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration({"execution.local.in-process": "true"}))
    env.set_parallelism(parallelism)
    return env.set_runtime_mode(mode)


def collected(stream: DataStream) -> list[Any]:
    with stream.execute_and_collect() as results:
        return list(results)


class Numbered(KeyedProcessFunction):
    """Counts the records of a key, which have to be ordered by time, and emits the count at its end."""

    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: int, ctx: Any) -> Iterator[tuple[int, int, int]]:
        last = self.last.value()
        assert last is None or last < ctx.timestamp()
        self.last.update(ctx.timestamp())
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(MANY)
        yield ctx.get_current_key(), 1, 0

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[int, int, int]]:
        yield ctx.get_current_key(), 0, self.count.value()


def test_more_records_than_fit_into_memory_are_processed_key_by_key_in_the_order_of_time() -> None:
    env = environment(RuntimeExecutionMode.BATCH)
    backwards = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: MANY - n)
    numbers = env.from_sequence(1, MANY).assign_timestamps_and_watermarks(backwards)
    sent: Counter[int] = Counter()
    counted: dict[int, int] = {}
    for key, one, count in collected(numbers.key_by(lambda n: n % KEYS).process(Numbered())):
        assert key not in counted
        sent[key] += one
        if count:
            counted[key] = count
    assert counted == sent == Counter(n % KEYS for n in range(1, MANY + 1))


def test_an_aggregation_has_one_result_for_each_key() -> None:
    pairs = [("a", 1), ("b", 2), ("a", 3), ("c", 4), ("b", 5)]
    env = environment(RuntimeExecutionMode.BATCH)
    typed = env.from_collection(pairs, Types.ROW([Types.STRING(), Types.INT()]))
    sums = collected(typed.key_by(lambda row: row[0]).sum(1))
    assert sorted(map(tuple, sums)) == [("a", 4), ("b", 7), ("c", 4)]


def test_windows_in_batch_mode_are_those_of_the_stream_without_its_late_records() -> None:
    def windows(mode: RuntimeExecutionMode, late: int) -> list[Any]:
        env = environment(mode)
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(late).with_timestamp_assigner(
            lambda n, _: n * 37 % 1_000
        )
        numbers = env.from_sequence(1, 2_000).assign_timestamps_and_watermarks(strategy)
        windowed = numbers.key_by(lambda n: n % 3).window(TumblingEventTimeWindows.of(Time.milliseconds(100)))
        return sorted(collected(windowed.reduce(lambda a, b: a + b)))

    assert windows(RuntimeExecutionMode.BATCH, 0) == windows(RuntimeExecutionMode.STREAMING, 10_000)
