"""A log file that the processes of one program write to, kept within bounds by whichever of them finds it too large."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
from logging.handlers import WatchedFileHandler
from pathlib import Path

from millstream.core.logs.log_files import LogBounds, move_aside


class SharedFileHandler(WatchedFileHandler):
    """Each event is one write at the end of the file; one that another process has moved aside is opened again."""

    def __init__(self, file: str, bounds: LogBounds) -> None:
        super().__init__(Path(file), delay=True)
        self._bounds = bounds

    def emit(self, record: logging.LogRecord) -> None:
        """Writes, then checks the size."""
        super().emit(record)
        with contextlib.suppress(OSError, ValueError):  # a full disk or a folder that is gone: the next time, maybe
            if self.stream is not None and os.fstat(self.stream.fileno()).st_size > self._bounds.size:
                self._keep_within(self.stream.fileno())

    def _keep_within(self, descriptor: int) -> None:
        """One process at a time, and only while the file still is the one of this name."""
        path = Path(self.baseFilename)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                if self._bounds.kept:
                    move_aside(path, self._bounds.kept)
                else:
                    os.ftruncate(descriptor, 0)
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
