"""Makes files, and the entries of folders, durable: they survive a crash of the host."""

from __future__ import annotations

import errno
import os

_NO_FOLDER_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EBADF, errno.EACCES, errno.EPERM})


def sync(path: str) -> None:
    """Syncs the content of a file, or the entries of a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: str) -> None:
    """Syncs a folder if possible: not all file systems support it, and not all folders may be opened."""
    try:
        sync(path)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise


def make_folder(path: str, mode: int = 0o777) -> None:
    """Creates a folder and its missing parents durably. The mode is subject to the umask."""
    if os.path.isdir(path):
        return
    above = os.path.dirname(path)
    make_folder(above, mode)
    os.makedirs(path, mode, exist_ok=True)
    sync_folder(above)
