"""Latency markers: when sources send them, and what operators do with them."""

from __future__ import annotations

import pytest

from millstream.core.clock import ManualClock
from millstream.core.metrics.model import MetricGroup, Scope
from millstream.core.records.batches import LatencyMarker, StreamSignal, Watermark
from millstream.core.settings.configuration import Configuration
from millstream.taskmanager.worker.network.signals import decode_signal, encode_signal
from millstream.taskmanager.worker.tasks.latencies import Latencies


def latencies(clock: ManualClock, **options: str) -> Latencies:
    settings = {"interval": "100 ms", **{key.replace("_", "-"): value for key, value in options.items()}}
    made = Latencies.of(Configuration({f"metrics.latency.{key}": value for key, value in settings.items()}), 3, clock)
    assert made is not None
    return made


def test_there_are_none_by_default() -> None:
    assert Latencies.of(Configuration(), 0, ManualClock()) is None


def test_a_source_sends_a_marker_once_in_the_interval() -> None:
    clock, sent = ManualClock(1_000_000), list[StreamSignal]()
    timed = latencies(clock)
    for _ in range(10):
        assert timed.mark("source", sent.append, clock.monotonic()) > clock.monotonic()
        clock.advance(0.03)
    assert sent == [LatencyMarker(at, "source", 3) for at in (1_000_000, 1_000_120, 1_000_240)]


def test_an_operator_times_markers_and_forwards_all() -> None:
    clock, sent = ManualClock(5_000), list[StreamSignal]()
    timed = latencies(clock)
    send = timed.timed("map", sent.append)
    signals = [LatencyMarker(4_900, "a", 0), Watermark(7), LatencyMarker(4_700, "a", 1), LatencyMarker(9_000, "b", 0)]
    for signal in signals:
        send(signal)
    assert sent == signals
    from_a, from_b = timed.groups()
    assert from_a.scope is Scope.TASK_MANAGER_JOB
    assert from_a.path == ("latency", "source_id", "a", "operator_id", "map", "operator_subtask_index", "3")
    assert from_a.logical == ("latency", "source_id", "operator_id", "operator_subtask_index")
    reading = from_a.histograms["latency"]
    assert (reading.count, reading.min, reading.max) == (2, 100.0, 300.0)
    assert from_b.histograms["latency"].max == 0.0, "a clock that is ahead makes no latency below nothing"


@pytest.mark.parametrize(("granularity", "groups"), [("single", 1), ("operator", 2), ("subtask", 3)])
def test_latencies_are_grouped_as_configured(granularity: str, groups: int) -> None:
    timed = latencies(ManualClock(10), granularity=granularity)
    for source, subtask in (("a", 0), ("a", 1), ("b", 0)):
        timed.arrived("map", LatencyMarker(1, source, subtask))
    found: list[MetricGroup] = list(timed.groups())
    assert len(found) == groups
    assert all(("source_id" in group.variables) == (granularity != "single") for group in found)


def test_only_the_last_markers_count() -> None:
    clock = ManualClock(10_000)
    timed = latencies(clock, history_size="2")
    for at in (0, 9_000, 9_500):
        timed.arrived("map", LatencyMarker(at, "a"))
    (group,) = timed.groups()
    assert (group.histograms["latency"].count, group.histograms["latency"].max) == (3, 1000.0)


def test_a_marker_is_encoded_unchanged() -> None:
    marker = LatencyMarker(123, "source", 4)
    assert decode_signal(*encode_signal(marker)) == marker
