"""The store in a local directory, for any number of processes of one host.

**Moments.** Everything is decided, made durable and returned under one lock of the directory: a write's fencing and its
version, an epoch and who gets it. So what was read or returned is on the disk, and survives the host.

**Sessions** hold a lock of the kernel each. A process that dies, in whatever way, releases it: the next process that
reads ends its leaderships, and the next candidate leads. There is no timeout. A process that is frozen keeps what it
leads, since it cannot be distinguished from a slow one, until it continues or is killed. One that is frozen while it
has the directory's lock, which is a few milliseconds for a write, blocks all others for as long. Where that is not
enough, ZooKeeper has timeouts.

**Connections.** Suspended is a store that has not responded within `patience`, or whose disk does not: full, read-only.
Lost is a session whose file was deleted, as cleaners of temporary folders do; the next call begins another.

**Waiting.** Those who wait for a leader, or to be one, are notified at once of what sessions of the same
`DirectoryStore` did. What others did is looked for every 50 ms, once for all who wait, without the lock and off the
loop: 20 µs of small reads, with the threads less than 1 % of a core. A blocking flock would notify at once, but cannot
be given up without leaving a thread behind, and there is no inotify on macOS.

The directory is on a local file system: locks that end with their process are not to be had everywhere else. It is for
its user alone, which is for the caller to see to (`core/files/directories.py`).
"""

from __future__ import annotations

from pathlib import Path

from millstream.core.store.directory.connection import Connection
from millstream.core.store.directory.session import DirectorySession
from millstream.core.store.directory.shared import SharedFolder

LOOK_EVERY = 0.05
"""Seconds."""
PATIENCE = 10.0
"""Seconds, which a disk that is busy may take to make a small file durable."""


class DirectoryStore:
    """One for each process. Owned by one asyncio loop."""

    def __init__(self, path: Path, *, look_every: float = LOOK_EVERY, patience: float = PATIENCE) -> None:
        self._shared = SharedFolder(path, look_every, patience)

    def connect(self) -> DirectorySession:
        """A session of its own for each service."""
        return DirectorySession(Connection(self._shared))
