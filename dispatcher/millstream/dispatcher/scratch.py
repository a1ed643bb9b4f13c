"""Folders in which programs of wheels run, below the working directory: none outlives its use by more than a start.

A lock beside each folder is held while it is used. The kernel takes the lock from a dispatcher that is killed; the next
one to start removes what has no holder. Dispatchers of one user may share the working directory.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from millstream.core.files.directories import for_user_only
from millstream.core.jobs.ids import new_id

_LOCK = ".lock"


class ScratchFolders:
    """Below `root`, which is there. Every method blocks for files."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def remove_dead(self) -> None:
        """Deletes what dispatchers left that are no more."""
        with self._alone():
            for lock in self._root.glob(f"?*{_LOCK}"):
                with _opened(lock) as held, contextlib.suppress(BlockingIOError):
                    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _remove(lock)

    @contextlib.contextmanager
    def folder(self) -> Iterator[Path]:
        """A new folder, for the block."""
        name = new_id()
        lock = self._root / f"{name}{_LOCK}"
        with contextlib.ExitStack() as stack:
            with self._alone():  # no other process finds the folder before the lock is on it
                fcntl.flock(stack.enter_context(_opened(lock)), fcntl.LOCK_EX)
                os.mkdir(self._root / name, 0o700)
            stack.callback(_remove, lock)
            yield self._root / name

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        with _opened(self._root / _LOCK) as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield


def _opened(lock: Path) -> IO[bytes]:
    return open(lock, "wb", opener=for_user_only)


def _remove(lock: Path) -> None:
    shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
    lock.unlink(missing_ok=True)
