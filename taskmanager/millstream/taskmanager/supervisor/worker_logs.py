"""The log files of a task manager and of its slot workers.

    taskmanager-1.log, .out                       its own
    taskmanager-1.<job id>.slot-<n>.log, .out     what the worker of a job in a slot logs and prints

Workers append, so that a restarted one continues in the same file; each keeps its own within bounds. Files of ended
jobs are removed when there are more than `env.log.max` of those.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from pathlib import Path

from millstream.core.files.directories import make_private
from millstream.core.logs.log_files import log_folder, open_to_append, output_files, output_path
from millstream.core.logs.log_reading import list_logs, read_ends, read_piece
from millstream.core.messages.logs import LogContent, LogFile
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options import OPTIONS
from millstream.core.settings.options.execution import EXECUTION_LOCAL_LOG_FILE
from millstream.core.settings.options.services import ENV_LOG_DIR, ENV_LOG_MAX, ENV_LOG_MAX_SIZE, LOGGING_STDERR_LEVEL

_OF_HOST: tuple[str, ...] = (ENV_LOG_DIR, ENV_LOG_MAX, ENV_LOG_MAX_SIZE, LOGGING_STDERR_LEVEL, EXECUTION_LOCAL_LOG_FILE)


class WorkerLogs:
    """Of one task manager. Without `env.log.dir`, workers write where it does, and there is nothing to list."""

    def __init__(self, configuration: Configuration) -> None:
        given = configuration.to_dict()
        self.options = {key: given.get(key, OPTIONS[key].default) for key in _OF_HOST}  # a job cannot set these
        self._folder = log_folder(configuration)
        self._kept = configuration.get(ENV_LOG_MAX)
        self._own = output_files(self._folder)
        self._name = self._own[2].name.removesuffix(".log") if 2 in self._own else "taskmanager"

    def open(self, job_id: str, slot: int) -> tuple[int, int] | None:
        """Descriptors for the standard output and error of a worker, to be closed once it has started."""
        if self._folder is None:
            return None
        make_private(self._folder)
        path = self._folder / f"{self._name}.{job_id}.slot-{slot}"
        output = open_to_append(path.with_name(f"{path.name}.out"))
        try:
            return output, open_to_append(path.with_name(f"{path.name}.log"))
        except BaseException:
            os.close(output)
            raise

    def remove_old(self, running: Collection[str]) -> None:
        """Removes the files of jobs that ended, all but the newest. Blocks for files."""
        newest: dict[str, int] = {}
        for file in self.files():
            job = self._job_of(file.name)
            if job and job not in running:
                newest[job] = max(newest.get(job, 0), file.modified)
        kept = set(sorted(newest, key=lambda job: newest[job], reverse=True)[: self._kept])
        for file in self.files():
            if (job := self._job_of(file.name)) in newest and job not in kept:
                with contextlib.suppress(OSError):
                    self._path(file.name).unlink()

    def files(self) -> list[LogFile]:
        """All log files, those of ended jobs included."""
        return list_logs(self._folder, lambda name: name.startswith(f"{self._name}."))

    def read(self, name: str, offset: int | None, length: int) -> LogContent | None:
        """A piece of a file; `log` is the task manager's own, `stdout` everything printed. None: no such file."""
        if name == "log":
            return read_piece(self._own.get(2) or output_path(2), offset, length)
        if name == "stdout":
            return read_ends(self._printed(), length)
        if not any(file.name == name for file in self.files()):
            return None
        return read_piece(self._path(name), offset, length)

    def _printed(self) -> list[Path]:
        """What the task manager and its workers printed, the newest last."""
        workers = [file for file in self.files() if self._job_of(file.name) and file.name.endswith(".out")]
        workers.sort(key=lambda file: file.modified)
        own = self._own.get(1) or output_path(1)
        return [own, *(self._path(file.name) for file in workers)]

    def _job_of(self, name: str) -> str:
        job, separator, _ = name.removeprefix(f"{self._name}.").partition(".slot-")
        return job if separator else ""

    def _path(self, name: str) -> Path:
        assert self._folder is not None, "nothing is listed without a folder"
        return self._folder / name
