"""Requests for log files and their responses, for any service and for a process that reads its own."""

from __future__ import annotations

from msgspec import Struct


class ReadLogRequest(Struct, frozen=True):
    """Requests a part of a log file."""

    name: str
    """`log`, `stdout` or the name of a file that `ListLogs` returns."""
    offset: int | None = None
    """The offset; negative: from the end; None: the end of the file."""
    length: int = 0
    """The length; 0: the maximum of one response."""


class LogContent(Struct, frozen=True):
    """Bytes of a log file."""

    content: bytes
    start: int
    """The offset in the file."""
    size: int
    """The size of the whole file."""


class LogFile(Struct, frozen=True):
    """A log file, as `/taskmanagers/:id/logs` lists it; `modified` in milliseconds."""

    name: str
    size: int
    modified: int


class LogList(Struct, frozen=True):
    """All log files of a service."""

    files: tuple[LogFile, ...] = ()
