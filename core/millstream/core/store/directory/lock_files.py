"""Files that a process holds locked (flock); the kernel releases the locks when the process ends in any way.

A forked child does not keep a lock alive: see `keep_file_from_children`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from io import FileIO
from pathlib import Path

from millstream.core.files.directories import for_user_only
from millstream.core.processes.forking import keep_file_from_children


def take_lock(path: Path) -> FileIO:
    """Creates the file if it is missing, waits for its lock, and holds it until `release_lock`."""
    while True:
        file = FileIO(str(path), "a", opener=for_user_only)
        try:
            keep_file_from_children(file)
            fcntl.flock(file, fcntl.LOCK_EX)
            if is_still_at(path, file):
                return file
        except BaseException:
            file.close()
            raise
        file.close()  # removed during the wait: others may lock a new file


def release_lock(file: FileIO) -> None:
    """Releases the lock."""
    fcntl.flock(file, fcntl.LOCK_UN)  # closing it is not sufficient while this process is being forked
    file.close()


def is_still_at(path: Path, file: FileIO) -> bool:
    """Whether the open file is still the one at the path."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    return False


def is_locked(path: Path) -> bool:
    """Whether someone holds the lock of the file; False for one that does not exist."""
    try:
        file = FileIO(str(path), "r")
    except FileNotFoundError:
        return False
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: concurrent checks do not conflict
        except BlockingIOError:
            return True
        fcntl.flock(file, fcntl.LOCK_UN)
        return False
