"""Source functions and sink functions: the calls that they receive, and the contents of snapshots."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from millstream.common.typeinfo import Types
from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.plan.function_ends_plan import SinkFunctionSpec, SourceFunctionSpec
from millstream.core.jobs.plan.plan import KeySelector
from millstream.core.records.batches import (
    LAST_WATERMARK,
    MIN_TIMESTAMP,
    Element,
    RowBatch,
    Watermark,
    WatermarkStatus,
)
from millstream.core.records.types import LONG, PICKLED
from millstream.datastream import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    RuntimeContext,
    SinkFunction,
    SourceFunction,
)
from millstream.datastream.connectors.base import PollStatus
from millstream.datastream.functions import SinkContext, SourceContext
from millstream.datastream.state import ListStateDescriptor, ReducingStateDescriptor
from millstream.taskmanager.testing import OperatorHarness, Snapshot
from millstream.taskmanager.testing.operator_harness import DEPLOYMENT
from millstream.taskmanager.worker.operators.base import OperatorError
from millstream.taskmanager.worker.operators.sources.collected import ROOM
from millstream.taskmanager.worker.operators.sources.source import ReaderContext
from millstream.taskmanager.worker.runtime_context import TaskRuntimeContext

DEADLINE = 60.0


class Polled:
    """A source function's operator, polled by the test when its function has news."""

    def __init__(self, function: SourceFunction[Any], restored: Snapshot | None = None) -> None:
        self._news = threading.Event()
        context = TaskRuntimeContext(DEPLOYMENT, "source", {}, {}, {})
        reader = ReaderContext(context, "", lambda event: None, self._news.set, lambda seconds: None)
        self.harness = OperatorHarness(
            SourceFunctionSpec(function), name="the source", reader_context=reader, restored=restored
        ).open()

    @property
    def emitted(self) -> list[Element]:
        return self.harness.out.elements

    def poll(self, rows: int = 1000) -> PollStatus | None:
        """One poll, whose batch is emitted as a task does."""
        self._news.clear()
        result = self.harness.operator.poll(rows)
        if isinstance(result, PollStatus):
            return result
        self.harness.out.emit(result)
        return None

    def poll_until(self, count: int) -> list[Any]:
        """Until so many records were emitted, or the source has ended."""
        while len(self.harness.out.rows) < count:
            status = self.poll()
            if status is PollStatus.END_OF_INPUT:
                break
            if status is PollStatus.NOTHING_AVAILABLE:
                assert self._news.wait(DEADLINE)
        return self.harness.out.rows

    def close(self) -> list[BaseException]:
        return self.harness.close()


class Counting(SourceFunction[int], CheckpointedFunction):
    """The numbers up to an end; its state is the next one."""

    def __init__(self, end: int) -> None:
        super().__init__()
        self.end = end

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("next", Types.LONG()))
        self.next = next(iter(self.state.get()), 0)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.state.update([self.next])

    def run(self, ctx: SourceContext[int]) -> None:
        while self.next < self.end:
            with ctx.get_checkpoint_lock():
                self.next += 1
                ctx.collect(self.next - 1)


@pytest.mark.parametrize("before", [0, 1, 500, 3 * ROOM])
def test_a_snapshot_holds_the_state_behind_exactly_what_was_emitted(before: int) -> None:
    first = Polled(Counting(10 * ROOM))
    first.poll_until(before)
    snapshot = first.harness.snapshot()
    seen = list(first.harness.out.rows)
    first.close()
    assert seen == list(range(len(seen)))
    second = Polled(Counting(10 * ROOM), snapshot)
    assert seen + second.poll_until(10 * ROOM) == list(range(10 * ROOM))
    second.close()


class Gated(SourceFunction[str]):
    """Emits everything, and waits for the test before it ends."""

    def __init__(self) -> None:
        super().__init__()
        self.done, self.may_end = threading.Event(), threading.Event()

    def run(self, ctx: SourceContext[str]) -> None:
        ctx.collect_with_timestamp("a", 5)
        ctx.emit_watermark(Watermark(5))
        ctx.emit_watermark(3)
        ctx.mark_as_temporarily_idle()
        ctx.mark_as_temporarily_idle()
        ctx.collect("b")
        self.done.set()
        assert self.may_end.wait(DEADLINE)


def test_records_and_event_time_keep_their_order() -> None:
    function = Gated()
    source = Polled(function)
    assert source.poll() is not PollStatus.END_OF_INPUT
    assert function.done.wait(DEADLINE)
    source.poll_until(2)
    function.may_end.set()
    source.poll_until(3)
    source.harness.finish()
    source.close()
    batches = [(e.rows, e.timestamps and list(e.timestamps)) if isinstance(e, RowBatch) else e for e in source.emitted]
    expected = [(["a"], [5]), Watermark(5), WatermarkStatus(True), WatermarkStatus(False), (["b"], None)]
    assert batches == [*expected, LAST_WATERMARK]


