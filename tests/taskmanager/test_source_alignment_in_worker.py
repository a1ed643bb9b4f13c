"""Sources that wait for others of their alignment group, and which silence of a stream counts as idleness."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from worker_rig import ALLOCATION, WRITTEN, NamedSink, RowsSource, WorkerRig, chain, local_pair, written

from millstream.common import Duration, WatermarkStrategy
from millstream.core.jobs.plan.plan import SinkSpec, SourceSpec, TimestampsSpec
from millstream.core.jobs.progress import AlignmentStatus, WatermarkOrigin
from millstream.core.messages.deployment import ResultPartition, TaskDeployment
from millstream.core.messages.sources import Custom, NoMoreSplits, Splits, WatermarkLimit, WatermarkReport
from millstream.core.messages.task_manager import TaskMetricsReport
from millstream.core.pickling import to_bytes
from millstream.core.records.batches import MAX_TIMESTAMP, Batch, RowBatch, Watermark, WatermarkStatus
from millstream.datastream.connectors.base import PollStatus, Source, SourceReader, SourceReaderContext
from millstream.datastream.connectors.hybrid.messages import HybridSplit, NoMore
from millstream.datastream.connectors.hybrid_source import HybridSource
from millstream.datastream.connectors.index_split import IndexSplit
from millstream.datastream.connectors.number_sequence import NumberSequenceSource

TIMES = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])
ALIGNED = TIMES.with_watermark_alignment("g", Duration.of_millis(100), Duration.of_millis(50))
TICK = 0.2  # seconds: `pipeline.auto-watermark-interval`


@pytest.fixture
def rig() -> Iterator[WorkerRig]:
    made = WorkerRig()
    yield made
    made.close()


def tick(rig: WorkerRig, times: int = 1) -> None:
    """The interval of watermarks passes, with a poll before and after."""
    for _ in range(times):
        rig.clock.advance(TICK)
        rig.worker.turn()


def limit(rig: WorkerRig, task: TaskDeployment, watermark: int) -> None:
    rig.post(WatermarkLimit(ALLOCATION, task.attempt_id, watermark))


def reported(rig: WorkerRig) -> list[int]:
    return [report.watermark for report in rig.messages(WatermarkReport)]


def last_report(rig: WorkerRig) -> Any:
    rig.clock.advance(0.01)
    rig.worker.turn()
    (report,) = rig.messages(TaskMetricsReport)[-1].tasks
    return report


def test_a_source_ahead_of_its_group_waits_until_it_may_continue(rig: WorkerRig) -> None:
    rows = [("a", 1000 * n) for n in range(1, 6)]
    task = rig.task(chain(SourceSpec(RowsSource(rows, waits=True, batch=1), ALIGNED), SinkSpec(NamedSink("ahead"))))
    rig.deploy(task)
    tick(rig, 3)
    report = rig.messages(WatermarkReport)[-1]
    assert (report.attempt_id, report.group, report.max_drift_ms) == (task.attempt_id, "g", 100)
    reached = report.watermark
    assert reached >= 999, "there is no limit yet"
    read = len(WRITTEN["ahead"])
    limit(rig, task, reached - 1)
    tick(rig, 5)
    assert len(WRITTEN["ahead"]) == read < len(rows), "it waits"
    assert reported(rig)[-1] >= reached, "and still reports its progress"
    limit(rig, task, MAX_TIMESTAMP)
    rig.turn_until(lambda: len(WRITTEN["ahead"]) == len(rows), turns=6)
    rig.send_event(task, NoMoreSplits())
    rig.turn_until(rig.ended(task))
    assert reported(rig)[-1] == MAX_TIMESTAMP, "a source at its end holds nothing back"


def test_a_waiting_source_is_neither_idle_nor_backpressured_and_reports_the_reason(rig: WorkerRig) -> None:
    strategy = ALIGNED.with_idleness(Duration.of_seconds(1))
    source = SourceSpec(RowsSource([("a", 1000), ("b", 5000)], waits=True, batch=1), strategy)
    task = rig.task(chain(source, SinkSpec(NamedSink("waits"))))
    rig.deploy(task)
    tick(rig, 4)
    limit(rig, task, 500)
    rig.worker.turn()
    before, since = last_report(rig).metrics, rig.clock.now_ms()
    tick(rig, 30)
    assert WRITTEN["waits"] == [("a", 1000), ("b", 5000)]
    assert MAX_TIMESTAMP not in reported(rig), "it was not reported as idle"
    report = last_report(rig)
    assert report.metrics.paused_ms - before.paused_ms == 6010
    assert (report.metrics.idle_ms, report.metrics.backpressured_ms) == (before.idle_ms, before.backpressured_ms)
    assert report.metrics.alignment_drift_ms == 4999 - 400
    (origin,) = (o.kind for o in report.progress.operators if isinstance(o.kind, WatermarkOrigin))
    assert isinstance(origin.alignment, AlignmentStatus)
    assert (origin.alignment.group, origin.alignment.limit) == ("g", 500)
    assert since - 1000 <= origin.alignment.paused_since <= since
    limit(rig, task, MAX_TIMESTAMP)
    tick(rig, 7)
    assert reported(rig)[-1] == MAX_TIMESTAMP, "its silence counts from here on"


class Splits2Source(RowsSource):
    """Two splits that are read alternately, and can be paused."""

    def create_reader(self, context: SourceReaderContext) -> SourceReader[Any]:
        return Splits2Reader()


PAUSES: list[tuple[list[str], list[str]]] = []


class Splits2Reader(SourceReader[Any]):
    def __init__(self) -> None:
        self._times = {"slow": 0, "fast": 0}
        self._steps = {"slow": 10, "fast": 1000}
        self._paused: set[str] = set()
        self._turn: list[str] = ["fast", "slow"]

    def poll_next(self, max_rows: int) -> Batch | PollStatus:
        self._turn.reverse()
        split = next(split for split in self._turn if split not in self._paused)
        self._current = split
        self._times[split] += self._steps[split]
        return RowBatch([(split, self._times[split])])

    def current_split_id(self) -> str | None:
        return self._current

    def pause_or_resume_splits(self, splits_to_pause: list[str], splits_to_resume: list[str]) -> None:
        PAUSES.append((splits_to_pause, splits_to_resume))
        self._paused = (self._paused | set(splits_to_pause)) - set(splits_to_resume)

    def add_splits(self, splits: list[Any]) -> None:
        """Does nothing: the splits exist."""

    def notify_no_more_splits(self) -> None:
        """Does nothing: the source never ends."""

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        return []


def test_a_reader_that_supports_it_pauses_the_split_that_is_ahead_and_reads_the_others(rig: WorkerRig) -> None:
    PAUSES.clear()
    strategy = ALIGNED.with_idleness(Duration.of_seconds(1))
    task = rig.task(chain(SourceSpec(Splits2Source(), strategy), SinkSpec(NamedSink("splits"))))
    rig.deploy(task)
    tick(rig, 4)
    limit(rig, task, 500)
    assert PAUSES == [(["fast"], [])]
    read = len([row for row in WRITTEN["splits"] if row[0] == "fast"])
    tick(rig, 10)
    assert len([row for row in WRITTEN["splits"] if row[0] == "fast"]) == read
    assert reported(rig)[-1] == int(WRITTEN["splits"][-2][1]) - 1, "the slow one, although the other was not read"
    (origin,) = (o.kind for o in last_report(rig).progress.operators if isinstance(o.kind, WatermarkOrigin))
    assert [(s.name, s.paused, s.idle) for s in origin.time.slowest] == [("slow", False, False), ("fast", True, False)]
    limit(rig, task, 100_000)
    assert PAUSES[1:] == [([], ["fast"])]


NUMBERS = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
AHEAD, BEHIND = IndexSplit("ahead", 20_000, 40_000), IndexSplit("behind", 0, 20_000)


@pytest.mark.parametrize("hybrid", [False, True])
def test_of_two_splits_of_a_built_in_reader_only_the_one_ahead_waits_for_the_group(
    rig: WorkerRig, hybrid: bool
) -> None:
    strategy = NUMBERS.with_watermark_alignment("g", Duration.of_millis(100), Duration.of_millis(50))
    numbers = NumberSequenceSource(0, 40_000)
    source: Source[Any] = HybridSource.builder(numbers).build() if hybrid else numbers
    splits = [HybridSplit(0, split) if hybrid else split for split in (AHEAD, BEHIND)]
    task = rig.task(chain(SourceSpec(source, strategy), SinkSpec(NamedSink("numbers"))))
    rig.deploy(task)
    rig.send_event(task, Splits(to_bytes(splits)))
    rig.turn_until(lambda: len(written("numbers", int)) > 0)
    assert min(written("numbers", int)) == AHEAD.position, "it is read first"
    limit(rig, task, 5_000)
    tick(rig, 3)
    ahead = max(written("numbers", int))
    tick(rig, 3)
    assert max(written("numbers", int)) == ahead, "it waits"
    while not origin_of(rig).alignment.paused_since:
        tick(rig)
    behind = max(number for number in written("numbers", int) if number < AHEAD.position)
    assert 5_000 < behind < AHEAD.position - 1, "until it was ahead too, and all of the source waits"
    assert [stream.paused for stream in origin_of(rig).time.slowest] == [True, True]
    limit(rig, task, MAX_TIMESTAMP)
    rig.send_event(task, Custom(to_bytes(NoMore(0))) if hybrid else NoMoreSplits())
    rig.turn_until(rig.ended(task))
    assert sorted(written("numbers", int)) == list(range(40_000)), "each continued where it was"


def origin_of(rig: WorkerRig) -> Any:
    (origin,) = (o.kind for o in last_report(rig).progress.operators if isinstance(o.kind, WatermarkOrigin))
    return origin


class NoPauses(Splits2Reader):
    def pause_or_resume_splits(self, splits_to_pause: list[str], splits_to_resume: list[str]) -> None:
        SourceReader.pause_or_resume_splits(self, splits_to_pause, splits_to_resume)


class NoPausesSource(RowsSource):
    def create_reader(self, context: SourceReaderContext) -> SourceReader[Any]:
        return NoPauses()


@pytest.mark.parametrize("allowed", [False, True])
def test_a_reader_that_cannot_pause_one_of_several_splits_fails_unless_that_is_allowed(allowed: bool) -> None:
    options = {"pipeline.watermark-alignment.allow-unaligned-source-splits": "true"} if allowed else {}
    rig = WorkerRig(**options)
    name = f"unaligned {allowed}"
    task = rig.start(SourceSpec(NoPausesSource(), ALIGNED), SinkSpec(NamedSink(name)))
    tick(rig, 4)
    limit(rig, task, 500)
    if allowed:
        read = len(WRITTEN[name])
        rig.turn_until(lambda: len(WRITTEN[name]) > read + 3)
        assert {row[0] for row in WRITTEN[name][read:]} == {"slow", "fast"}
    else:
        failure = rig.failure(task).exception
        assert "split 'fast' is too far ahead of its alignment group" in failure
        assert "set pipeline.watermark-alignment.allow-unaligned-source-splits" in failure
    rig.close()


def full_output(rig: WorkerRig) -> tuple[ResultPartition, Any]:
    """An output to a channel whose consumer takes nothing until the test does."""
    output, _ = local_pair(rig, 77)
    return output, rig.channel(77)


@pytest.mark.parametrize("where", ["source", "operator"])
def test_a_stream_that_cannot_emit_is_not_idle(rig: WorkerRig, where: str) -> None:
    strategy = TIMES.with_idleness(Duration.of_seconds(1))
    source = RowsSource([("a", 1000 + n) for n in range(100_000)], waits=True, batch=1000)
    output, channel = full_output(rig)
    specs = [SourceSpec(source, strategy)] if where == "source" else [SourceSpec(source), TimestampsSpec(strategy)]
    task = rig.task(chain(*specs, outputs=1), outputs=[output])
    rig.deploy(task)
    while len(channel.queue) < channel.CAPACITY:
        rig.worker.turn()
    tick(rig, 30)
    statuses = [element for element in channel.queue if isinstance(element, WatermarkStatus)]
    assert statuses == [], "it had records that were not taken"
    assert any(isinstance(element, Watermark) for element in channel.queue)


def test_silence_before_and_after_backpressure_counts_together(rig: WorkerRig) -> None:
    strategy = TIMES.with_idleness(Duration.of_seconds(1))
    output, channel = full_output(rig)
    source = RowsSource([("a", 1)], waits=True)
    task = rig.task(chain(SourceSpec(source, strategy), outputs=1), outputs=[output])
    rig.deploy(task)
    tick(rig, 4)
    fill = [RowBatch([n] * 2048) for n in range(1000)]
    while len(channel.queue) < channel.CAPACITY:
        channel.put(fill.pop())
    tick(rig, 10)
    assert not [element for element in channel.queue if isinstance(element, WatermarkStatus)]
    channel.queue.clear()
    rig.turn_until(lambda: len(channel.queue) < channel.CAPACITY, turns=1)
    for _ in range(12):
        tick(rig)
    assert [e for e in channel.queue if isinstance(e, WatermarkStatus)] == [WatermarkStatus(True)]


class NoSplitsYet(RowsSource):
    def create_reader(self, context: SourceReaderContext) -> SourceReader[Any]:
        return NoSplitsReader()


class NoSplitsReader(Splits2Reader):
    def poll_next(self, max_rows: int) -> Batch | PollStatus:
        return super().poll_next(max_rows) if self.splits else PollStatus.NOTHING_AVAILABLE

    splits = 0

    def add_splits(self, splits: list[Any]) -> None:
        self.splits += len(splits)


def test_a_reader_without_splits_becomes_idle_until_it_gets_one(rig: WorkerRig) -> None:
    strategy = TIMES.with_idleness(Duration.of_seconds(1))
    output, channel = full_output(rig)
    task = rig.task(chain(SourceSpec(NoSplitsYet(), strategy), outputs=1), outputs=[output])
    rig.deploy(task)
    tick(rig, 5)
    assert not channel.queue
    tick(rig, 3)
    assert list(channel.queue) == [WatermarkStatus(True)]
    rig.send_event(task, Splits(to_bytes(["slow"])))
    tick(rig)
    statuses = [element for element in channel.queue if isinstance(element, WatermarkStatus)]
    assert statuses == [WatermarkStatus(True), WatermarkStatus(False)]
