"""The interface of reporters: plug-ins that export the metrics of a service.

A package registers a reporter under the entry point group `millstream.metric_reporters`: the name is what users set for
`metrics.reporter.<name>.factory.class`, the object a class that derives from `MetricReporter`. `tests/core/metrics` has
the suite that every reporter passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from millstream.core.metrics.model import HistogramReading, MeterReading, MetricGroup, MetricKind, Number
from millstream.core.metrics.reporting.settings import ReporterSettings

Read = Callable[[], list[MetricGroup]]
PREFIX = "flink"
"""The prefix of exported names, so that Flink's dashboards and alerts find them."""


class Figure(Struct, frozen=True):
    """One figure with the names that reporters use: its scope and groups, and its variables."""

    parts: tuple[str, ...]
    kind: MetricKind
    value: Number | MeterReading | HistogramReading
    variables: dict[str, str]


class MetricReporter:
    """Base of all reporters. Created when its service starts; all methods are called on the service's loop."""

    def __init__(self, settings: ReporterSettings) -> None:
        self.settings = settings

    is_asked = False
    """Whether metrics are pulled, by `read` of `open`: then `report` is not called."""

    async def open(self, read: Read) -> None:
        """Called before the first report. `read` returns all current metrics, and is called on the service's loop.

        Raises MillstreamError if nothing can be reported: the service continues without the reporter.
        """

    async def report(self, groups: list[MetricGroup]) -> None:
        """Called once per interval. An error is logged once, until it succeeds again. Blocking work needs a thread."""

    async def close(self) -> None:
        """Called when the service stops, also after a failed `open`."""


def figures(groups: list[MetricGroup]) -> Iterator[Figure]:
    """Iterates over all figures of the groups."""
    for group in groups:
        scope = (*group.scope.split("."), *group.logical)
        variables = group.variables
        for name, count in group.counters.items():
            yield Figure((*scope, name), MetricKind.COUNTER, count, variables)
        for name, value in group.gauges.items():
            yield Figure((*scope, name), MetricKind.GAUGE, value, variables)
        for name, meter in group.meters.items():
            yield Figure((*scope, name), MetricKind.METER, meter, variables)
        for name, histogram in group.histograms.items():
            yield Figure((*scope, name), MetricKind.HISTOGRAM, histogram, variables)
