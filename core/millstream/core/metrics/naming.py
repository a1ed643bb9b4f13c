"""The names of figures in the REST API: Flink's ids, with characters that act as separators replaced."""

from __future__ import annotations

from collections.abc import Iterator

from millstream.core.metrics.model import HistogramReading, MetricGroup, Number, Scope

_REPLACED = str.maketrans(" .:,", "____")
_IN_NAMES = str.maketrans(" :,", "___")
_SPREAD = {
    "min": "min", "max": "max", "mean": "mean", "median": "p50", "stddev": "stddev", "p75": "p75", "p90": "p90",
    "p95": "p95", "p98": "p98", "p99": "p99", "p999": "p999", "count": "count",
}  # fmt: skip
"""The fields of a histogram, by the suffixes of ids."""


def readable(part: str) -> str:
    """Returns a name, such as an operator's, as a part of an id."""
    return part.translate(_REPLACED)


def metric_id(path: str) -> str:
    """Returns an id from a dotted path."""
    return path.translate(_IN_NAMES)


def values_of(group: MetricGroup) -> Iterator[tuple[str, Number]]:
    """Iterates over a group's figures by their ids, without the variables of subtask or job; meters by their rate."""
    prefix = "".join(f"{readable(part)}." for part in group.path)
    if group.scope is Scope.OPERATOR or group.scope is Scope.JOB_MANAGER_OPERATOR:
        prefix = f"{readable(group.variables.get('operator_name', ''))}.{prefix}"
    for name, count in group.counters.items():
        yield metric_id(prefix + name), count
    for name, value in group.gauges.items():
        yield metric_id(prefix + name), value
    for name, meter in group.meters.items():
        yield metric_id(prefix + name), meter.rate
    for name, histogram in group.histograms.items():
        yield from spread_ids(metric_id(prefix + name), histogram)


def spread_ids(name: str, histogram: HistogramReading) -> Iterator[tuple[str, Number]]:
    """Iterates over a histogram's figures as Flink shows them."""
    for end, attribute in _SPREAD.items():
        yield f"{name}_{end}", getattr(histogram, attribute)


def written(value: Number) -> str:
    """Formats a value as in the REST API."""
    return str(value) if isinstance(value, int) else f"{value:.15g}"
