"""That a session lives, as the other processes see it: a file of its own, locked by the kernel for as long."""

from __future__ import annotations

import contextlib
from io import FileIO
from pathlib import Path

from millstream.core.store.directory.lock_files import is_still_at, release_lock, take_lock


class Life:
    """A session in the folder. It is over when this is ended, when its process is, or when its file was deleted."""

    def __init__(self, path: Path) -> None:
        self.session = path.name
        self._path = path
        self._held: FileIO = take_lock(path)

    def lasts(self) -> bool:
        """Whether others find it alive."""
        return is_still_at(self._path, self._held)

    def end(self) -> None:
        """The file is gone first: none is ever seen that is there and not locked, but of those who crashed."""
        with contextlib.suppress(OSError):  # then it is as after a crash
            self._path.unlink()
        release_lock(self._held)
