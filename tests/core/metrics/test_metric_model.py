"""Metrics of one moment: their encoding, rates of counters, and distributions."""

from __future__ import annotations

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.core.metrics.histograms import Histogram, quantile
from millstream.core.metrics.model import (
    HistogramReading,
    MalformedMetricsError,
    MeterReading,
    MetricGroup,
    Scope,
    decode_groups,
    encode_groups,
)
from millstream.core.metrics.naming import values_of, written
from millstream.core.metrics.process_metrics import ProcessFigures, ProcessUse, own_use
from millstream.core.metrics.rates import Rates
from millstream.core.metrics.registry import MetricRegistry

_NAMES = st.text(max_size=8)
GROUPS = st.builds(
    MetricGroup,
    st.sampled_from(Scope),
    st.dictionaries(_NAMES, _NAMES, max_size=3),
    st.lists(_NAMES, max_size=2).map(tuple),
    st.lists(_NAMES, max_size=2).map(tuple),
    st.dictionaries(_NAMES, st.integers(-(1 << 63), (1 << 63) - 1), max_size=3),
    st.dictionaries(_NAMES, st.integers(-(1 << 63), (1 << 63) - 1) | st.floats(allow_nan=False), max_size=3),
    st.dictionaries(_NAMES, st.builds(MeterReading, st.integers(0, 1 << 60), st.floats(allow_nan=False)), max_size=2),
    st.dictionaries(_NAMES, st.builds(HistogramReading, st.integers(0, 1 << 60)), max_size=2),
)


@given(st.lists(GROUPS, max_size=4))
def test_groups_are_encoded_unchanged(groups: list[MetricGroup]) -> None:
    assert decode_groups(encode_groups(groups)) == groups


@pytest.mark.parametrize("content", [b"\xc1", b"\x91\x01", b"\x91\x91\xa5space", b"\x91" * 100_000])
def test_malformed_groups_are_refused(content: bytes) -> None:
    with pytest.raises(MalformedMetricsError, match="malformed metrics"):
        decode_groups(content)


def test_the_variables_added_by_a_process_cannot_be_replaced() -> None:
    group = MetricGroup(Scope.TASK, {"job_id": "another", "shard": "1"})
    assert group.about({"job_id": "own"}).variables == {"job_id": "own", "shard": "1"}


def test_a_rate_is_that_of_the_last_seconds() -> None:
    rates = Rates(100.0, window=10.0)
    assert rates.update(100.0, {"in": 5}) == {"in": 0.0}, "no time has passed"
    assert rates.update(102.0, {"in": 20}) == {"in": 10.0}
    assert rates.update(110.0, {"in": 100}) == {"in": 10.0}
    assert rates.update(120.0, {"in": 100}) == {"in": 0.0}, "what is older does not count"
    assert rates.update(121.0, {"in": 100, "new": 11}) == {"in": 0.0, "new": 1.0}


def test_a_histogram_is_of_the_last_values() -> None:
    histogram = Histogram(window=100)
    assert histogram.reading() == HistogramReading()
    for value in range(1000):
        histogram.update(value)
    reading = histogram.reading()
    assert (reading.count, reading.min, reading.max, reading.mean) == (1000, 900, 999, 949.5)
    assert reading.p50 == 949.5
    assert reading.p99 == pytest.approx(998.99)
    assert reading.stddev == pytest.approx(28.866, abs=0.001)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.floats(0, 1))
def test_a_quantile_is_between_the_ends(values: list[float], q: float) -> None:
    ordered = sorted(values)
    assert ordered[0] <= quantile(ordered, q) <= ordered[-1]


def test_ids_are_the_same_as_flinks() -> None:
    group = MetricGroup(
        Scope.OPERATOR, {"operator_name": "Source: a.b, c"}, ("shard", "7.5"), ("shard",), {"seen": 3},
        {"currentInputWatermark": -(1 << 63)}, {"rate": MeterReading(10, 2.5)}, {"size": HistogramReading(1, p50=4.0)},
    )  # fmt: skip
    values = dict(values_of(group))
    assert values["Source__a_b__c.shard.7_5.seen"] == 3
    assert values["Source__a_b__c.shard.7_5.rate"] == 2.5
    assert values["Source__a_b__c.shard.7_5.size_median"] == 4.0
    assert written(values["Source__a_b__c.shard.7_5.currentInputWatermark"]) == "-9223372036854775808"
    assert written(0.5) == "0.5"


def test_a_process_measures_its_resources() -> None:
    own_use()
    gc.collect()
    use = own_use()
    assert use.collecting_seconds > 0
    assert use.memory_bytes > 1 << 20
    assert use.threads >= 1
    figures = ProcessFigures()
    assert figures.gauges(use, 1.0)["Status.JVM.CPU.Load"] == 0.0
    busy = use + ProcessUse(cpu_seconds=1e6, threads=2)
    measured = figures.gauges(busy, 2.0)
    assert (measured["Status.JVM.CPU.Load"], measured["Status.JVM.Threads.Count"]) == (1.0, use.threads + 2)


def test_a_provider_that_fails_does_not_affect_others(caplog: pytest.LogCaptureFixture) -> None:
    group = MetricGroup(Scope.JOB_MANAGER)

    def failing() -> list[MetricGroup]:
        raise ValueError("no")

    registry = MetricRegistry(failing)
    registry.add(lambda: [group])
    assert registry.read() == registry.read() == [group]
    assert caplog.text.count("some metrics cannot be read") == 1
