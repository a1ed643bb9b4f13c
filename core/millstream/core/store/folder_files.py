"""Files of contents in a local folder, which any number of processes share.

A file appears under its name when it is complete and durable. Until then its writer holds a lock on it. Files that a
crash leaves are deleted by the next process that writes there.
"""

from __future__ import annotations

import os
from pathlib import Path

from millstream.core.files.durable import make_folder, sync_folder
from millstream.core.store.directory.lock_files import is_locked, release_lock, take_lock

_PARTIAL = ".partial-"


class FolderFiles:
    """`ContentFiles` of one folder, which is created on the first write."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._is_swept = False

    def where(self, name: str) -> str:
        """See `ContentFiles`."""
        return str(self._folder / name)

    def write(self, name: str, raw: bytes) -> None:
        """See `ContentFiles`."""
        make_folder(str(self._folder), 0o700)
        self._sweep()
        partial = self._folder / f"{_PARTIAL}{name}"
        held = take_lock(partial)
        try:
            with open(held.fileno(), "wb", closefd=False) as file:
                file.write(raw)
            os.fsync(held.fileno())
            os.replace(partial, self._folder / name)
            sync_folder(str(self._folder))
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        finally:
            release_lock(held)

    def read(self, name: str) -> bytes | None:
        """See `ContentFiles`."""
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def delete(self, name: str) -> None:
        """See `ContentFiles`."""
        if self._folder.is_dir():
            (self._folder / name).unlink(missing_ok=True)
            sync_folder(str(self._folder))

    def _sweep(self) -> None:
        if not self._is_swept:
            self._is_swept = True
            for left_over in self._folder.glob(f"{_PARTIAL}*"):
                if not is_locked(left_over):
                    left_over.unlink(missing_ok=True)
