"""The store in a local directory, for any number of processes of one host.

**Atomicity.** Everything is decided, made durable and returned under one lock of the directory: a write's fencing and
its version, an epoch and its leader. So what was read or returned is on the disk, and survives a crash of the host.

**Sessions** hold a lock of the kernel each. A process that dies, in whatever way, releases it: the next process that
reads ends its leaderships, and the next candidate leads. There is no timeout. A process that is frozen keeps what it
leads, since it cannot be distinguished from a slow one, until it continues or is killed. One that is frozen while it
has the directory's lock, which is a few milliseconds for a write, blocks all others for as long. Where that is not
enough, ZooKeeper has timeouts.

**Connections.** Suspended is a store that has not responded within `patience`, or whose disk does not: full, read-only.
Lost is a session whose file was deleted, as cleaners of temporary folders do; the next call begins another.

**Waiting.** Calls that wait for a leader, or to become one, are notified at once of changes by sessions of the same
`DirectoryStore`. Changes of others are polled every 50 ms, once for all waiting calls, without the lock and not on the
loop: 20 µs of small reads, with the threads less than 1 % of a core. A blocking flock would notify at once, but cannot
be cancelled without leaving a thread behind, and macOS has no inotify.

The directory has to be on a local file system: other file systems may not release locks with their process. Only its
user may access it, which the caller ensures (`core/files/directories.py`).
"""

from __future__ import annotations

from pathlib import Path

from millstream.core.store.directory.connection import Connection
from millstream.core.store.directory.session import DirectorySession
from millstream.core.store.directory.shared import SharedFolder

LOOK_EVERY = 0.05
"""Seconds."""
PATIENCE = 10.0
"""The time in seconds that a busy disk may need to make a small file durable."""


class DirectoryStore:
    """The store of one process. Owned by one asyncio loop."""

    def __init__(self, path: Path, *, look_every: float = LOOK_EVERY, patience: float = PATIENCE) -> None:
        self._shared = SharedFolder(path, look_every, patience)

    def connect(self) -> DirectorySession:
        """Opens a session for a service."""
        return DirectorySession(Connection(self._shared))
