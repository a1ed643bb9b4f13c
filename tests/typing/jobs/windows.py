"""Event time and windows: process, reduce, aggregate, apply, late records, side outputs, triggers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from millstream.common import Duration, Row, Time, Types, Watermark, WatermarkStrategy
from millstream.common.watermark_strategy import TimestampAssigner, WatermarkGenerator, WatermarkOutput
from millstream.datastream import DataStream, OutputTag, StreamExecutionEnvironment
from millstream.datastream.aggregates import count, sum
from millstream.datastream.functions import (
    AggregateFunction,
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from millstream.datastream.state import ReducingStateDescriptor, ValueStateDescriptor
from millstream.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TimeWindow,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)


@dataclass
class Reading:
    sensor: str
    value: float
    at: int


LATE: OutputTag[Reading] = OutputTag("late", Reading)


class ReadingTime(TimestampAssigner):
    def extract_timestamp(self, value: Reading, record_timestamp: int) -> int:
        return value.at


class Punctuated(WatermarkGenerator[Reading]):
    def on_event(self, event: Reading, event_timestamp: int, output: WatermarkOutput) -> None:
        output.emit_watermark(Watermark(event_timestamp - 1))

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        pass


class Mean(AggregateFunction[Reading, tuple[float, int], float]):
    def create_accumulator(self) -> tuple[float, int]:
        return 0.0, 0

    def add(self, value: Reading, accumulator: tuple[float, int]) -> tuple[float, int]:
        return accumulator[0] + value.value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[float, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[float, int], acc_b: tuple[float, int]) -> tuple[float, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Highest(ReduceFunction[Reading]):
    def reduce(self, value1: Reading, value2: Reading) -> Reading:
        return value1 if value1.value >= value2.value else value2


class WithWindow(ProcessWindowFunction[float, tuple[str, int, float], str, TimeWindow]):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[float]
    ) -> Iterator[tuple[str, int, float]]:
        seen = context.global_state().get_state(ValueStateDescriptor("seen", Types.LONG()))
        seen.update((seen.value() or 0) + 1)
        for mean in elements:
            yield key, context.window().start, mean

    def clear(self, context: ProcessWindowFunction.Context[TimeWindow]) -> None:
        context.window_state().get_state("unused", int).clear()


class WithoutTypes(ProcessWindowFunction):
    def process(
        self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Reading]
    ) -> Iterable[Any]:
        yield Row(key, context.window().end, context.current_watermark(), len(list(elements)))


class CountApplied(WindowFunction[Reading, tuple[str, int], str, TimeWindow]):
    def apply(self, key: str, window: TimeWindow, inputs: Iterable[Reading]) -> list[tuple[str, int]]:
        return [(key, len(list(inputs)))]


class CountAll(ProcessAllWindowFunction[Reading, int, TimeWindow]):
    def process(
        self, context: ProcessAllWindowFunction.Context[TimeWindow], elements: Iterable[Reading]
    ) -> Iterable[int]:
        yield context.window().max_timestamp()


class LastOfAll(AllWindowFunction[Reading, Reading, TimeWindow]):
    def apply(self, window: TimeWindow, inputs: Iterable[Reading]) -> Iterable[Reading]:
        return [list(inputs)[-1]]


class Early(Trigger[Reading, TimeWindow]):
    def on_element(
        self, element: Reading, timestamp: int, window: TimeWindow, ctx: Trigger.TriggerContext
    ) -> TriggerResult:
        added = ctx.get_partitioned_state(ReducingStateDescriptor("count", lambda a, b: a + b, Types.LONG()))
        added.add(1)
        return TriggerResult.FIRE if added.get() == 10 else TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE_AND_PURGE

    def clear(self, window: TimeWindow, ctx: Trigger.TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())


def timed(env: StreamExecutionEnvironment) -> DataStream[Reading]:
    readings = env.from_collection([Reading("a", 1.0, 0)], type_info=Reading)
    by_class = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5)).with_timestamp_assigner(
        ReadingTime()
    )
    by_lambda = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda reading, _: reading.at)
    generated = WatermarkStrategy.for_generator(lambda context: Punctuated())
    readings.assign_timestamps_and_watermarks(generated.with_idleness(Duration.of_seconds(1))).print()
    readings.assign_timestamps_and_watermarks(by_class).print()
    return readings.assign_timestamps_and_watermarks(by_lambda)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = timed(env)
    keyed = stream.key_by(lambda reading: reading.sensor)
    tumbling = keyed.window(TumblingEventTimeWindows.of(Time.minutes(1)))
    means = tumbling.allowed_lateness(1000).side_output_late_data(LATE).aggregate(Mean(), WithWindow())
    means.map(lambda found: f"{found[0]} {found[1] // 1000} {found[2]:.2f}").print()
    means.get_side_output(LATE).map(lambda reading: reading.sensor.upper()).print()
    tumbling.aggregate(
        Mean(),
        window_function=WithWindow(),
        accumulator_type=Types.TUPLE([Types.DOUBLE(), Types.LONG()]),
        output_type=Types.TUPLE([Types.STRING(), Types.LONG(), Types.DOUBLE()]),
    ).print()
    tumbling.aggregate(count(), sum("value").alias("total")).map(lambda row: row.total).print()
    tumbling.reduce(Highest()).map(lambda reading: reading.value).print()
    tumbling.reduce(lambda a, b: a if a.at > b.at else b, lambda key, window, latest: [(key, window.end)]).print()
    tumbling.process(WithoutTypes(), Types.ROW([Types.STRING(), Types.LONG(), Types.LONG(), Types.INT()])).print()
    tumbling.apply(CountApplied()).filter(lambda counted: counted[1] > 2).print()
    keyed.window(SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(5))).trigger(Early()).process(
        WithoutTypes()
    ).print()
    keyed.window(EventTimeSessionWindows.with_gap(Time.seconds(30))).max("value").print()
    keyed.count_window(10, 2).reduce(lambda a, b: b).print()
    stream.window_all(TumblingProcessingTimeWindows.of(Time.seconds(1))).process(CountAll()).print()
    stream.window_all(TumblingEventTimeWindows.of(Time.seconds(1))).trigger(CountTrigger.of(3)).apply(
        LastOfAll()
    ).print()
    stream.count_window_all(100).apply(lambda window, readings: [len(list(readings))]).print()
    env.execute()


if __name__ == "__main__":
    main()
