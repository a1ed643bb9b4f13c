"""Joins of two streams in programs: what they add to the graph, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from millstream.common import Duration, Time, Types
from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.plan.join_plan import IntervalJoinSpec
from millstream.core.jobs.plan.window_plan import CoGroupSpec, Tagged
from millstream.core.records.types import LONG, PICKLED, STRING, from_hint
from millstream.datastream import (
    CoGroupFunction,
    DataStream,
    FlatJoinFunction,
    JoinFunction,
    MapFunction,
    OutputTag,
    ProcessJoinFunction,
    StreamExecutionEnvironment,
)
from millstream.datastream.graph.transformations import OperatorTransformation
from millstream.datastream.window import CountEvictor, CountTrigger, EventTimeSessionWindows, TumblingEventTimeWindows

WINDOW = TumblingEventTimeWindows.of(Time.seconds(5))
PAIR = from_hint(tuple[str, int])


@pytest.fixture
def streams() -> tuple[DataStream, DataStream]:
    env = StreamExecutionEnvironment.get_execution_environment()
    return env.from_collection([("a", 1)], PAIR), env.from_collection([("a", 2)], PAIR)


def spec_of(stream: DataStream) -> Any:
    assert isinstance(stream.transformation, OperatorTransformation)
    return stream.transformation.spec


class Join(JoinFunction):
    def join(self, first: Any, second: Any) -> int:
        return 1


class Flat(FlatJoinFunction):
    def join(self, first: Any, second: Any) -> Iterator[str]:
        yield "x"


class Group(CoGroupFunction):
    def co_group(self, first: Any, second: Any) -> list[int]:
        return []


def test_a_window_join_is_one_operator_on_both_streams(streams: tuple[DataStream, DataStream]) -> None:
    first, second = streams
    windowed = first.join(second).where(0, Types.STRING()).equal_to(lambda pair: pair[0]).window(WINDOW)
    trigger, evictor = CountTrigger(3), CountEvictor.of(2)
    made = windowed.trigger(trigger).evictor(evictor).allowed_lateness(timedelta(seconds=1)).apply(Join())
    spec = spec_of(made)
    assert isinstance(spec, CoGroupSpec)
    assert (spec.trigger, spec.evictor, spec.allowed_lateness) == (trigger, evictor, 1000)
    assert (spec.contents, spec.key_type) == (Tagged(PAIR, PAIR), STRING)
    assert made.get_type() == LONG


def ones(first: Any, second: Any) -> Iterator[str]:
    yield "x"


@pytest.mark.parametrize(
    ("method", "function", "output_type", "expected"),
    [
        ("join", Flat(), None, STRING),
        ("join", ones, None, STRING),
        ("join", lambda a, b: (a, b), None, PICKLED),
        ("join", lambda a, b: 1, Types.LONG(), LONG),
        ("co_group", Group(), None, LONG),
        ("co_group", lambda a, b: [1], Types.LONG(), LONG),
        ("co_group", lambda a, b: [1], None, PICKLED),
    ],
)
def test_the_type_of_results_is_declared_or_annotated(
    streams: tuple[DataStream, DataStream], method: str, function: Any, output_type: Any, expected: Any
) -> None:
    keyed = getattr(streams[0], method)(streams[1]).where(0).equal_to(0)
    assert keyed.window(WINDOW).apply(function, output_type).get_type() == expected


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        (Time.seconds(-1), Time.seconds(2), (-1000, 2000)),
        (timedelta(seconds=-1), Duration.of_seconds(2), (-1000, 2000)),
        (0, 5, (0, 5)),
    ],
)
def test_bounds_are_lengths_of_time(
    streams: tuple[DataStream, DataStream], lower: Any, upper: Any, expected: tuple[int, int]
) -> None:
    first, second = (stream.key_by(0) for stream in streams)
    made = first.interval_join(second).in_event_time().between(lower, upper).process(lambda a, b, ctx: [a])
    assert isinstance(spec_of(made), IntervalJoinSpec)
    assert (spec_of(made).lower, spec_of(made).upper) == expected


def test_exclusive_bounds_and_late_data(streams: tuple[DataStream, DataStream]) -> None:
    class Pairs(ProcessJoinFunction):
        def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[int]:
            yield 1

    first, second = (stream.key_by(0) for stream in streams)
    left, right = OutputTag("left", PAIR), OutputTag("right", PAIR)
    joined = first.interval_join(second).between(-5, 5).lower_bound_exclusive().upper_bound_exclusive()
    made = joined.side_output_left_late_data(left).side_output_right_late_data(right).process(Pairs())
    spec = spec_of(made)
    assert (spec.lower, spec.upper, spec.late_tags) == (-4, 4, ("left", "right"))
    assert made.get_type() == LONG
    assert made.get_side_output(left).get_type() == PAIR


class Other(MapFunction):
    def map(self, value: Any) -> Any:
        return value


REFUSED: dict[str, tuple[Callable[[DataStream, DataStream], Any], str]] = {
    "no stream": (lambda a, b: a.join(7), "expected a stream"),  # type: ignore[arg-type]  # what is refused
    "other keys": (
        lambda a, b: a.join(b).where(lambda p: p[0], Types.STRING()).equal_to(1),
        "keyed by different types",
    ),
    "no assigner": (lambda a, b: a.co_group(b).where(0).equal_to(0).window(5), "WindowAssigner"),
    "a trigger that cannot merge": (
        lambda a, b: (
            a.join(b).where(0).equal_to(0).window(EventTimeSessionWindows.with_gap(Time.seconds(1))).trigger(Never())
        ),
        "cannot",
    ),
    "another function": (lambda a, b: a.join(b).where(0).equal_to(0).window(WINDOW).apply(Other()), "JoinFunction"),
    "too few arguments": (
        lambda a, b: a.co_group(b).where(0).equal_to(0).window(WINDOW).apply(lambda x: x),
        "2 arguments",
    ),
    "no keys": (lambda a, b: a.key_by(0).interval_join(b), "call key_by"),
    "the wrong way round": (lambda a, b: a.key_by(0).interval_join(b.key_by(0)).between(5, 4), "above the upper"),
    "no length": (lambda a, b: a.key_by(0).interval_join(b.key_by(0)).between("5s", 4), "length of time"),
    "processing time": (
        lambda a, b: a.key_by(0).interval_join(b.key_by(0)).in_processing_time(),
        "only in event time",
    ),
    "another process function": (
        lambda a, b: a.key_by(0).interval_join(b.key_by(0)).between(0, 4).process(Other()),
        "ProcessJoinFunction",
    ),
}


class Never(CountTrigger):
    def __init__(self) -> None:
        super().__init__(1)

    def can_merge(self) -> bool:
        return False


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_joined_is_refused(streams: tuple[DataStream, DataStream], what: str) -> None:
    say, match = REFUSED[what]
    with pytest.raises(InvalidProgramError, match=match):
        say(*streams)
