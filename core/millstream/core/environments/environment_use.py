"""Which job environments are in use, and which of the others go: when all together are too large, and with age.

A process that runs in an environment inherits a shared lock on the environment's lock file: the kernel holds it as long
as the process and those that it forked live, however they end. The lock file goes with its environment: a process that
has locked it checks that it is still the one of that name. The time of an environment's marker is that of the last
request for it; one that was requested a moment ago may be about to be used, and stays.
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
    """Descriptors for a process to inherit that is started inside of the block, so that its environment stays."""
    if lock is None:
        yield ()
        return
    held = take_lock(Path(lock), fcntl.LOCK_SH)
    try:
        yield (held,)
    finally:
        os.close(held)


def lock_of(folder: Path) -> Path:
    """Where the lock of an environment is."""
    return folder.parent / f"{folder.name}{_LOCK}"


def take_lock(path: Path, operation: int) -> int:
    """The descriptor of the lock file, locked in the given mode; the caller closes it. Raises BlockingIOError."""
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
        os.close(held)  # it was removed while it was waited for


@contextlib.contextmanager
def if_nobody_has_it(folder: Path) -> Iterator[bool]:
    """Whether the environment's lock is free; it is held inside of the block, and goes when the folder is gone."""
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
    """Gives back a lock that was taken exclusively. Of an environment that does not exist, no file stays."""
    try:
        if not folder.exists():
            lock_of(folder).unlink(missing_ok=True)
    finally:
        os.close(held)


def remove_partial(root: Path) -> None:
    """Removes what is left of environments that are not being made, and the locks of those that are gone."""
    for path in root.iterdir():
        folder = path.with_suffix("") if path.suffix == _LOCK else path
        if (folder.exists() if folder != path else not path.is_dir()) or (folder / READY).exists():
            continue
        with if_nobody_has_it(folder) as free:
            if free and not (folder / READY).exists():
                shutil.rmtree(folder, ignore_errors=True)


def mark_ready(folder: Path) -> None:
    """Marks the environment as complete, with its size. It is for this user only, whichever user wrote its files.

    Durably, and after all else: if a marker outlives a power cut, its environment did, too.
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
        synchronise_file_system(descriptor)
    finally:
        os.close(descriptor)


def asked_for(folder: Path) -> bool:
    """Whether the environment is whole; then it is not removed before it can be used."""
    try:
        os.utime(folder / READY)
    except FileNotFoundError:
        return False
    return True


def remove_unused(root: Path, max_size: int, unused_for: float = math.inf) -> list[str]:
    """Removes unused environments, the longest unused first, until the rest is no larger than that.

    Those without a request in so many seconds are removed in any case.
    """
    found = []
    for folder in root.iterdir():
        with contextlib.suppress(OSError, ValueError):  # not made yet, or being removed by another process
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
    """Whether it could be removed: it was not requested lately, and no process runs in it."""
    with if_nobody_has_it(folder) as free, contextlib.suppress(OSError):
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
