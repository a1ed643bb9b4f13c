"""Timers of process functions: by the watermark and by processing time, in every kind of keyed operator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from millstream.common import Watermark
from millstream.core.jobs.plan import plan
from millstream.core.records.batches import LAST_WATERMARK, RowBatch
from millstream.core.records.types import from_hint
from millstream.datastream import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    TimeDomain,
)
from millstream.datastream.state import MapStateDescriptor
from millstream.taskmanager.testing import OperatorHarness
from millstream.taskmanager.worker.operators.base import OperatorError

KEY = plan.KeySelector(fields=(0,))
KEYS = plan.TwoInputKeys(KEY, KEY, from_hint(str))
LATE = OutputTag("late")


class Alarm(KeyedProcessFunction):
    """A record is `(key, what, time)`."""

    def process_element(self, value: Any, ctx: Any) -> None:
        timers = ctx.timer_service()
        match value[1]:
            case "event":
                timers.register_event_time_timer(value[2])
            case "processing":
                timers.register_processing_time_timer(timers.current_processing_time() + value[2])
            case "delete":
                timers.delete_event_time_timer(value[2])

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        assert ctx.timestamp() == timestamp
        yield ctx.get_current_key(), timestamp, ctx.time_domain(), ctx.timer_service().current_watermark()
        yield LATE, timestamp


def alarms(restored: Any = None) -> OperatorHarness:
    spec = plan.KeyedProcessSpec(Alarm(), KEY, from_hint(str))
    return OperatorHarness(spec, tags=[LATE.tag_id], restored=restored).open()


def test_timers_fire_in_order_before_the_watermark_is_forwarded() -> None:
    made = alarms()
    made.process(RowBatch([("b", "event", 20), ("a", "event", 10), ("a", "event", 10), ("a", "event", 30)]))
    made.signal(Watermark(25))
    first = [("a", 10, TimeDomain.EVENT_TIME, 25), ("b", 20, TimeDomain.EVENT_TIME, 25)]
    assert made.out.rows == first
    assert list(made.out.batches[0].timestamps) == [10, 20], "results have the time of their timer"
    assert made.out.elements[-1] == Watermark(25)
    assert made.side[LATE.tag_id].rows == [10, 20]
    made.signal(LAST_WATERMARK)
    assert made.out.rows[2:] == [("a", 30, TimeDomain.EVENT_TIME, LAST_WATERMARK.timestamp)]


def test_a_deleted_timer_does_not_fire() -> None:
    made = alarms()
    made.process(RowBatch([("a", "event", 10), ("b", "event", 10), ("a", "delete", 10), ("a", "delete", 11)]))
    made.signal(Watermark(100))
    assert [row[0] for row in made.out.rows] == ["b"]


def test_a_timer_in_the_past_fires_with_the_next_watermark() -> None:
    made = alarms()
    made.signal(Watermark(100))
    made.process(RowBatch([("a", "event", 10)]))
    assert made.out.rows == []
    made.signal(Watermark(101))
    assert [row[:2] for row in made.out.rows] == [("a", 10)]


def test_processing_time_timers_fire_once_and_report_the_next_time() -> None:
    made = alarms()
    made.process(RowBatch([("a", "processing", 500), ("b", "processing", 600), ("a", "processing", 500)]))
    assert made.advance() == pytest.approx(0.5)
    assert made.advance(0.5) == pytest.approx(0.1)
    assert made.out.rows == [("a", 500, TimeDomain.PROCESSING_TIME, -(2**63))]
    assert made.out.batches[0].timestamps is None, "the machine's time is no event time"
    assert made.advance(0.2) is None


def test_timers_are_restored_and_overdue_ones_fire_once() -> None:
    made = alarms()
    made.process(RowBatch([("a", "event", 10), ("b", "processing", 50)]))
    restored = alarms(made.snapshot())
    restored.advance(3600)
    restored.advance(1)
    assert [row[:2] for row in restored.out.rows] == [("b", 50)]
    restored.signal(Watermark(10))
    assert [row[:2] for row in restored.out.rows[1:]] == [("a", 10)]


def test_a_timer_that_fails_is_reported_with_its_key() -> None:
    class Failing(Alarm):
        def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
            raise ValueError("no")

    made = OperatorHarness(plan.KeyedProcessSpec(Failing(), KEY, from_hint(str))).open()
    made.process(RowBatch([("a", "event", 10)]))
    with pytest.raises(OperatorError) as caught:
        made.signal(Watermark(10))
    assert caught.value.record == (10, "a", None)


@pytest.mark.parametrize(
    ("function", "spec", "why"),
    [
        (lambda: _Plain(), lambda f: plan.ProcessSpec(f), "call key_by"),
        (lambda: _NoTimer(), lambda f: plan.KeyedProcessSpec(f, KEY), "has no method on_timer"),
    ],
)
def test_functions_without_on_timer_cannot_set_a_timer(function: Any, spec: Any, why: str) -> None:
    made = OperatorHarness(spec(function())).open()
    with pytest.raises(OperatorError, match=why):
        made.process(RowBatch([("a", 1)]))


class _Plain(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> None:
        assert ctx.timer_service().current_watermark() == -(2**63)
        ctx.timer_service().register_event_time_timer(1)


class _NoTimer(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(1)


def test_connected_streams_share_the_timers_of_a_key() -> None:
    class Both(KeyedCoProcessFunction):
        def process_element1(self, value: Any, ctx: Any) -> None:
            ctx.timer_service().register_event_time_timer(value[1])

        def process_element2(self, value: Any, ctx: Any) -> None:
            ctx.timer_service().delete_event_time_timer(value[1])

        def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
            yield ctx.get_current_key(), timestamp

    made = OperatorHarness(plan.CoProcessSpec(Both(), KEYS)).open()
    made.process(RowBatch([("a", 1), ("a", 2), ("b", 1)]))
    made.process(RowBatch([("a", 1)]), input_index=1)
    made.signal(Watermark(5))
    assert made.out.rows == [("b", 1), ("a", 2)]


def test_a_timer_reads_the_broadcast_state() -> None:
    rules = MapStateDescriptor("rules", str, int)

    class Ruled(KeyedBroadcastProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> None:
            ctx.timer_service().register_event_time_timer(value[1])

        def process_broadcast_element(self, value: Any, ctx: Any) -> None:
            ctx.get_broadcast_state(rules).put("x", value)

        def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
            yield ctx.get_current_key(), ctx.get_broadcast_state(rules).get("x")

    keys = plan.TwoInputKeys(KEY, None, from_hint(str))
    made = OperatorHarness(plan.BroadcastProcessSpec(Ruled(), (rules,), keys)).open()
    made.process(RowBatch([("a", 1)]))
    made.process(RowBatch([7]), input_index=1)
    made.signal(Watermark(1))
    assert made.out.rows == [("a", 7)]
