"""Making files, and the names in folders, survive a crash of the host."""

from __future__ import annotations

import errno
import os

_NO_FOLDER_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EBADF, errno.EACCES, errno.EPERM})


def sync(path: str) -> None:
    """Returns when what the file holds, or the names in the folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: str) -> None:
    """For a folder, where it is possible: not all file systems do this, and not all folders may be opened."""
    try:
        sync(path)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise


def make_folder(path: str, mode: int = 0o777) -> None:
    """Makes a folder and those above it that are missing, each of which survives. The mode is less what umask takes."""
    if os.path.isdir(path):
        return
    above = os.path.dirname(path)
    make_folder(above, mode)
    os.makedirs(path, mode, exist_ok=True)
    sync_folder(above)
