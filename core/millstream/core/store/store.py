"""The store: recovery data that outlives a process, and leader election. Small values and pointers; no large content.

A service has one session with it. A session holds candidacies and leaderships. ZooKeeper, a local directory with locks
and atomic renames, and memory give the same guarantees, which the suite in `tests/core/store` checks on every
implementation. Nothing stronger is guaranteed than all of them can provide.

**Writes** are linearizable: each takes effect at one moment, entirely or not at all, and each is conditional twice.
It is made under a leadership, and takes effect only while that is the current one of its contest (`FencedError`); and
only on the version of the entry that its writer has seen (`ConflictError`). Both are decided by the store, in that
moment. There is no write without a leadership: a leader that was frozen has no effect when it resumes.

**Versions** of an entry increase. An entry that is removed and created again may have an earlier version again.

**Reads** return a state that was current at some time, but never an earlier one than this session has read, written, or
was rejected for. After `campaign` returns, reads include all writes under earlier leaderships of that contest.

**Leaders.** A contest has at most one leader. Each gets an epoch, higher than all earlier ones in this store,
in any contest. A leadership ends when it is resigned, or with the session that it was won in; it never comes back.

**Connections.** Three events are distinguished:

- suspended: the store does not respond. Calls raise `SuspendedError`; a write may have taken effect or not. The session
  may still be alive in the store, and its leaderships the current ones.
- resumed: the same session continues. A client that does not know the outcome of a write reads.
- lost: the session and its leaderships have ended. Calls raise `SessionLostError`, also those in progress, whose writes
  may have taken effect or not, until there is a new session, in which the service has to campaign again.

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
"""In bytes. ZooKeeper accepts 1 MiB for a whole request."""
ABSENT = 0
"""The version of an entry that does not exist."""
_NAME = re.compile(r"(?!\.+\Z)[A-Za-z0-9_.\-]{1,120}\Z")


class StoreError(MillstreamError):
    """The store did not carry out the request."""


class ConflictError(StoreError):
    """Not written: the entry has another version."""

    def __init__(self, key: Key, expected: int) -> None:
        super().__init__(f"{key} has another version than {expected}: another client has changed it")


class FencedError(StoreError):
    """Not written: the leadership has ended, for good."""

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
    """The kinds of entries. The values are names of folders."""

    JOB_GRAPH = "job-graphs"
    CHECKPOINTS = "checkpoints"
    JOB_RESULT = "job-results"


class Key(Struct, frozen=True):
    """The key of an entry. Its name is valid in any path."""

    kind: Kind
    name: str

    def __post_init__(self) -> None:
        if not _NAME.match(self.name):
            raise ValueError(f"'{self.name}' is no name in the store: 1 to 120 of A-Z, a-z, 0-9, '_', '.' and '-'")

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


class Entry(Struct, frozen=True):
    """The value under a key, with its version."""

    value: bytes
    version: int


class Contest(Struct, frozen=True):
    """The subject of an election: a role of the cluster, or the leadership of one job."""

    role: Role
    job_id: JobId = NO_JOB

    def __str__(self) -> str:
        return f"{self.role} of job {self.job_id}" if self.job_id else str(self.role)


class Leadership(Struct, frozen=True):
    """A won contest. The epoch alone identifies it."""

    contest: Contest
    epoch: LeaderEpoch


class Entries(Protocol):
    """Access to single entries: no operation changes two at once."""

    async def read(self, key: Key) -> Entry | None:
        """Returns the entry, or None if it does not exist."""
        ...

    async def write(self, key: Key, value: bytes, expected: int, under: Leadership) -> int:
        """Creates an entry that is `ABSENT`, or replaces one of the expected version; returns its new version.

        Raises ValueError for more than `MAX_VALUE` bytes.
        """
        ...

    async def remove(self, key: Key, expected: int, under: Leadership) -> None:
        """Removes an entry of the expected version."""
        ...

    async def names(self, kind: Kind) -> list[str]:
        """Returns the names of the entries of a kind, sorted."""
        ...


class Elections(Protocol):
    """Leader election."""

    async def campaign(self, contest: Contest, address: str) -> Leadership:
        """Waits until this session is the leader; others find it at `address`.

        Candidates are queued, also two of one session, and remain candidates through connection errors. Cancelling the
        call withdraws the candidacy.
        """
        ...

    async def resign(self, leadership: Leadership) -> None:
        """Ends the leadership, if it has not ended before."""
        ...

    async def leader(self, contest: Contest) -> KnownLeader | None:
        """Returns the leader, or None."""
        ...

    async def candidates(self, contest: Contest) -> list[str]:
        """Returns the addresses of all current candidates, that of the leader first."""
        ...

    async def changed(self, contest: Contest, epoch: LeaderEpoch) -> KnownLeader | None:
        """Waits until the known leader is not that of this epoch, and returns it or None; epoch 0 stands for no leader.

        The known leader does not change while the connection is suspended. After the session is lost, no leader is
        known, so a leader that waits for its own epoch is notified of its end. Never raises.
        """
        ...


class Store(Entries, Elections, Protocol):
    """The session of one service."""

    async def connected(self) -> None:
        """Waits until the store responds, in this session or in a new one; for callers that retry after an error.

        Raises SessionLostError after `close`, as all calls do then but `changed`.
        """
        ...

    async def close(self) -> None:
        """Ends the session for good, which ends its leaderships at once. May be called twice."""
        ...


def check_value(key: Key, value: bytes) -> None:
    """Raises ValueError for a value that is too large; every implementation calls this."""
    if len(value) > MAX_VALUE:
        raise ValueError(f"{key}: {len(value)} bytes are more than {MAX_VALUE}; large content is stored elsewhere")
