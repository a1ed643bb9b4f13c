"""The OpenTelemetry reporter: pushes metrics over OTLP, as JSON over HTTP, which every collector accepts.

Names are Flink's scopes and names with dots (`flink.taskmanager.job.task.numRecordsIn`), variables are attributes.
Counters are cumulative sums from the start of the reporter's process, gauges and the rates of meters are gauges,
histograms are summaries.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import math
import ssl
import time
from typing import Any
from urllib.parse import urlsplit

from millstream.core.errors import ConfigurationError, MillstreamError
from millstream.core.metrics.descriptions import meaning_of, only_grows
from millstream.core.metrics.model import HistogramReading, MeterReading, MetricGroup, MetricKind, Number
from millstream.core.metrics.reporting.reporter import PREFIX, Figure, MetricReporter, figures
from millstream.core.metrics.reporting.settings import ReporterSettings
from millstream.core.settings.options.metrics import (
    REPORTER_EXPORTER_ENDPOINT,
    REPORTER_EXPORTER_TIMEOUT,
    REPORTER_SERVICE_NAME,
    REPORTER_SERVICE_VERSION,
)

_CUMULATIVE = 2
_QUANTILES = {0.0: "min", 0.5: "p50", 0.75: "p75", 0.9: "p90", 0.95: "p95", 0.99: "p99", 0.999: "p999", 1.0: "max"}
_PATH = "/v1/metrics"


class OtelReporter(MetricReporter):
    """Posts to `exporter.endpoint`."""

    def __init__(self, settings: ReporterSettings) -> None:
        super().__init__(settings)
        self._endpoint = settings.get(REPORTER_EXPORTER_ENDPOINT)
        parts = urlsplit(self._endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError(
                f"option '{settings.key('exporter.endpoint')}': '{self._endpoint}' is no address such as "
                f"http://host:4318{_PATH}"
            )
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname, parts.port
        self._path = parts.path if parts.path not in ("", "/") else _PATH
        self._timeout = settings.get(REPORTER_EXPORTER_TIMEOUT)
        self._resource = {
            "service.name": settings.get(REPORTER_SERVICE_NAME),
            "service.version": settings.get(REPORTER_SERVICE_VERSION),
            "service.instance.id": settings.service,
        }
        self._started = time.time_ns()

    async def report(self, groups: list[MetricGroup]) -> None:
        """Sends the current figures. Raises MillstreamError or OSError if that fails."""
        await asyncio.to_thread(self._post, groups, time.time_ns())

    def _post(self, groups: list[MetricGroup], now: int) -> None:
        body = json.dumps(export(groups, self._resource, self._started, now)).encode()
        if self._secure:
            context = ssl.create_default_context()
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                self._host, self._port, timeout=self._timeout, context=context
            )
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        try:
            connection.request("POST", self._path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            detail = response.read(200)
        finally:
            connection.close()
        if response.status >= 300:
            why = detail.decode(errors="replace").strip()
            raise MillstreamError(f"{self._endpoint} returned {response.status} {response.reason}: {why}")


def export(groups: list[MetricGroup], resource: dict[str, str], started: int, now: int) -> dict[str, Any]:
    """An ExportMetricsServiceRequest, in OTLP's JSON. Times are nanoseconds since 1970."""
    metrics: dict[tuple[str, MetricKind], dict[str, Any]] = {}
    for figure in figures(groups):
        point = _point(figure, started, now)
        if point is None:
            continue
        name = ".".join((PREFIX, *figure.parts))
        metric = metrics.get((name, figure.kind))
        if metric is None:
            metric = metrics[name, figure.kind] = {"name": name, "description": meaning_of(figure.parts[-1])}
            metric |= _empty(figure)
        next(value for value in metric.values() if isinstance(value, dict))["dataPoints"].append(point)
    scope = {"scope": {"name": "millstream"}, "metrics": list(metrics.values())}
    about = {"attributes": _attributes({name: value for name, value in resource.items() if value})}
    return {"resourceMetrics": [{"resource": about, "scopeMetrics": [scope]}]}


def _empty(figure: Figure) -> dict[str, Any]:
    match figure.kind:
        case MetricKind.COUNTER:
            grows = only_grows(figure.parts[-1])
            return {"sum": {"aggregationTemporality": _CUMULATIVE, "isMonotonic": grows, "dataPoints": []}}
        case MetricKind.HISTOGRAM:
            return {"summary": {"dataPoints": []}}
        case MetricKind.GAUGE | MetricKind.METER:
            return {"gauge": {"dataPoints": []}}


def _point(figure: Figure, started: int, now: int) -> dict[str, Any] | None:
    point = {"attributes": _attributes(figure.variables), "timeUnixNano": str(now)}
    match figure.value:
        case HistogramReading() as spread:
            quantiles = [{"quantile": q, "value": getattr(spread, name)} for q, name in _QUANTILES.items()]
            since = {"startTimeUnixNano": str(started)}
            return {**point, **since, "count": str(spread.count), "quantileValues": quantiles}
        case MeterReading(_, rate):
            return {**point, **_number(rate)}
        case value if not math.isfinite(value):
            return None
        case value:
            since = {"startTimeUnixNano": str(started)} if figure.kind is MetricKind.COUNTER else {}
            return {**point, **since, **_number(value)}


def _number(value: Number) -> dict[str, Any]:
    return {"asInt": str(value)} if isinstance(value, int) else {"asDouble": value}


def _attributes(variables: dict[str, str]) -> list[dict[str, Any]]:
    return [{"key": name, "value": {"stringValue": value}} for name, value in variables.items()]
