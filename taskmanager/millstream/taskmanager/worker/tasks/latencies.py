"""Latency markers measure how long a record takes from a source to each operator behind it, as in Flink.

Off by default.

A source emits a marker with the current time at intervals. The marker flows with the records, waits with them in
buffers and queues, and is timed at every operator that it reaches; user functions never see it. At an exchange it is
sent to one channel, round-robin. Clocks of different hosts are compared, as in Flink. Owned by the worker's loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from millstream.core.clock import Clock
from millstream.core.metrics.histograms import Histogram
from millstream.core.metrics.model import MetricGroup, Scope
from millstream.core.records.batches import LatencyMarker, StreamSignal
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.metrics import (
    METRICS_LATENCY_GRANULARITY,
    METRICS_LATENCY_HISTORY_SIZE,
    METRICS_LATENCY_INTERVAL,
)
from millstream.taskmanager.worker.operators.output import Send

_KEY = "metrics.latency"


class Granularity(StrEnum):
    """By what latencies are grouped, in addition to the operator where they are measured."""

    SINGLE = "single"
    OPERATOR = "operator"
    SUBTASK = "subtask"


class Latencies:
    """The latencies measured at the operators of one task."""

    __slots__ = ("_clock", "_granularity", "_histograms", "_history", "_interval", "_next", "_subtask")

    def __init__(
        self, interval: float, granularity: Granularity, history: int, subtask: int, clock: Clock
    ) -> None:
        self._interval = interval
        self._granularity = granularity
        self._history = history
        self._subtask = subtask
        self._clock = clock
        self._next = 0.0
        self._histograms: dict[tuple[str, ...], Histogram] = {}

    @staticmethod
    def of(configuration: Configuration, subtask: int, clock: Clock) -> Latencies | None:
        """Returns None if latency tracking is disabled."""
        interval = configuration.get(METRICS_LATENCY_INTERVAL)
        if interval <= 0:
            return None
        granularity = Granularity(configuration.get(METRICS_LATENCY_GRANULARITY))
        return Latencies(interval, granularity, configuration.get(METRICS_LATENCY_HISTORY_SIZE), subtask, clock)

    def mark(self, source_id: str, send: Send, now: float) -> float:
        """Emits a marker from a source if one is due; returns when to call again, by the monotonic clock."""
        if now >= self._next:
            self._next = now + self._interval
            send(LatencyMarker(self._clock.now_ms(), source_id, self._subtask))
        return self._next

    def timed(self, operator_id: str, send: Send) -> Send:
        """Wraps `send` so that the markers that it delivers to an operator are measured."""

        def pass_on(signal: StreamSignal) -> None:
            if isinstance(signal, LatencyMarker):
                self.arrived(operator_id, signal)
            send(signal)

        return pass_on

    def arrived(self, operator_id: str, marker: LatencyMarker) -> None:
        """Records the latency of a marker that reached an operator."""
        match self._granularity:
            case Granularity.SINGLE:
                which: tuple[str, ...] = (operator_id,)
            case Granularity.OPERATOR:
                which = (operator_id, marker.operator_id)
            case Granularity.SUBTASK:
                which = (operator_id, marker.operator_id, str(marker.subtask))
        histogram = self._histograms.get(which)
        if histogram is None:
            histogram = self._histograms[which] = Histogram(self._history)
        histogram.update(max(0, self._clock.now_ms() - marker.marked_ms))

    def groups(self) -> Sequence[MetricGroup]:
        """The metric groups, named as in Flink: source, then operator."""
        found = []
        for (operator_id, *source), histogram in self._histograms.items():
            variables = dict(zip(("source_id", "source_subtask_index"), source, strict=False))
            variables |= {"operator_id": operator_id, "operator_subtask_index": str(self._subtask)}
            path = tuple(part for entry in variables.items() for part in entry)
            found.append(
                MetricGroup(
                    Scope.TASK_MANAGER_JOB, variables, ("latency", *path), ("latency", *variables),
                    histograms={"latency": histogram.reading()},
                )
            )  # fmt: skip
        return found