class Endless(SourceFunction[int]):
    def __init__(self) -> None:
        super().__init__()
        self.cancelled, self.closed_alive = 0, True
        self.thread: threading.Thread | None = None

    def run(self, ctx: SourceContext[int]) -> None:
        self.thread = threading.current_thread()
        number = 0
        while True:  # the next collect ends it
            ctx.collect(number)
            number += 1

    def cancel(self) -> None:
        self.cancelled += 1

    def close(self) -> None:
        self.closed_alive = self.thread is not None and self.thread.is_alive()


def test_closing_cancels_and_ends_a_function_that_waits_for_room() -> None:
    function = Endless()
    source = Polled(function)
    source.poll_until(10)
    assert source.close() == []
    assert function.cancelled == 1
    assert not function.closed_alive
    assert function.thread is not None
    assert not function.thread.is_alive()


def test_collecting_blocks_while_no_records_are_taken() -> None:
    function = Endless()
    source = Polled(function)
    source.poll_until(1)
    source.harness.snapshot()  # takes everything that waits
    assert len(source.harness.out.rows) <= 2 * ROOM
    source.close()


class Failing(SourceFunction[int]):
    def run(self, ctx: SourceContext[int]) -> None:
        ctx.collect(1)
        raise ValueError("no more")


def test_an_error_is_raised_after_the_records_before_it_and_names_the_operator() -> None:
    source = Polled(Failing())
    assert source.poll_until(1) == [1]
    with pytest.raises(OperatorError, match="the source: ValueError: no more"):
        source.poll_until(2)
    assert source.close() == []


@pytest.mark.parametrize("timestamp", [1.5, "5", None])
def test_a_timestamp_that_is_not_an_integer_fails_the_function(timestamp: Any) -> None:
    class Wrong(SourceFunction[int]):
        def run(self, ctx: SourceContext[int]) -> None:
            ctx.collect_with_timestamp(1, timestamp)

    source = Polled(Wrong())
    with pytest.raises(OperatorError, match="milliseconds"):
        source.poll_until(1)
    source.close()


@pytest.mark.parametrize("make", [SourceFunction, SinkFunction])
def test_java_classes_are_refused(make: Any) -> None:
    with pytest.raises(InvalidProgramError, match="Java"):
        make("org.apache.flink.Something")


class Noting(SinkFunction[int]):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Any] = []

    def invoke(self, value: int, context: SinkContext) -> bool:  # type: ignore[override]  # its result is ignored
        if value < 0:
            raise ValueError("negative")
        self.calls.append((value, context.timestamp(), context.current_watermark(), context.current_processing_time()))
        return True

    def write_watermark(self, watermark: Watermark) -> None:
        self.calls.append(watermark)

    def finish(self) -> None:
        self.calls.append("finish")

    def close(self) -> None:
        self.calls.append("close")


def test_a_sink_function_gets_records_with_their_timestamps_in_order() -> None:
    function = Noting()
    harness = OperatorHarness(SinkFunctionSpec(function), LONG).open()
    now = harness.clock.now_ms()
    assert harness.process(RowBatch([1])) == []
    harness.signal(Watermark(7))
    harness.process(RowBatch([2, 3], [8, 9]))
    harness.finish()
    harness.close()
    expected = [(1, None, MIN_TIMESTAMP, now), Watermark(7), (2, 8, 7, now), (3, 9, 7, now)]
    assert function.calls == [*expected, "finish", "close"]


def test_the_record_that_a_sink_function_fails_on_is_named() -> None:
    harness = OperatorHarness(SinkFunctionSpec(Noting()), LONG, name="the sink").open()
    with pytest.raises(OperatorError, match="the sink: ValueError: negative") as raised:
        harness.process(RowBatch([1, -2, 3]))
    assert raised.value.record == -2


class Summing(SinkFunction[int]):
    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG())
        self.sum = runtime_context.get_reducing_state(descriptor)
        self.seen: list[int] = []

    def invoke(self, value: int, context: SinkContext) -> None:
        self.sum.add(value)
        self.seen.append(self.sum.get())


def test_after_key_by_a_sink_function_has_keyed_state() -> None:
    function = Summing()
    spec = SinkFunctionSpec(function, KeySelector(function=lambda value: value % 2), PICKLED)
    OperatorHarness(spec, LONG).open().process(RowBatch([1, 2, 3, 4, 5]))
    assert function.seen == [1, 2, 4, 6, 9]
