"""Metrics of functions, as their task reports them."""

from __future__ import annotations

import logging

import pytest

from millstream.metrics import Distribution, Meter
from millstream.taskmanager.worker.function_metrics import FunctionMetrics, TaskMetricGroup


@pytest.fixture
def metrics() -> FunctionMetrics:
    return FunctionMetrics()


@pytest.fixture
def group(metrics: FunctionMetrics) -> TaskMetricGroup:
    return TaskMetricGroup(metrics, "map.")


def test_metrics_are_named_by_their_groups(metrics: FunctionMetrics, group: TaskMetricGroup) -> None:
    group.add_group("user").counter("seen").inc(3)
    group.add_group("key", "value").gauge("depth", lambda: 7)
    assert metrics.counted() == {"map.user.seen": 3}
    assert metrics.measured(0.0) == {"map.key.value.depth": 7.0}


def test_metrics_of_the_same_name_are_the_same_object(group: TaskMetricGroup) -> None:
    assert group.counter("a") is group.counter("a")
    assert group.meter("a") is group.meter("a", 5)
    assert group.distribution("a") is group.distribution("a")


def test_a_gauge_of_the_same_name_replaces_the_other(metrics: FunctionMetrics, group: TaskMetricGroup) -> None:
    group.gauge("g", lambda: 1)
    group.gauge("g", lambda: 2)
    assert metrics.measured(0.0) == {"map.g": 2.0}


def test_a_gauge_that_fails_is_disabled_without_affecting_others(
    metrics: FunctionMetrics, group: TaskMetricGroup, caplog: pytest.LogCaptureFixture
) -> None:
    group.gauge("broken", lambda: 1 / 0)
    group.gauge("text", lambda: "many")  # type: ignore[arg-type, return-value]
    group.gauge("endless", lambda: float("inf"))
    group.gauge("good", lambda: 1)
    with caplog.at_level(logging.WARNING):
        assert metrics.measured(0.0) == metrics.measured(1.0) == {"map.good": 1.0}
    assert caplog.text.count("disabled the gauge") == 2
    with pytest.raises(ValueError, match="the gauge 'g' is a function that returns a number, not 7"):
        group.gauge("g", 7)  # type: ignore[arg-type]


def test_a_meter_reports_events_per_second_over_its_time_span(metrics: FunctionMetrics, group: TaskMetricGroup) -> None:
    meter = group.meter("m", 10)
    assert metrics.measured(100.0) == {"map.m.rate": 0.0, "map.m.count": 0.0}
    meter.mark_event(20)
    assert metrics.measured(105.0)["map.m.rate"] == 4.0
    meter.mark_event()
    assert metrics.measured(110.0)["map.m.rate"] == pytest.approx(2.1)
    assert metrics.measured(116.0)["map.m.rate"] == pytest.approx(1 / 11), "what is older does not count"
    assert metrics.measured(130.0) == {"map.m.rate": 0.0, "map.m.count": 21.0}
    assert meter.get_count() == 21


@pytest.mark.parametrize("span", [0, -1, True])
def test_the_time_span_of_a_meter_must_be_positive(span: int) -> None:
    with pytest.raises(ValueError, match="the time span of a meter is a number of seconds above 0"):
        Meter(span)


def test_a_distribution_reports_how_values_are_spread(metrics: FunctionMetrics, group: TaskMetricGroup) -> None:
    distribution = group.distribution("d")
    assert metrics.measured(0.0) == {"map.d.count": 0.0}
    for value in (4, -2, 10):
        distribution.update(value)
    assert metrics.measured(0.0) == {
        "map.d.count": 3.0, "map.d.sum": 12.0, "map.d.min": -2.0, "map.d.max": 10.0, "map.d.mean": 4.0
    }  # fmt: skip
    assert Distribution().readings() == {"count": 0}


def test_invalid_names_are_refused(group: TaskMetricGroup) -> None:
    for register in (group.counter, group.meter, group.distribution):
        with pytest.raises(ValueError, match="cannot be written"):
            register("half a pair \udc80")
