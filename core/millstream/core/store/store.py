"""The store: what has to outlive a process, and who leads. Small values and pointers; large content lies elsewhere.

A service has one session with it. A session holds candidacies, and the leaderships that come of them. It is written so
that ZooKeeper, a local directory with locks and atomic renames, and memory keep the same promises, which the suite in
`tests/core/store` checks on every implementation. Nothing stronger is promised than all of them can keep.

**Writes** are linearizable: each takes effect at one moment, entirely or not at all, and each is conditional twice.
It is made under a leadership, and takes effect only while that is the current one of its contest (`FencedError`); and
only on the version of the entry that its writer has seen (`ConflictError`). Both are decided by the store, in that
moment. There is no write without a leadership: a leader that was frozen and wakes up changes nothing.

**Versions** of an entry grow. One that is removed and made again may have an earlier version once more.

**Reads** show a state that was current once, never one from before what this session has read, written, or was refused
for. When `campaign` returns, reads show all that was written under the earlier leaderships of that contest.

**Leaders.** A contest has one leader at most. Each gets an epoch, higher than all that were given before in this store,
in any contest. A leadership ends when it is resigned, or with the session that it was won in; it never comes back.

**Connections.** Three things happen to them, and are distinguished:

- suspended: the store does not respond. Calls raise `SuspendedError`; a write may have taken effect or not. The session
  may still be alive in the store, and its leaderships the current ones.
- resumed: the same session continues. A client that does not know the outcome of a write reads.
- lost: the session is over, and its leaderships with it. Calls raise `SessionLostError`, also those that were under
  way, whose writes may have taken effect or not, until there is a new session, in which one has to campaign again.

Owned by one asyncio loop.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from millstream.core.errors import MillstreamError
from millstream.core.jobs.ids import NO_JOB, JobId, LeaderEpoch
from millstream.core.services.leader_lookup import KnownLeader, Role

MAX_VALUE = 256 * 1024
"""Bytes. ZooKeeper takes 1 MiB for a whole request."""
ABSENT = 0
"""The version of an entry that is not there."""
_NAME = re.compile(r"(?!\.+\Z)[A-Za-z0-9_.\-]{1,120}\Z")


class StoreError(MillstreamError):
    """The store did not carry out the request."""


class ConflictError(StoreError):
    """Not written: the entry has another version."""

    def __init__(self, key: Key, expected: int) -> None:
        super().__init__(f"{key} has another version than {expected}: another client has changed it")


class FencedError(StoreError):
    """Not written: the leadership is over. It will not be the current one again."""

    def __init__(self, leadership: Leadership) -> None:
        super().__init__(f"epoch {leadership.epoch} of {leadership.contest} is over")


class SuspendedError(StoreError):
    """The store does not respond. Whether a write has taken effect is not known."""

    def __init__(self) -> None:
        super().__init__("the store does not respond")


class SessionLostError(StoreError):
    """The session with the store is over, and so are its leaderships. Whether a write has taken effect is not known."""

    def __init__(self) -> None:
        super().__init__("the session with the store is over")


class Kind(StrEnum):
    """What an entry is about. The values are names of folders."""

    JOB_GRAPH = "job-graphs"
    CHECKPOINTS = "checkpoints"
    JOB_RESULT = "job-results"


class Key(Struct, frozen=True):
    """Of an entry. Its name fits into a path everywhere."""

    kind: Kind
    name: str

    def __post_init__(self) -> None:
        if not _NAME.match(self.name):
            raise ValueError(f"'{self.name}' is no name in the store: 1 to 120 of A-Z, a-z, 0-9, '_', '.' and '-'")

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


class Entry(Struct, frozen=True):
    """What is stored under a key."""

    value: bytes
    version: int


class Contest(Struct, frozen=True):
    """What candidates want to lead: a role of the cluster, or one job as its job manager."""

    role: Role
    job_id: JobId = NO_JOB

    def __str__(self) -> str:
        return f"{self.role} of job {self.job_id}" if self.job_id else str(self.role)


class Leadership(Struct, frozen=True):
    """A contest that was won. The epoch alone identifies it."""

    contest: Contest
    epoch: LeaderEpoch


class Entries(Protocol):
    """Each entry by itself: nothing here changes two at once."""

    async def read(self, key: Key) -> Entry | None:
        """The entry, or None when it is not there."""
        ...

    async def write(self, key: Key, value: bytes, expected: int, under: Leadership) -> int:
        """Makes an entry that is `ABSENT`, or replaces one of the expected version; returns its new version.

        Raises ValueError for more than `MAX_VALUE` bytes.
        """
        ...

    async def remove(self, key: Key, expected: int, under: Leadership) -> None:
        """Removes an entry of the expected version."""
        ...

    async def names(self, kind: Kind) -> list[str]:
        """Of the entries of a kind, sorted."""
        ...


class Elections(Protocol):
    """Who leads."""

    async def campaign(self, contest: Contest, address: str) -> Leadership:
        """Returns when this session leads, and is reached at `address` by those who look for the leader.

        Candidates wait in line, also two of one session, and through every kind of trouble with the connection. To
        cancel the call is to stand down.
        """
        ...

    async def resign(self, leadership: Leadership) -> None:
        """Ends the leadership, if it has not ended before."""
        ...

    async def leader(self, contest: Contest) -> KnownLeader | None:
        """Who leads, or None."""
        ...

    async def candidates(self, contest: Contest) -> list[str]:
        """The addresses of all that are in line at this moment, that of the leader first."""
        ...

    async def changed(self, contest: Contest, epoch: LeaderEpoch) -> KnownLeader | None:
        """Returns when another leader than that of this epoch is known, or none; the epoch 0 is that of no leader.

        What is known stays so while the connection is suspended. When the session is lost, no leader is known: so a
        leader that waits for its own epoch learns when that is over. Raises nothing.
        """
        ...


class Store(Entries, Elections, Protocol):
    """One service's session."""

    async def connected(self) -> None:
        """Returns when the store responds, in this session or in a new one; for callers that try again after an error.

        Raises SessionLostError after `close`, as all calls do then but `changed`.
        """
        ...

    async def close(self) -> None:
        """Ends the session for good: what it leads is free at once. Does nothing the second time."""
        ...


def check_value(key: Key, value: bytes) -> None:
    """Raises ValueError for a value that is too large; every implementation calls this."""
    if len(value) > MAX_VALUE:
        raise ValueError(f"{key}: {len(value)} bytes are more than {MAX_VALUE}; large content is stored elsewhere")
