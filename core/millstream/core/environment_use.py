"""Which job environments are in use, and which of the others go when all together have become too large.

A process that runs in an environment inherits a shared lock on the environment's lock file: the kernel holds it as long
as the process and those that it forked live, however they end. The time of an environment's marker says when it was
last asked for; one that was asked for a moment ago may be about to be used, and stays.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from millstream.core.directories import for_user_only, keep_private

READY = ".ready"
_EVICTED = ".evicted"
_ABOUT_TO_BE_USED = 600.0


@contextlib.contextmanager
def in_use(lock: str | None) -> Iterator[tuple[int, ...]]:
    """Descriptors for a process to inherit that is started inside of the block, so that its environment stays."""
    if lock is None:
        yield ()
        return
    held = for_user_only(lock, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(held, fcntl.LOCK_SH)
        yield (held,)
    finally:
        os.close(held)


def mark_ready(folder: Path) -> None:
    """Says that the environment is whole, and how large it is. It is for this user only, whoever wrote its files.

    Durably, and after all else: a marker that outlives a power cut says that its environment did, too.
    """
    size = keep_private(folder)
    _sync_file_system(folder)
    with open(folder / READY, "w", opener=for_user_only) as marker:
        marker.write(str(size))
        marker.flush()
        os.fsync(marker.fileno())
    for changed in (folder, folder.parent):
        descriptor = os.open(changed, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _sync_file_system(folder: Path) -> None:
    """Everything that was written below the folder: pip writes thousands of files, too many to sync one by one."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        library = ctypes.CDLL(None, use_errno=True)
        if not hasattr(library, "syncfs"):
            os.sync()
        elif library.syncfs(descriptor) != 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), str(folder))
    finally:
        os.close(descriptor)


def asked_for(folder: Path) -> bool:
    """Whether the environment is whole; then it is not removed before it can be used."""
    try:
        os.utime(folder / READY)
    except FileNotFoundError:
        return False
    return True


def remove_unused(root: Path, max_size: int) -> list[str]:
    """Removes environments that nobody uses, the longest unused first, until the rest is no larger than that."""
    found = []
    for folder in root.iterdir():
        with contextlib.suppress(OSError, ValueError):  # not made yet, or being removed by another process
            size = int((folder / READY).read_text() or keep_private(folder))
            found.append(((folder / READY).stat().st_mtime, size, folder))
    total = sum(size for _, size, _ in found)
    removed = []
    for _, size, folder in sorted(found):
        if total <= max_size:
            break
        if _remove(folder):
            total -= size
            removed.append(folder.name)
    return removed


def _remove(folder: Path) -> bool:
    """Whether it could be removed: it was not asked for lately, and no process runs in it."""
    with open(folder.parent / f"{folder.name}.lock", "a", opener=for_user_only) as lock, contextlib.suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Who asks for it from here on does not find the marker and waits for the lock; who did before has set its time.
        evicted = (folder / READY).rename(folder / _EVICTED)
        if time.time() - evicted.stat().st_mtime < _ABOUT_TO_BE_USED:
            evicted.rename(folder / READY)
            return False
        shutil.rmtree(folder, ignore_errors=True)
        return True
    return False
