"""What a worker reports about event time, windows and commits of its tasks, which shows what they wait for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from worker_rig import NamedSink, RowsSource, WorkerRig, chain, local_pair

from millstream.common import WatermarkStrategy
from millstream.core.jobs.plan.plan import FilterSpec, MapSpec, SinkSpec, SourceSpec
from millstream.core.jobs.progress import EventTime, NonePassed, OperatorProgress, StreamTime, WatermarkOrigin
from millstream.core.messages.task_manager import AttemptMetrics, TaskMetricsReport
from millstream.core.records.batches import MIN_TIMESTAMP, Watermark, WatermarkStatus
from millstream.taskmanager.worker.tasks.watermark_valve import WatermarkValve

STAMPED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)


@pytest.fixture
def rig() -> Iterator[WorkerRig]:
    made = WorkerRig()
    yield made
    made.close()


def report(rig: WorkerRig) -> list[AttemptMetrics]:
    rig.clock.advance(1)
    rig.worker.turn()
    return list(rig.messages(TaskMetricsReport)[-1].tasks)


def test_a_valve_reports_the_slowest_active_channels_and_since_when() -> None:
    valve = WatermarkValve("abcdef", at=1)
    for at, (channel, timestamp) in enumerate(zip("abcde", (50, 10, 40, 20, 30), strict=True), 2):
        valve.watermark(channel, timestamp, at)
    valve.status("b", True, 9)

    def named(channel: Any, stream: StreamTime) -> StreamTime:
        return StreamTime(channel, stream.watermark, stream.moved_at, idle=stream.idle)

    reported = valve.progress(named)
    assert (reported.watermark, reported.idle, reported.highest) == (MIN_TIMESTAMP, False, 50)
    assert (reported.streams, reported.idle_streams) == (6, 1)
    assert reported.slowest == (
        StreamTime("f", MIN_TIMESTAMP, 1), StreamTime("d", 20, 5), StreamTime("e", 30, 6), StreamTime("c", 40, 4),
    )  # fmt: skip
    for channel in "acdef":
        valve.status(channel, True, 10)
    reported = valve.progress(named)
    slowest = StreamTime("f", MIN_TIMESTAMP, 10, idle=True)
    assert (reported.idle, reported.watermark, reported.slowest[0]) == (True, 50, slowest)


def test_a_task_reports_its_channels_and_flinks_two_watermarks(rig: WorkerRig) -> None:
    _, gate = local_pair(rig, 5)
    output, _ = local_pair(rig, 6)
    task = rig.task(chain(MapSpec(lambda value: value), outputs=1), [gate], [output])
    rig.deploy(task)
    (reported,) = report(rig)
    assert (reported.metrics.input_watermark, reported.metrics.output_watermark) == (MIN_TIMESTAMP, MIN_TIMESTAMP)
    rig.channel(5).put(Watermark(7))
    rig.worker.turn()
    at = rig.clock.now_ms()
    (reported,) = report(rig)
    assert (reported.metrics.input_watermark, reported.metrics.output_watermark) == (7, 7)
    assert reported.metrics.alignment_drift_ms is None
    assert reported.progress.inputs == EventTime(7, False, 1, 0, 7, (StreamTime("producer of 5", 7, at),))
    rig.channel(5).put(WatermarkStatus(True))
    (reported,) = report(rig)
    assert reported.progress.inputs is not None
    assert reported.progress.inputs.idle


def test_a_source_reports_the_progress_of_its_splits_or_that_it_makes_no_watermarks(rig: WorkerRig) -> None:
    stamped = rig.task(chain(SourceSpec(RowsSource([10, 30], waits=True), STAMPED), SinkSpec(NamedSink("a"))))
    plain = rig.task(chain(SourceSpec(RowsSource([1], waits=True)), SinkSpec(NamedSink("b"))))
    began = rig.clock.now_ms()
    rig.deploy(stamped, plain)
    for _ in range(3):
        report(rig)
    first, second = report(rig)
    (origin,) = (reported.kind for reported in first.progress.operators)
    assert isinstance(origin, WatermarkOrigin)
    (stream,) = origin.time.slowest
    assert (stream.watermark, origin.time.watermark, origin.makes_watermarks) == (29, 29, True)
    assert began <= stream.record_at <= stream.moved_at < rig.clock.now_ms()
    assert first.metrics.input_watermark is None
    assert second.progress.operators == (
        OperatorProgress("op 0", WatermarkOrigin(makes_watermarks=False)),
    )  # fmt: skip


def test_only_an_operator_that_has_emitted_nothing_reports_progress(rig: WorkerRig) -> None:
    numbers = SourceSpec(RowsSource([1, 2, 3], waits=True))
    even, none = (FilterSpec(lambda value, base=base: value % base == 0) for base in (2, 5))
    rig.deploy(rig.task(chain(numbers, even, none, MapSpec(abs), SinkSpec(NamedSink("c")))))
    for _ in range(3):
        report(rig)
    (reported,) = report(rig)
    assert reported.progress.operators[1:] == (
        OperatorProgress("op 2", NonePassed(1)),
        OperatorProgress("op 3", NonePassed(0)),
    )
