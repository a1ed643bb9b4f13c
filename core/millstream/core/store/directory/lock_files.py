"""Files that a process holds locked by the kernel (flock), which lets go of them when the process ends in any way.

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
    """Makes the file when it is missing, waits for its lock, and holds that until `release_lock`."""
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
        file.close()  # it was removed while it was waited for: another one of the name may be locked by others


def release_lock(file: FileIO) -> None:
    """Others may have it from now on."""
    fcntl.flock(file, fcntl.LOCK_UN)  # to close it does not do while a fork of this process is just beginning
    file.close()


def is_still_at(path: Path, file: FileIO) -> bool:
    """Whether the open file is the one that others find by the path."""
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
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two who ask at once do not see each other
        except BlockingIOError:
            return True
        fcntl.flock(file, fcntl.LOCK_UN)
        return False
