"""Requests for log files, and their responses: from any service, and from a process that reads its own."""

from __future__ import annotations

from msgspec import Struct


class ReadLogRequest(Struct, frozen=True):
    """A piece of a log file."""

    name: str
    """`log`, `stdout` or the name of a file that `ListLogs` returns."""
    offset: int | None = None
    """Negative: from the end; None: the end of the file."""
    length: int = 0
    """0: as much as one response holds."""


class LogContent(Struct, frozen=True):
    """Bytes of a log file."""

    content: bytes
    start: int
    """Where in the file it begins."""
    size: int
    """Of the whole file."""


class LogFile(Struct, frozen=True):
    """A log file, as `/taskmanagers/:id/logs` lists it; `modified` in milliseconds."""

    name: str
    size: int
    modified: int


class LogList(Struct, frozen=True):
    """All log files of a service."""

    files: tuple[LogFile, ...] = ()
