"""The receiving end of each reporter in tests: a scraper, a collector of OTLP, a reader of files.

Each returns what it received: the last value of each metric, by its name (with underscores) and its labels.
"""

from __future__ import annotations

import asyncio
import http.server
import json
import math
import threading
import urllib.request
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from prometheus_client.parser import text_string_to_metric_families

from millstream.core.metrics.reporting.file import FileReporter
from millstream.core.metrics.reporting.prometheus import PrometheusReporter
from millstream.core.metrics.reporting.reporters import Reporters

Got = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Rig(ABC):
    """One kind of reporter."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def options(self) -> dict[str, Any]:
        """The reporter's own settings."""

    @abstractmethod
    async def got(self, reporters: Reporters) -> Got:
        """The metrics received so far; a reporter that is polled is polled now."""

    def close(self) -> None:
        """Called at the end, to release its resources."""
        return


class PrometheusRig(Rig):
    def options(self) -> dict[str, Any]:
        return {"factory.class": "prometheus", "port": "0", "filterLabelValueCharacters": "false"}

    async def got(self, reporters: Reporters) -> Got:
        (reporter,) = reporters.made
        assert isinstance(reporter, PrometheusReporter)
        if not reporter.address:
            return {}
        text = await asyncio.to_thread(scrape, reporter.address)
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }


def scrape(address: str) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{address}/metrics", timeout=30) as response:
        assert response.headers["content-type"].startswith("text/plain")
        return str(response.read().decode())


class OtelRig(Rig):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.requests: list[ExportMetricsServiceRequest] = []
        self.status = 200
        rig = self

        class Collector(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                assert (self.path, self.headers["content-type"]) == ("/v1/metrics", "application/json")
                rig.requests.append(json_format.Parse(body, ExportMetricsServiceRequest()))
                self.send_response(rig.status)
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, format: str, *args: Any) -> None: ...

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def options(self) -> dict[str, Any]:
        endpoint = f"http://127.0.0.1:{self._server.server_port}"
        return {"factory.class": "otel", "exporter.endpoint": endpoint, "interval": "10 ms"}

    async def got(self, reporters: Reporters) -> Got:
        found: Got = {}
        for request in self.requests[-1:]:
            for resource in request.resource_metrics:
                for metric in resource.scope_metrics[0].metrics:
                    found.update(_points(metric))
        return found

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _points(metric: Any) -> Got:
    kind = metric.WhichOneof("data")
    name = metric.name.replace(".", "_")
    found: Got = {}
    for point in getattr(metric, kind).data_points:
        labels = {attribute.key: attribute.value.string_value for attribute in point.attributes}
        if kind == "summary":
            found[f"{name}_count", frozenset(labels.items())] = point.count
            for q in point.quantile_values:
                found[name, frozenset({**labels, "quantile": f"{q.quantile:g}"}.items())] = q.value
        else:
            found[name, frozenset(labels.items())] = getattr(point, point.WhichOneof("value"))
    return found


class FileRig(Rig):
    def options(self) -> dict[str, Any]:
        return {"factory.class": "file", "directory": str(self.folder / "metrics"), "interval": "10 ms"}

    async def got(self, reporters: Reporters) -> Got:
        (reporter,) = reporters.made
        assert isinstance(reporter, FileReporter)
        found: Got = {}
        for line in reporter.path.read_text().splitlines() if reporter.path.exists() else []:
            _, _, figure = line.partition(" ")
            name, _, rest = figure.partition("{")
            labels, _, value = rest.rpartition("} ")
            key = name.replace(".", "_")
            quantile = {"_median": "0.5", "_p99": "0.99"}
            more: dict[str, str] = {}
            for end, q in quantile.items():
                if key.endswith(end):
                    key, more = key.removesuffix(end), {"quantile": q}
            parsed = json.loads("{" + ",".join(f'"{p.replace("=", chr(34) + ":", 1)}' for p in _split(labels)) + "}")
            found[key, frozenset({**parsed, **more}.items())] = float(value) if value else math.nan
        return found


def _split(labels: str) -> list[str]:
    """Splits at commas that are not inside of a value."""
    parts, inside, current = [], False, ""
    for character in labels:
        inside ^= character == '"'
        if character == "," and not inside:
            parts.append(current)
            current = ""
        else:
            current += character
    return [*parts, current] if current else parts
