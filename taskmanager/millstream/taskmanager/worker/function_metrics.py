"""The metrics of a task's functions, by dotted name. Owned by the worker's loop.

Counters are summed over subtasks and are part of the job's result; other metrics are only reported. Besides its dotted
name each metric has a place, which keeps its groups and their variables separate, for systems with labels.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping

from msgspec import Struct, field

from millstream.core.jobs.details import TaskMetrics
from millstream.core.jobs.names import why_unwritable
from millstream.core.logs.tracebacks import one_line
from millstream.core.metrics.histograms import spread
from millstream.core.metrics.model import HistogramReading, MeterReading, Scope
from millstream.core.metrics.model import MetricGroup as ReadGroup
from millstream.core.overriding import override
from millstream.datastream.functions import Counter, MetricGroup
from millstream.metrics import Distribution, Meter
from millstream.taskmanager.worker.interruption import TaskInterrupted

log = logging.getLogger(__name__)

_LARGEST_COUNT = (1 << 63) - 1


class GroupPlace(Struct, frozen=True):
    """The place of a group: the operator of the function, and the arguments of the `add_group` calls that led to it."""

    operator: str = ""
    path: tuple[str, ...] = ()
    logical: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()

    def below(self, name: str, extra: str | None) -> GroupPlace:
        """The place of a group below this one."""
        path, variables = (*self.path, name), self.variables
        if extra is not None:
            path, variables = (*path, extra), (*variables, (name, extra))
        return GroupPlace(self.operator, path, (*self.logical, name), variables)


class _Found(Struct):
    """The metrics found in one place."""

    counters: dict[str, int] = field(default_factory=dict)
    gauges: dict[str, int | float] = field(default_factory=dict)
    meters: dict[str, MeterReading] = field(default_factory=dict)
    histograms: dict[str, HistogramReading] = field(default_factory=dict)


class FunctionMetrics:
    """The metrics of one task, shared by all groups."""

    __slots__ = ("counters", "distributions", "gauges", "meters", "places")

    def __init__(self, counters: dict[str, Counter] | None = None) -> None:
        self.counters: dict[str, Counter] = {} if counters is None else counters
        self.gauges: dict[str, Callable[[], float]] = {}
        self.meters: dict[str, Meter] = {}
        self.distributions: dict[str, Distribution] = {}
        self.places: dict[str, tuple[GroupPlace, str]] = {}
        """By dotted name: the group, and the name in it."""

    def groups(self, metrics: TaskMetrics, variables: Callable[[str], dict[str, str]]) -> list[ReadGroup]:
        """The reported metrics of the task, by group; `variables` returns those of an operator. Calls no function."""
        found: dict[GroupPlace, _Found] = {}
        for dotted, (place, name) in self.places.items():
            of_place = found.setdefault(place, _Found())
            if dotted in self.counters:
                of_place.counters[name] = metrics.counters.get(dotted, 0)
            if dotted in self.gauges and dotted in metrics.gauges:
                of_place.gauges[name] = metrics.gauges[dotted]
            if dotted in self.meters:
                rate = metrics.gauges.get(f"{dotted}.rate", 0.0)
                of_place.meters[name] = MeterReading(self.meters[dotted].get_count(), rate)
            if dotted in self.distributions:
                distribution = self.distributions[dotted]
                of_place.histograms[name] = spread(distribution.recent, distribution.count)
        return [
            ReadGroup(
                Scope.OPERATOR, {**dict(place.variables), **variables(place.operator)}, place.path, place.logical,
                figures.counters, figures.gauges, figures.meters, figures.histograms,
            )
            for place, figures in found.items()
        ]  # fmt: skip

    def counted(self) -> dict[str, int]:
        """The counters."""
        return {name: _whole(counter.get_count()) for name, counter in self.counters.items()}

    def measured(self, now: float) -> Mapping[str, float]:
        """All other metrics; `now` is a time of the monotonic clock. A gauge that raises is disabled."""
        found: dict[str, float] = {}
        for name, gauge in list(self.gauges.items()):
            try:
                found[name] = float(gauge())
            except TaskInterrupted:
                raise
            except Exception as error:
                log.warning("disabled the gauge %s: %s", name, one_line(error))
                del self.gauges[name]
        for name, meter in self.meters.items():
            found[f"{name}.rate"] = meter.rate(now)
            found[f"{name}.count"] = float(meter.get_count())
        for name, distribution in self.distributions.items():
            found.update({f"{name}.{what}": float(value) for what, value in distribution.readings().items()})
        return {name: value for name, value in found.items() if math.isfinite(value)}


class TaskMetricGroup(MetricGroup):
    """A group: its metrics have names that begin with its own."""

    def __init__(self, metrics: FunctionMetrics, prefix: str = "", place: GroupPlace | None = None) -> None:
        self._metrics = metrics
        self._prefix = prefix
        self._place = place or GroupPlace(prefix.removesuffix("."))

    def counter(self, name: str) -> Counter:
        """The counter of this name below this group."""
        return self._metrics.counters.setdefault(self._path("counter", name), Counter())

    def gauge(self, name: str, obj: Callable[[], float]) -> None:
        """Registers a function that returns the gauge's value."""
        if not callable(obj):
            raise ValueError(f"the gauge '{name}' is a function that returns a number, not {obj!r}")
        self._metrics.gauges[self._path("gauge", name)] = obj

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """The meter of this name below this group."""
        return self._metrics.meters.setdefault(self._path("meter", name), Meter(time_span_in_seconds))

    def distribution(self, name: str) -> Distribution:
        """The distribution of this name below this group."""
        return self._metrics.distributions.setdefault(self._path("distribution", name), Distribution())

    @override
    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        path = f"{name}." if extra is None else f"{name}.{extra}."
        return TaskMetricGroup(self._metrics, self._prefix + path, self._place.below(name, extra))

    def _path(self, what: str, name: str) -> str:
        path = self._prefix + name
        if why := why_unwritable(path):
            raise ValueError(f"the {what} {why}")
        self._metrics.places[path] = (self._place, name)
        return path


def _whole(count: float) -> int:
    """A counter as messages hold it: a whole number of 64 bits. The value that a function added may be of any type."""
    if count != count:  # not a number
        return 0
    return int(max(-_LARGEST_COUNT, min(count, _LARGEST_COUNT)))
