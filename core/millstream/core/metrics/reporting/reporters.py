"""Loads, opens and closes the reporters of one service, and calls them at their intervals. Owned by the service's loop.

A mistake in the configuration prevents the service from starting. Later errors do not affect it: the failure of a
reporter is logged once, and the reporter is retried.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from functools import partial
from typing import Any

from millstream.core.errors import ConfigurationError, MillstreamError
from millstream.core.logs.tracebacks import one_line
from millstream.core.metrics.model import MetricGroup
from millstream.core.metrics.registry import MetricRegistry
from millstream.core.metrics.reporting.reporter import MetricReporter
from millstream.core.metrics.reporting.settings import ReporterSettings, reporter_settings
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.metrics import REPORTER_INTERVAL

log = logging.getLogger(__name__)
ENTRY_POINTS = "millstream.metric_reporters"
_HERE = "millstream.core.metrics.reporting"
_OWN = {
    "prometheus": f"{_HERE}.prometheus:PrometheusReporter",
    "otel": f"{_HERE}.otel:OtelReporter",
    "file": f"{_HERE}.file:FileReporter",
}
_FLINKS = {
    "org.apache.flink.metrics.prometheus.PrometheusReporterFactory": "prometheus",
    "org.apache.flink.metrics.otel.OpenTelemetryMetricReporterFactory": "otel",
}


class Reporters:
    """The reporters of one service."""

    def __init__(self, service: str, configuration: Configuration, registry: MetricRegistry) -> None:
        """Raises ConfigurationError."""
        self._registry = registry
        self.made = [_reporter_class(s)(s) for s in reporter_settings(configuration, service)]
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Opens the reporters, and starts reporting."""
        for reporter in self.made:
            try:
                await reporter.open(partial(self._read_for, reporter))
            except MillstreamError as error:
                log.warning("reporter %s: opening it failed: %s", reporter.settings.name, error)
                continue
            if not reporter.is_asked:
                self._tasks.append(asyncio.get_running_loop().create_task(self._keep_reporting(reporter)))

    async def stop(self) -> None:
        """Stops reporting, and closes the reporters."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        for reporter in self.made:
            await reporter.close()

    def _read_for(self, reporter: MetricReporter) -> list[MetricGroup]:
        return reporter.settings.shown(self._registry.read())

    async def _keep_reporting(self, reporter: MetricReporter) -> None:
        interval, failed = reporter.settings.get(REPORTER_INTERVAL), False
        while True:
            await asyncio.sleep(interval)
            try:
                await reporter.report(self._read_for(reporter))
            except Exception as error:
                if not failed:
                    log.warning("reporter %s: reporting failed: %s", reporter.settings.name, one_line(error))
                failed = True
            else:
                if failed:
                    log.info("reporter %s: reporting again", reporter.settings.name)
                failed = False


def _reporter_class(settings: ReporterSettings) -> type[MetricReporter]:
    kind, key = _FLINKS.get(settings.kind, settings.kind), settings.key("factory.class")
    try:
        found: Any = _load(_OWN[kind]) if kind in _OWN else _load(kind) if ":" in kind else _plug_in(kind)
    except ImportError as error:
        hint = "; install millstream[prometheus]" if kind == "prometheus" else ""
        raise ConfigurationError(f"option '{key}': '{kind}' cannot be imported: {error}{hint}") from error
    if found is None:
        raise ConfigurationError(
            f"option '{key}': there is no reporter '{kind}'; there are {', '.join(_OWN)}, plug-ins with an entry point "
            f"in the group {ENTRY_POINTS}, and classes as package.module:Class"
        )
    if not isinstance(found, type) or not issubclass(found, MetricReporter):
        raise ConfigurationError(f"option '{key}': '{kind}' is not a class that derives from {MetricReporter.__name__}")
    return found


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name, None)


def _plug_in(name: str) -> Any:
    from importlib.metadata import entry_points

    for entry_point in entry_points(group=ENTRY_POINTS, name=name):
        return entry_point.load()
    return None
