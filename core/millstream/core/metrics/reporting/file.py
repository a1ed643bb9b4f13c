"""The file reporter: appends a line for each figure to a file of the service.

    2026-11-18T08:00:00.000Z flink.taskmanager.job.task.numRecordsIn{job_name="count",subtask_index="0"} 12345

A file that has grown to `max-size` is renamed to `.1`, which replaces the previous one, and a new one is started.
"""

from __future__ import annotations

import asyncio
import json
import os
from datetime import UTC, datetime
from pathlib import Path

from millstream.core.errors import ConfigurationError, MillstreamError
from millstream.core.metrics.model import HistogramReading, MeterReading, MetricGroup
from millstream.core.metrics.naming import spread_ids, written
from millstream.core.metrics.reporting.reporter import PREFIX, MetricReporter, Read, figures
from millstream.core.metrics.reporting.settings import ReporterSettings
from millstream.core.overriding import override
from millstream.core.settings.options.metrics import REPORTER_DIRECTORY, REPORTER_MAX_SIZE


class FileReporter(MetricReporter):
    """Writes into `directory`, a file for each service of the host."""

    def __init__(self, settings: ReporterSettings) -> None:
        super().__init__(settings)
        folder = settings.get(REPORTER_DIRECTORY)
        if not folder:
            raise ConfigurationError(f"option '{settings.key('directory')}': a file reporter needs a folder")
        self.path = Path(folder) / f"{settings.service}-{os.getpid()}.metrics"
        self._most = settings.get(REPORTER_MAX_SIZE)

    @override
    async def open(self, read: Read) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MillstreamError(f"{self.path.parent}: {error.strerror}") from error

    async def report(self, groups: list[MetricGroup]) -> None:
        """Appends the current figures."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        await asyncio.to_thread(self._append, groups, now)

    def _append(self, groups: list[MetricGroup], now: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(f"{now} {line}\n" for line in lines(groups))
            size = file.tell()
        if size > self._most:
            self.path.replace(self.path.with_name(f"{self.path.name}.1"))


def lines(groups: list[MetricGroup]) -> list[str]:
    """Returns a line for each figure; a histogram has several."""
    found: list[str] = []
    for figure in figures(groups):
        name = ".".join((PREFIX, *figure.parts))
        labels = ",".join(f"{k}={json.dumps(v, ensure_ascii=False)}" for k, v in sorted(figure.variables.items()))
        match figure.value:
            case MeterReading(_, rate):
                found.append(f"{name}{{{labels}}} {written(rate)}")
            case HistogramReading():
                found += [f"{n}{{{labels}}} {written(v)}" for n, v in spread_ids(name, figure.value)]
            case value:
                found.append(f"{name}{{{labels}}} {written(value)}")
    return found
