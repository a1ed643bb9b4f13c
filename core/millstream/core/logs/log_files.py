"""The files that a process's standard output and standard error go to, kept within bounds.

The starter of the process opens them below `env.log.dir`, to append, so that a process which dies at once leaves its
reason there and what an earlier one wrote stays. The process itself moves a file that has grown too large aside and
puts a new one in its place: one system call exchanges the descriptor, so no line is lost, of any writer. Children
that share the files only follow.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

from msgspec import Struct

from millstream.core.files.directories import for_user_only
from millstream.core.linux.descriptors import path_of
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.services import ENV_LOG_DIR, ENV_LOG_MAX, ENV_LOG_MAX_SIZE

_INTERVAL = 1.0
_DESCRIPTORS = (1, 2)


class LogBounds(Struct, frozen=True):
    """How large a file gets before it is moved aside, and how many of those are kept."""

    size: int
    kept: int

    @staticmethod
    def of(configuration: Configuration) -> LogBounds:
        """The bounds that the options set."""
        return LogBounds(configuration.get(ENV_LOG_MAX_SIZE), configuration.get(ENV_LOG_MAX))


class OutputFile:
    """The file behind a descriptor of this process."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self._path = path

    def keep_within(self, bounds: LogBounds) -> None:
        """Moves the file aside when it is too large. Only its owner does that."""
        here, named = self._same_file()
        if here is not None and here == named and os.fstat(self._descriptor).st_size > bounds.size:
            if bounds.kept:
                move_aside(self._path, bounds.kept)
                self._open()
            else:
                os.ftruncate(self._descriptor, 0)

    def follow(self) -> None:
        """Continues in the file of this name when the owner has exchanged it."""
        here, named = self._same_file()
        if here is not None and named is not None and here != named:
            self._open()

    def _same_file(self) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
        """Device and number of the file that is written to, and of the one that has its name."""
        found: list[tuple[int, int] | None] = []
        for target in (self._descriptor, self._path):
            try:
                status = os.stat(target)
                found.append((status.st_dev, status.st_ino))
            except OSError:
                found.append(None)
        return found[0], found[1]

    def _open(self) -> None:
        new = open_to_append(self._path)
        try:
            os.dup2(new, self._descriptor)
        finally:
            os.close(new)


def move_aside(path: Path, kept: int) -> None:
    """Gives the file the name of the newest that was moved aside, and those before it the next ones."""
    for number in range(kept - 1, 0, -1):
        with contextlib.suppress(FileNotFoundError):
            rotated(path, number).replace(rotated(path, number + 1))
    path.replace(rotated(path, 1))


def rotated(path: Path, number: int) -> Path:
    """The name of a file that was moved aside; 1 is the newest."""
    return path.with_name(f"{path.name}.{number}")


def log_folder(configuration: Configuration) -> Path | None:
    """The folder of `env.log.dir`; None when it is not set."""
    folder = configuration.get(ENV_LOG_DIR)
    return Path(folder) if folder else None


def output_files(folder: Path | None) -> dict[int, Path]:
    """The files of standard output (1) and standard error (2), as far as they are files in that folder."""
    found: dict[int, Path] = {}
    for descriptor in _DESCRIPTORS:
        with contextlib.suppress(OSError):
            path = path_of(descriptor)
            if path is not None and folder is not None and path.is_file() and path.parent.samefile(folder):
                found[descriptor] = path
    return found


def output_path(descriptor: int) -> Path:
    """The file that standard output (1) or standard error (2) is written to; the null device when it is no file."""
    return path_of(descriptor) or Path(os.devnull)


def open_to_append(path: Path) -> int:
    """A descriptor for a process that is about to start; private to this user, as are all log files."""
    return for_user_only(str(path), os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def bound_output(configuration: Configuration, owner: bool = True) -> None:
    """Keeps this process's files within bounds, on a thread. Does nothing when they are not in `env.log.dir`."""
    files = [OutputFile(number, path) for number, path in output_files(log_folder(configuration)).items()]
    bounds = LogBounds.of(configuration)

    def watch() -> None:
        while True:
            for file in files:
                with contextlib.suppress(OSError):  # a full disk, or a folder that is gone: the next time, maybe
                    if owner:
                        file.keep_within(bounds)
                    else:
                        file.follow()
            pause.wait(_INTERVAL)

    if files:
        pause = threading.Event()
        threading.Thread(target=watch, name="millstream logs", daemon=True).start()
