"""What a worker reports of its tasks' event time, windows and commits, so that it can be said what they wait for."""

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
    return list(rig.said(TaskMetricsReport)[-1].tasks)


def test_a_valve_names_the_slowest_that_are_not_idle_and_since_when_they_are_there() -> None:
    valve = WatermarkValve("abcdef", at=1)
    for at, (channel, timestamp) in enumerate(zip("abcde", (50, 10, 40, 20, 30), strict=True), 2):
        valve.watermark(channel, timestamp, at)
    valve.status("b", True, 9)

    def named(channel: Any, stream: StreamTime) -> StreamTime:
        return StreamTime(channel, stream.watermark, stream.moved_at, idle=stream.idle)

    told = valve.progress(named)
    assert (told.watermark, told.idle, told.highest) == (MIN_TIMESTAMP, False, 50)
    assert (told.streams, told.idle_streams) == (6, 1)
    assert told.slowest == (
        StreamTime("f", MIN_TIMESTAMP, 1), StreamTime("d", 20, 5), StreamTime("e", 30, 6), StreamTime("c", 40, 4),
    )  # fmt: skip
    for channel in "acdef":
        valve.status(channel, True, 10)
    told = valve.progress(named)
    assert (told.idle, told.watermark, told.slowest[0]) == (True, 50, StreamTime("f", MIN_TIMESTAMP, 10, idle=True))


def test_a_task_reports_its_channels_and_flinks_two_watermarks(rig: WorkerRig) -> None:
    _, gate = local_pair(rig, 5)
    output, _ = local_pair(rig, 6)
    task = rig.task(chain(MapSpec(lambda value: value), outputs=1), [gate], [output])
    rig.deploy(task)
    (told,) = report(rig)
    assert (told.metrics.input_watermark, told.metrics.output_watermark) == (MIN_TIMESTAMP, MIN_TIMESTAMP)
    rig.channel(5).put(Watermark(7))
    rig.worker.turn()
    at = rig.clock.now_ms()
    (told,) = report(rig)
    assert (told.metrics.input_watermark, told.metrics.output_watermark) == (7, 7)
    assert told.metrics.alignment_drift_ms is None
    assert told.progress.inputs == EventTime(7, False, 1, 0, 7, (StreamTime("producer of 5", 7, at),))
    rig.channel(5).put(WatermarkStatus(True))
    (told,) = report(rig)
    assert told.progress.inputs is not None
    assert told.progress.inputs.idle


def test_a_source_reports_how_far_its_splits_are_or_that_it_makes_no_watermarks(rig: WorkerRig) -> None:
    stamped = rig.task(chain(SourceSpec(RowsSource([10, 30], waits=True), STAMPED), SinkSpec(NamedSink("a"))))
    plain = rig.task(chain(SourceSpec(RowsSource([1], waits=True)), SinkSpec(NamedSink("b"))))
    began = rig.clock.now_ms()
    rig.deploy(stamped, plain)
    for _ in range(3):
        report(rig)
    first, second = report(rig)
    (origin,) = (told.kind for told in first.progress.operators)
    assert isinstance(origin, WatermarkOrigin)
    (stream,) = origin.time.slowest
    assert (stream.watermark, origin.time.watermark, origin.makes_watermarks) == (29, 29, True)
    assert began <= stream.record_at <= stream.moved_at < rig.clock.now_ms()
    assert first.metrics.input_watermark is None
    assert second.progress.operators == (
        OperatorProgress("op 0", WatermarkOrigin(makes_watermarks=False)),
    )  # fmt: skip


def test_an_operator_that_has_emitted_nothing_says_so_and_one_that_has_does_not(rig: WorkerRig) -> None:
    numbers = SourceSpec(RowsSource([1, 2, 3], waits=True))
    even, none = (FilterSpec(lambda value, base=base: value % base == 0) for base in (2, 5))
    rig.deploy(rig.task(chain(numbers, even, none, MapSpec(abs), SinkSpec(NamedSink("c")))))
    for _ in range(3):
        report(rig)
    (told,) = report(rig)
    assert told.progress.operators[1:] == (
        OperatorProgress("op 2", NonePassed(1)),
        OperatorProgress("op 3", NonePassed(0)),
    )
