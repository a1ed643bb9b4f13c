"""Timestamps and watermarks: of streams by `assign_timestamps_and_watermarks`, of sources per split."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from millstream.common import Duration, TimestampAssigner, Watermark, WatermarkGenerator, WatermarkStrategy
from millstream.core.jobs.plan import plan
from millstream.core.records.batches import LAST_WATERMARK, ColumnBatch, RowBatch, WatermarkStatus
from millstream.core.records.types import from_hint
from millstream.taskmanager.testing import OperatorHarness
from millstream.taskmanager.worker.operators.base import OperatorError

MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps()
PAIR = from_hint(tuple[str, int])


@dataclass
class Event:
    name: str
    at: dt.datetime


def harness(strategy: WatermarkStrategy, kind: Any = PAIR) -> OperatorHarness:
    made = OperatorHarness(plan.TimestampsSpec(strategy), kind).open()
    made.advance()
    return made


def signals(made: OperatorHarness) -> list[Any]:
    return [element for element in made.out.elements if not isinstance(element, RowBatch | ColumnBatch)]


def test_a_field_is_the_timestamp_and_the_highest_one_advances_the_watermark() -> None:
    made = harness(WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5)).with_timestamp_field(1))
    made.process(RowBatch([("a", 10), ("b", 30), ("c", 20)]))
    assert list(made.out.batches[0].timestamps) == [10, 30, 20]
    assert signals(made) == []
    assert made.advance(0.2) == pytest.approx(0.2)
    assert signals(made) == [Watermark(24)]
    made.process(RowBatch([("d", 25)]))
    made.advance(0.2)
    assert signals(made) == [Watermark(24)], "time does not go back, and is not emitted twice"


def test_points_in_time_and_columns_are_converted_to_milliseconds() -> None:
    zone = dt.timezone(dt.timedelta(hours=1))
    made = harness(MONOTONOUS.with_timestamp_field("at"), from_hint(Event))
    moments = [dt.datetime(1970, 1, 1, 1, 0, 1, 5000, zone), dt.datetime(1970, 1, 2)]
    made.process(RowBatch([Event("a", moment) for moment in moments]))
    assert list(made.out.batches[0].timestamps) == [1005, 86_400_000]
    columns = harness(MONOTONOUS.with_timestamp_field("f1"))
    times = pa.array([1_500_000, 7], pa.timestamp("us"))
    columns.process(ColumnBatch(pa.record_batch({"f0": ["a", "b"], "f1": times})))
    assert columns.out.batches[0].timestamps.to_pylist() == [1500, 0]
    columns.advance(0.2)
    assert signals(columns) == [Watermark(1499)]


def test_an_assigner_gets_the_previous_timestamp_of_the_record() -> None:
    class Later(TimestampAssigner):
        def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
            return record_timestamp + int(value[1])

    made = harness(MONOTONOUS.with_timestamp_assigner(Later()))
    made.process(RowBatch([("a", 1), ("b", 2)], [100, 200]))
    assert list(made.out.batches[0].timestamps) == [101, 202]
    lambdas = harness(MONOTONOUS.with_timestamp_assigner(lambda value, _: value[1]))
    lambdas.process(RowBatch([("a", 1), ("b", np.int64(7))]))
    assert list(lambdas.out.batches[0].timestamps) == [1, 7]


@pytest.mark.parametrize(
    "strategy", [MONOTONOUS.with_timestamp_field(1), MONOTONOUS.with_timestamp_assigner(lambda v, _: v[1])]
)
def test_an_invalid_timestamp_fails_with_its_record(strategy: WatermarkStrategy) -> None:
    made = harness(strategy, from_hint(tuple[str, Any]))
    with pytest.raises(OperatorError) as caught:
        made.process(RowBatch([("a", 1), ("b", None), ("c", 2)]))
    assert caught.value.record == ("b", None)


@pytest.mark.parametrize("time", [True, 1.5, None, 1 << 63])
def test_only_integers_of_64_bits_are_timestamps(time: Any) -> None:
    made = harness(MONOTONOUS.with_timestamp_field(1), from_hint(tuple[str, Any]))
    with pytest.raises(OperatorError) as caught:
        made.process(RowBatch([("a", 1), ("b", time), ("c", 2)]))
    assert caught.value.record == ("b", time)


def test_a_custom_generator_is_punctuated_or_periodic() -> None:
    class Marks(WatermarkGenerator):
        def on_event(self, event: Any, event_timestamp: int, output: Any) -> None:
            if event[0] == "mark":
                output.emit_watermark(Watermark(event_timestamp))
            elif event[0] == "idle":
                output.mark_idle()

        def on_periodic_emit(self, output: Any) -> None:
            output.emit_watermark(Watermark(1000))

    made = harness(WatermarkStrategy.for_generator(lambda ctx: Marks()).with_timestamp_field(1))
    made.process(RowBatch([("a", 1), ("mark", 5), ("idle", 6), ("mark", 7)]))
    status = WatermarkStatus(True), WatermarkStatus(False)
    assert signals(made) == [Watermark(5), *status, Watermark(7)]
    made.advance(0.2)
    assert signals(made)[-1] == Watermark(1000)


def test_a_stream_without_records_becomes_idle_and_active_with_the_next_record() -> None:
    made = harness(MONOTONOUS.with_timestamp_field(1).with_idleness(Duration.of_seconds(1)))
    made.process(RowBatch([("a", 10)]))
    for _ in range(5):
        made.advance(0.2)
    assert signals(made) == [Watermark(9)]
    made.advance(0.2)
    assert signals(made) == [Watermark(9), WatermarkStatus(True)]
    made.process(RowBatch([("a", 20)]))
    made.advance(0.2)
    assert signals(made)[2:] == [WatermarkStatus(False), Watermark(19)]


def test_watermarks_of_the_input_are_dropped_except_for_the_end() -> None:
    made = harness(MONOTONOUS.with_timestamp_field(1))
    made.signal(Watermark(5))
    made.signal(WatermarkStatus(True))
    made.signal(LAST_WATERMARK)
    assert signals(made) == [LAST_WATERMARK]
