"""Metrics of functions, with PyFlink's names; registered with `RuntimeContext.get_metrics_group()`."""

from __future__ import annotations

from millstream.metrics.metricbase import Counter, Distribution, Meter, MetricGroup

__all__ = ["Counter", "Distribution", "Meter", "MetricGroup"]
