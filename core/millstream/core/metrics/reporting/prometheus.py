"""The Prometheus reporter: an endpoint of the process at which Prometheus scrapes, with Flink's names and labels.

`flink_taskmanager_job_task_numRecordsIn{job_id=..., task_name=..., subtask_index=...}`. As in Flink's reporter,
counters and meters are gauges, a meter with its rate, and histograms are summaries. A task manager shows the figures of
its slot workers as well, so that there is one endpoint for a task manager.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import Iterator
from http import HTTPStatus

from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import CollectorRegistry

from millstream.core.errors import ConfigurationError, MillstreamError
from millstream.core.metrics.descriptions import meaning_of
from millstream.core.metrics.model import HistogramReading, MeterReading, MetricGroup
from millstream.core.metrics.reporting.reporter import PREFIX, MetricReporter, Read, figures
from millstream.core.metrics.reporting.settings import ReporterSettings
from millstream.core.overriding import override
from millstream.core.processes.forking import keep_port_from_children
from millstream.core.processes.plain_http import PlainRequest, PlainResponse, serve_plain
from millstream.core.settings.options.metrics import (
    REPORTER_FILTER_LABEL_VALUE_CHARACTERS,
    REPORTER_HOST,
    REPORTER_PORT,
)

log = logging.getLogger(__name__)
_INVALID = re.compile(r"[^a-zA-Z0-9:_]")
_INVALID_LABEL = re.compile(r"[^a-zA-Z0-9_]")
_QUANTILES = {"0.5": "p50", "0.75": "p75", "0.95": "p95", "0.98": "p98", "0.99": "p99", "0.999": "p999"}


class PrometheusReporter(MetricReporter):
    """Listens on the first free port of its range."""

    is_asked = True

    def __init__(self, settings: ReporterSettings) -> None:
        super().__init__(settings)
        self.address = ""
        self._ports = ports(settings.get(REPORTER_PORT), settings.key("port"))
        self._filters_values = settings.get(REPORTER_FILTER_LABEL_VALUE_CHARACTERS)
        self._server: asyncio.Server | None = None

    @override
    async def open(self, read: Read) -> None:
        host = self.settings.get(REPORTER_HOST)

        async def respond(request: PlainRequest) -> PlainResponse:
            if request.path not in ("/metrics", "/"):
                return PlainResponse(HTTPStatus.NOT_FOUND, b"there is /metrics\n")
            groups = read()  # on the loop; what follows may take its time
            return await asyncio.to_thread(self._exposed, groups, request.accept)

        for port in self._ports:
            try:
                self._server = await serve_plain(respond, host, port)
            except OSError:
                continue
            self.address = f"{host}:{self._server.sockets[0].getsockname()[1]}"
            keep_port_from_children(self.address)
            log.info("serving metrics for Prometheus at http://%s/metrics", self.address)
            return
        raise MillstreamError(
            f"no port of {self.settings.key('port')} ({self.settings.get(REPORTER_PORT)}) is free on {host}: there has "
            "to be one for each service of the host"
        )

    @override
    async def close(self) -> None:
        if self._server is not None:
            self._server.close()

    def _exposed(self, groups: list[MetricGroup], accept: str) -> PlainResponse:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collected(list(families(groups, self._filters_values))))
        encoder, content_type = choose_encoder(accept)
        return PlainResponse(HTTPStatus.OK, encoder(registry), content_type)


class _Collected:
    """The metrics of one scrape, in the form that prometheus_client requires."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> list[Metric]:
        return self._metrics

    def describe(self) -> list[Metric]:
        return []


def ports(text: str, key: str) -> list[int]:
    """Parses `9249`, `9249-9260` or `9249,9251-9253`; 0 is any port. Raises ConfigurationError."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        try:
            start, end = int(first), int(last) if dash else int(first)
        except ValueError:
            start, end = 1, 0
        if not 0 <= start <= end <= 65535:
            raise ConfigurationError(f"option '{key}': '{text}' is neither a port nor a range such as 9249-9260")
        found += range(start, end + 1)
    return found


def prometheus_name(parts: tuple[str, ...]) -> str:
    """Returns a figure's name, with characters that Prometheus does not accept replaced."""
    return _INVALID.sub("_", "_".join((PREFIX, *parts)))


def families(groups: list[MetricGroup], filters_values: bool = True) -> Iterator[Metric]:
    """Iterates over all figures by name. Of two that Prometheus cannot distinguish, the first is used."""
    found: dict[str, Metric] = {}
    seen: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    known: dict[int, tuple[dict[str, str], tuple[tuple[str, str], ...]]] = {}
    for figure in figures(groups):
        name = prometheus_name(figure.parts)
        labels, which = known.get(id(figure.variables)) or known.setdefault(
            id(figure.variables), _labels(figure.variables, filters_values)
        )
        is_summary = isinstance(figure.value, HistogramReading)
        metric = found.get(name)
        if metric is None:
            metric = found[name] = Metric(name, meaning_of(figure.parts[-1]), "summary" if is_summary else "gauge")
        if (name, which) in seen or is_summary != (metric.type == "summary"):
            continue
        seen.add((name, which))
        match figure.value:
            case HistogramReading() as spread:
                for quantile, attribute in _QUANTILES.items():
                    metric.add_sample(name, {**labels, "quantile": quantile}, getattr(spread, attribute))
                metric.add_sample(f"{name}_count", labels, spread.count)
            case MeterReading(_, rate):
                metric.add_sample(name, labels, rate)
            case value:
                metric.add_sample(name, labels, value if math.isfinite(value) else math.nan)
    yield from found.values()


def _labels(
    variables: dict[str, str], filters_values: bool
) -> tuple[dict[str, str], tuple[tuple[str, str], ...]]:
    labels = {
        _INVALID_LABEL.sub("_", name): _INVALID.sub("_", value) if filters_values else value
        for name, value in variables.items()
        if name and not name[0].isdigit()
    }
    return labels, tuple(sorted(labels.items()))
