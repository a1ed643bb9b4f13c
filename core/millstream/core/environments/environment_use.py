"""Tracks which job environments are in use, and deletes unused ones by total size and age.

A process that runs in an environment inherits a shared lock on the environment's lock file: the kernel holds it as long
as the process and its forked children live, however they end. The lock file is deleted with its environment: a process
that has locked it checks that it is still the file of that name. The time of an environment's marker is that of its
last request; an environment that was requested recently may be about to be used, and is kept.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from millstream.core.files.directories import for_user_only, keep_private
from millstream.core.linux.descriptors import synchronise_file_system

READY = ".ready"
_EVICTED = ".evicted"
_LOCK = ".lock"
_ABOUT_TO_BE_USED = 600.0


@contextlib.contextmanager
def in_use(lock: str | None) -> Iterator[tuple[int, ...]]:
    """Yields the descriptors that a process started in the block has to inherit, so that its environment is kept."""
    if lock is None:
        yield ()
        return
    held = take_lock(Path(lock), fcntl.LOCK_SH)
    try:
        yield (held,)
    finally:
        os.close(held)


def lock_of(folder: Path) -> Path:
    """Returns the path of an environment's lock."""
    return folder.parent / f"{folder.name}{_LOCK}"


def take_lock(path: Path, operation: int) -> int:
    """Locks the lock file in this mode; returns its descriptor, which the caller closes. Raises BlockingIOError."""
    while True:
        held = for_user_only(str(path), os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(held, operation)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(held), os.stat(path)):
                    return held
        except BaseException:
            os.close(held)
            raise
        os.close(held)  # it was removed during the wait


@contextlib.contextmanager
def if_unlocked(folder: Path) -> Iterator[bool]:
    """Yields whether the environment's lock is free, and holds it in the block; deletes it if the folder is deleted."""
    try:
        held = take_lock(lock_of(folder), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        yield False
        return
    try:
        yield True
    finally:
        release_lock(held, folder)


def release_lock(held: int, folder: Path) -> None:
    """Releases an exclusive lock. The lock file of an environment that does not exist is deleted."""
    try:
        if not folder.exists():
            lock_of(folder).unlink(missing_ok=True)
    finally:
        os.close(held)


def remove_partial(root: Path) -> None:
    """Deletes incomplete environments that are not being built, and the locks of deleted ones."""
    for path in root.iterdir():
        folder = path.with_suffix("") if path.suffix == _LOCK else path
        if (folder.exists() if folder != path else not path.is_dir()) or (folder / READY).exists():
            continue
        with if_unlocked(folder) as free:
            if free and not (folder / READY).exists():
                shutil.rmtree(folder, ignore_errors=True)


def mark_ready(folder: Path) -> None:
    """Marks the environment as complete, with its size. Its files are made private to this user.

    The marker is written durably and last: if it survives a power failure, its environment does, too.
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
    """Syncs the file system of the folder: pip writes too many files to sync them one by one."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        synchronise_file_system(descriptor)
    finally:
        os.close(descriptor)


def mark_requested(folder: Path) -> bool:
    """Whether the environment is complete; records a request, so that it is not deleted before it is used."""
    try:
        os.utime(folder / READY)
    except FileNotFoundError:
        return False
    return True


def remove_unused(root: Path, max_size: int, unused_for: float = math.inf) -> list[str]:
    """Deletes the least recently used environments that are not in use, until the total size is at most `max_size`.

    Those that were not requested for `unused_for` seconds are deleted in any case.
    """
    found = []
    for folder in root.iterdir():
        with contextlib.suppress(OSError, ValueError):  # not complete yet, or being deleted by another process
            size = int((folder / READY).read_text() or keep_private(folder))
            found.append(((folder / READY).stat().st_mtime, size, folder))
    total = sum(size for _, size, _ in found)
    removed = []
    oldest = time.time() - unused_for
    for requested, size, folder in sorted(found):
        if total <= max_size and requested >= oldest:
            break
        if _remove(folder):
            total -= size
            removed.append(folder.name)
    return removed


def _remove(folder: Path) -> bool:
    """Deletes an environment that was not requested recently and is not in use; returns whether it is deleted."""
    with if_unlocked(folder) as free, contextlib.suppress(OSError):
        if not free:
            return False
        # A request from here on finds no marker and waits for the lock; an earlier one has set its time.
        evicted = (folder / READY).rename(folder / _EVICTED)
        if time.time() - evicted.stat().st_mtime < _ABOUT_TO_BE_USED:
            evicted.rename(folder / READY)
            return False
        shutil.rmtree(folder, ignore_errors=True)
        return True
    return False
