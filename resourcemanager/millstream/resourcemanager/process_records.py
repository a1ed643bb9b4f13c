"""Processes that were started in the background, as files that the process which stops them later can trust.

A record names a process by its id and its start time, so an id that the system gave to another process in the
meantime is never mistaken for it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import asdict

from millstream.core.files.directories import for_user_only, make_private
from millstream.core.linux.processes import process_ids, status_of, variables_of


class ProcessRecord(Struct, frozen=True):
    """One started process: the service that it runs, who it is, and what its starter wants to remember of it."""

    service: str
    pid: int
    start_time: int
    details: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def of(service: str, pid: int, details: dict[str, str] | None = None) -> ProcessRecord:
        """Records a process that this one just started and has not waited for."""
        return ProcessRecord(service, pid, start_time(pid) or 0, details or {})

    def is_running(self) -> bool:
        """Whether this very process exists and is not merely waiting to be reaped."""
        status = status_of(self.pid)
        return status is not None and status.is_alive and status.start_time == self.start_time

    def signal_group(self, number: signal.Signals) -> None:
        """Signals the process and its group, when it leads one; nothing happens when it is gone."""
        if not self.is_running():
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getpgid(self.pid) == self.pid:
                os.killpg(self.pid, number)
            else:
                os.kill(self.pid, number)

    def write(self, path: Path) -> None:
        """Replaces the file as a whole, readable by this user only."""
        make_private(path.parent)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        with open(temporary, "w", opener=for_user_only) as file:
            file.write(json.dumps(asdict(self)))
        temporary.replace(path)

    @staticmethod
    def read(path: Path) -> ProcessRecord | None:
        """What the file holds; None when it is gone or is no record."""
        try:
            content = json.loads(path.read_text())
            return ProcessRecord(
                str(content["service"]), int(content["pid"]), int(content["start_time"]), dict(content["details"])
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None


def read_records(directory: Path) -> dict[Path, ProcessRecord]:
    """Every record in a directory, by file, in order of the files' names."""
    records = {path: ProcessRecord.read(path) for path in sorted(directory.glob("*.json"))}
    return {path: record for path, record in records.items() if record is not None}


def processes_with(variable: str, value: str) -> list[ProcessRecord]:
    """The processes of this user that were started with this environment variable, this process excepted."""
    wanted = f"{variable}={value}".encode()
    found = []
    for pid in process_ids():
        began = start_time(pid) if pid != os.getpid() else None
        if began is not None and wanted in variables_of(pid):
            found.append(ProcessRecord("unknown", pid, began))
    return [record for record in found if record.is_running()]


def values_of(variable: str) -> set[str]:
    """What processes of this user have in this environment variable."""
    start = f"{variable}=".encode()
    return {
        os.fsdecode(item[len(start) :])
        for pid in process_ids()
        for item in variables_of(pid)
        if item.startswith(start)
    }


def start_time(pid: int) -> int | None:
    """When the process started, as the system counts it; None when there is no such process."""
    status = status_of(pid)
    return None if status is None else status.start_time
