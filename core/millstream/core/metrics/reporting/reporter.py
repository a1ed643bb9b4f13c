"""What a reporter is: a plug-in that carries metrics out of a service.

A package brings its own under the entry point group `millstream.metric_reporters`: the name is what users write for
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
"""What exported names begin with, so that Flink's dashboards and alerts find them."""


class Figure(Struct, frozen=True):
    """One figure as reporters name it: by its scope and groups, with the variables beside it."""

    parts: tuple[str, ...]
    kind: MetricKind
    value: Number | MeterReading | HistogramReading
    variables: dict[str, str]


class MetricReporter:
    """Base of all reporters. Made when its service starts; all of its methods are called on the service's loop."""

    def __init__(self, settings: ReporterSettings) -> None:
        self.settings = settings

    is_asked = False
    """Whether others come for the metrics, by `read` of `open`: then nothing is handed to `report`."""

    async def open(self, read: Read) -> None:
        """Before the first report. `read` returns all metrics at this moment, and is called on the service's loop.

        Raises MillstreamError when nothing can be reported: the service continues without.
        """

    async def report(self, groups: list[MetricGroup]) -> None:
        """Once in each interval. What it raises is logged once, until it works again. Blocking work is for a thread."""

    async def close(self) -> None:
        """When the service stops, also after a failed `open`."""


def figures(groups: list[MetricGroup]) -> Iterator[Figure]:
    """All figures of some groups."""
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
