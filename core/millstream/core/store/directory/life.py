"""The sign of life of a session for other processes: a file that is locked as long as the session lives."""

from __future__ import annotations

import contextlib
from io import FileIO
from pathlib import Path

from millstream.core.store.directory.lock_files import is_still_at, release_lock, take_lock


class Life:
    """A session in the folder. It ends with `end`, with its process, or when its file is deleted."""

    def __init__(self, path: Path) -> None:
        self.session = path.name
        self._path = path
        self._held: FileIO = take_lock(path)

    def lasts(self) -> bool:
        """Whether the session is alive for others."""
        return is_still_at(self._path, self._held)

    def end(self) -> None:
        """Deletes the file before its lock is released, so that only crashes leave unlocked files."""
        with contextlib.suppress(OSError):  # the file remains, as after a crash
            self._path.unlink()
        release_lock(self._held)
