"""Windows over rows: triggers, evictors, counts, processing time, state of windows, and late records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from millstream.common import Time, Watermark
from millstream.core.jobs.plan.plan import KeySelector
from millstream.core.jobs.plan.window_plan import Buffered, Contents, Reduced, WindowSpec
from millstream.core.records.batches import RowBatch
from millstream.core.records.types import from_hint
from millstream.datastream.functions import ProcessWindowFunction, WindowFunction
from millstream.datastream.state import ReducingStateDescriptor, ValueStateDescriptor
from millstream.datastream.window import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeEvictor,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from millstream.taskmanager.testing import OperatorHarness
from millstream.taskmanager.worker.operators.base import OperatorError

PAIR = from_hint(tuple[str, int])
TEN = TumblingEventTimeWindows.of(Time.milliseconds(10))


class Values(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Any) -> Iterator[Any]:
        yield key, [value for _, value in inputs]


def added(first: Any, second: Any) -> Any:
    return first[0], first[1] + second[1]


def harness(
    assigner: Any, contents: Contents | None = None, function: Any = None, trigger: Any = None, **settings: Any
) -> OperatorHarness:
    restored = settings.pop("restored", None)
    spec = WindowSpec(
        assigner, trigger or assigner.get_default_trigger(None), contents or Buffered(PAIR),
        Values() if function is None and contents is None else function, KeySelector(fields=(0,)), from_hint(str),
        **settings,
    )  # fmt: skip
    tags = [settings["late_tag"]] if settings.get("late_tag") else []
    return OperatorHarness(spec, PAIR, tags=tags, restored=restored).open()


def rows(*values: tuple[str, int], times: list[int] | None = None) -> RowBatch:
    return RowBatch(list(values), times)


def test_counts_of_each_key() -> None:
    made = harness(CountTumblingWindowAssigner.of(2))
    assert made.process(rows(("a", 1), ("b", 2), ("a", 3), ("a", 4))) == [("a", [1, 3])]
    assert made.process(rows(("b", 5), ("a", 6))) == [("b", [2, 5]), ("a", [4, 6])]
    sliding = harness(CountSlidingWindowAssigner.of(4, 2))
    out = sliding.process(rows(*(("a", i) for i in range(6))))
    assert out[-1] == ("a", [2, 3, 4, 5])


def test_processing_time_ends_windows() -> None:
    made = harness(TumblingProcessingTimeWindows.of(Time.seconds(1)), Reduced(added, PAIR))
    made.process(rows(("a", 1), ("b", 2), ("a", 3)))
    made.advance(0.5)
    assert made.out.rows == []
    made.advance(0.5)
    assert sorted(made.out.rows) == [("a", 4), ("b", 2)]
    sliding = harness(SlidingProcessingTimeWindows.of(Time.seconds(2), Time.seconds(1)), Reduced(added, PAIR))
    sliding.process(rows(("a", 1)))
    for _ in range(4):
        sliding.advance(1)
    assert sliding.out.rows == [("a", 1), ("a", 1)]


def test_sessions_in_processing_time_grow_with_each_record() -> None:
    made = harness(ProcessingTimeSessionWindows.with_gap(Time.seconds(1)), Reduced(added, PAIR))
    for value in (1, 2, 3):
        made.process(rows(("a", value)))
        made.advance(0.7)
    assert made.out.rows == []
    made.advance(0.5)
    assert made.out.rows == [("a", 6)]


def test_a_count_trigger_fires_again_and_purging_empties_the_window() -> None:
    made = harness(GlobalWindows.create(), Reduced(added, PAIR), trigger=CountTrigger.of(2))
    assert made.process(rows(*(("a", i) for i in range(1, 5)))) == [("a", 3), ("a", 10)]
    purged = harness(GlobalWindows.create(), Reduced(added, PAIR), trigger=PurgingTrigger.of(CountTrigger.of(2)))
    assert purged.process(rows(*(("a", i) for i in range(1, 5)))) == [("a", 3), ("a", 7)]


def test_a_continuous_trigger_fires_before_the_end() -> None:
    made = harness(
        TumblingEventTimeWindows.of(Time.milliseconds(100)), Reduced(added, PAIR),
        trigger=ContinuousEventTimeTrigger.of(Time.milliseconds(10)),
    )  # fmt: skip
    made.process(rows(("a", 1), times=[3]))
    made.signal(Watermark(10))
    made.process(rows(("a", 2), times=[15]))
    made.signal(Watermark(20))
    made.signal(Watermark(99))
    assert made.out.rows[:2] == [("a", 1), ("a", 3)]
    assert made.out.rows[-1] == ("a", 3)


def test_merged_sessions_merge_the_state_of_their_trigger() -> None:
    made = harness(
        EventTimeSessionWindows.with_gap(Time.milliseconds(10)), Reduced(added, PAIR), trigger=CountTrigger.of(3)
    )
    assert made.process(rows(("a", 1), ("a", 2), times=[0, 15])) == []
    assert made.process(rows(("a", 3), times=[8])) == [("a", 6)], "three records, once the gap is closed"


def test_a_trigger_that_cannot_merge_is_refused_with_merging_windows() -> None:
    from millstream.common import InvalidProgramError
    from millstream.datastream import StreamExecutionEnvironment

    class Stubborn(Trigger[Any, Any]):
        def on_element(self, element: Any, timestamp: int, window: Any, ctx: Any) -> TriggerResult:
            return TriggerResult.CONTINUE

        def on_processing_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
            return TriggerResult.CONTINUE

        def on_event_time(self, time: int, window: Any, ctx: Any) -> TriggerResult:
            return TriggerResult.CONTINUE

        def clear(self, window: Any, ctx: Any) -> None:
            pass

    env = StreamExecutionEnvironment.get_execution_environment()
    keyed = env.from_collection([("a", 1)], tuple[str, int]).key_by(lambda pair: pair[0])
    windowed = keyed.window(EventTimeSessionWindows.with_gap(Time.seconds(1)))
    with pytest.raises(InvalidProgramError, match="merge"):
        windowed.trigger(Stubborn())


def test_evictors_remove_records_before_the_function_is_called() -> None:
    last_two = harness(TEN, evictor=CountEvictor.of(2))
    last_two.process(rows(*(("a", i) for i in range(4)), times=[0, 1, 2, 3]))
    last_two.signal(Watermark(9))
    assert last_two.out.rows == [("a", [2, 3])]
    recent = harness(TEN, evictor=TimeEvictor.of(Time.milliseconds(2)))
    recent.process(rows(*(("a", i) for i in range(4)), times=[0, 5, 7, 8]))
    recent.signal(Watermark(9))
    assert recent.out.rows == [("a", [2, 3])]


def test_evicted_records_do_not_return() -> None:
    made = harness(GlobalWindows.create(), trigger=CountTrigger.of(2), evictor=CountEvictor.of(3))
    out = made.process(rows(*(("a", i) for i in range(6)), times=list(range(6))))
    assert out == [("a", [0, 1]), ("a", [1, 2, 3]), ("a", [3, 4, 5])]


def test_late_records_go_to_their_side_output_or_are_counted() -> None:
    made = harness(TEN, Reduced(added, PAIR), late_tag="late", allowed_lateness=5)
    made.process(rows(("a", 1), times=[3]))
    made.signal(Watermark(9))
    assert made.process(rows(("a", 2), times=[4])) == [("a", 3)], "within the lateness, the window fires again"
    made.signal(Watermark(14))
    assert made.process(rows(("a", 4), ("a", 5), times=[5, 12])) == []
    assert made.side["late"].rows == [("a", 4)]
    assert list(made.side["late"].batches[0].timestamps) == [5]
    counting = harness(TEN, Reduced(added, PAIR))
    counting.signal(Watermark(20))
    counting.process(rows(("a", 1), ("b", 2), ("a", 3), times=[1, 2, 25]))
    counter = counting.operator.context.get_metrics_group().counter("numLateRecordsDropped")
    assert counter.get_count() == 2


class Remembering(ProcessWindowFunction):
    """Counts the firings of this window, and all windows of the key; records what is cleared."""

    def __init__(self) -> None:
        self.cleared: list[Any] = []

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        for store in (context.window_state(), context.global_state()):
            fired = store.get_state(ValueStateDescriptor("fired", int))
            fired.update((fired.value() or 0) + 1)
        everywhere = context.global_state().get_state(ValueStateDescriptor("fired", int))
        here = context.window_state().get_state(ValueStateDescriptor("fired", int))
        yield key, context.window().start, here.value(), everywhere.value(), context.current_watermark()

    def clear(self, context: Any) -> None:
        self.cleared.append(context.window().start)
        context.window_state().get_state(ValueStateDescriptor("fired", int)).clear()


def test_a_process_function_has_state_per_window_and_global_state() -> None:
    function = Remembering()
    made = harness(TEN, Buffered(PAIR), function, allowed_lateness=10)
    made.process(rows(("a", 1), ("a", 2), times=[1, 11]))
    made.signal(Watermark(9))
    made.process(rows(("a", 3), times=[2]))
    made.signal(Watermark(19))
    assert made.out.rows == [("a", 0, 1, 1, 9), ("a", 0, 2, 2, 9), ("a", 10, 1, 3, 19)]
    assert function.cleared == [0]
    restored = harness(TEN, Buffered(PAIR), Remembering(), allowed_lateness=10, restored=made.snapshot())
    restored.process(rows(("a", 4), times=[12]))
    restored.signal(Watermark(19))
    assert restored.out.rows == [("a", 10, 2, 4, 19)]


def test_a_record_without_a_timestamp_is_refused_by_event_time_windows() -> None:
    with pytest.raises(OperatorError, match="timestamp") as caught:
        harness(TEN).process(rows(("a", 1)))
    assert caught.value.record == ("a", 1)


def test_states_of_triggers_and_of_functions_have_separate_names() -> None:
    """A trigger, a window and a function may all call their state `count`."""

    class Counting(ProcessWindowFunction):
        def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
            count = context.window_state().get_reducing_state(ReducingStateDescriptor("count", lambda a, b: a + b, int))
            count.add(len(list(elements)))
            yield key, count.get()

        def clear(self, context: Any) -> None:
            pass

    made = harness(GlobalWindows.create(), Buffered(PAIR), Counting(), trigger=PurgingTrigger.of(CountTrigger.of(2)))
    assert made.process(rows(*(("a", i) for i in range(4)))) == [("a", 2), ("a", 4)]


@pytest.mark.parametrize("assigner", [TumblingEventTimeWindows.of(10), SlidingEventTimeWindows.of(10, 5)])
def test_an_error_of_a_reduce_names_the_record(assigner: Any) -> None:
    def reduced(first: tuple[str, int], second: tuple[str, int]) -> tuple[str, int]:
        if second[1] == 3:
            raise ValueError("no")
        return first

    made = harness(assigner, Reduced(reduced, PAIR), allowed_lateness=100)
    made.process(rows(("a", 1), times=[27]))
    made.signal(Watermark(14))
    late = rows(("b", 0), ("a", 2), ("b", 0), ("a", 3), ("a", 4), times=[1, 28, 2, 29, 26])
    with pytest.raises(OperatorError, match="no") as caught:
        made.process(late)
    assert caught.value.record == ("a", 3)
