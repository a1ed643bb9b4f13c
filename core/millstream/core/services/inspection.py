"""Inspection of a service's own process: metrics, threads and log files.

Serves the contract `Inspection`. Log files are those that this process writes its output to, and rotated ones.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, Protocol

import grpc

from millstream.core.inspection.threads import dump_threads
from millstream.core.logs.log_files import log_folder, output_files, output_path
from millstream.core.logs.log_reading import LIMIT, list_logs, read_piece
from millstream.core.messages.inspection import ProcessThreads, ThreadDump
from millstream.core.messages.logs import LogContent, LogFile, LogList, ReadLogRequest
from millstream.core.messages.metrics import ProcessMetrics
from millstream.core.messages.session import Empty
from millstream.core.metrics.model import encode_groups
from millstream.core.metrics.registry import MetricRegistry
from millstream.core.services.rpc import service_handler
from millstream.core.settings.configuration import Configuration
from millstream.core.wire.contracts import INSPECTION

_OWN = {"log": 2, "stdout": 1}


class OwnLogs:
    """The files of this process's standard output and error. Blocks for files."""

    def __init__(self, configuration: Configuration) -> None:
        self._folder = log_folder(configuration)

    def files(self) -> list[LogFile]:
        """Lists the files, including rotated ones; empty unless the output is written to files of `env.log.dir`."""
        names = {path.name for path in output_files(self._folder).values()}
        return list_logs(self._folder, lambda name: _unrotated(name) in names or name in names)

    def read(self, name: str, offset: int | None, length: int) -> LogContent | None:
        """Reads a part of a file; returns None if there is no such file."""
        if name in _OWN:
            return read_piece(self._own(_OWN[name]), offset, length)
        if self._folder is None or not any(file.name == name for file in self.files()):
            return None
        return read_piece(self._folder / name, offset, length)

    def _own(self, descriptor: int) -> Path:
        return output_files(self._folder).get(descriptor) or output_path(descriptor)


def _unrotated(name: str) -> str:
    kept, _, number = name.rpartition(".")
    return kept if number.isdigit() else name


class ShownLogs(Protocol):
    """Log files that a service shows. Blocks for files."""

    def files(self) -> list[LogFile]:
        """Lists the files."""
        ...

    def read(self, name: str, offset: int | None, length: int) -> LogContent | None:
        """Reads a part of a file; `log` and `stdout` are the service's own. Returns None if there is no such file."""
        ...


class ProcessInspection:
    """Implements the contract, with one method for each of its calls."""

    def __init__(self, logs: ShownLogs, metrics: MetricRegistry) -> None:
        self._logs = logs
        self._metrics = metrics

    async def dump_threads(self, request: Empty, context: Any) -> ThreadDump:
        """Returns the threads of this process."""
        return ThreadDump((await own_threads(),))

    async def read_log(self, request: ReadLogRequest, context: Any) -> LogContent:
        """Returns a part of a log file, or its end."""
        piece = await asyncio.to_thread(self._logs.read, request.name, request.offset, request.length or LIMIT)
        if piece is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"this service has no log '{request.name[:200]}'")
            raise AssertionError("abort raises")
        return piece

    async def list_logs(self, request: Empty, context: Any) -> LogList:
        """Returns the list of log files."""
        return LogList(tuple(await asyncio.to_thread(self._logs.files)))

    async def get_metrics(self, request: Empty, context: Any) -> ProcessMetrics:
        """Returns the current metrics of the service."""
        return ProcessMetrics(encode_groups(self._metrics.read()))


async def own_threads() -> ProcessThreads:
    """Returns the threads of this process; runs on a thread, because source lines are read from files."""
    return ProcessThreads("", os.getpid(), await asyncio.to_thread(dump_threads))


def inspection_handler(configuration: Configuration, metrics: MetricRegistry) -> grpc.GenericRpcHandler:
    """Returns the handler for services that inspect only their own process."""
    return service_handler(INSPECTION, ProcessInspection(OwnLogs(configuration), metrics))
