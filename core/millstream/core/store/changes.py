"""Reads and changes entries, and retries over suspended and lost sessions until the outcome is known."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from millstream.core.services.leader_lookup import KnownLeader
from millstream.core.store.store import (
    ABSENT,
    ConflictError,
    Contest,
    Entry,
    Key,
    Kind,
    Leadership,
    SessionLostError,
    Store,
    SuspendedError,
)

T = TypeVar("T")


async def change(store: Store, key: Key, under: Leadership, new: Callable[[bytes | None], bytes | None]) -> None:
    """Replaces the entry's value by what `new` returns for it; None stands for no entry, on both sides.

    `new` may be called several times, and may receive its own earlier result. An unchanged value is written as well,
    since only a write shows whether the leadership lasts. Raises FencedError when it does not. The outcome is unknown
    then, and nothing may be deleted because of it: the next leader may rely on what was written.
    """
    while True:
        try:
            entry = await store.read(key)
            wanted = new(entry.value if entry is not None else None)
            match entry, wanted:
                case None, bytes():
                    await store.write(key, wanted, ABSENT, under)
                case Entry(), None:
                    await store.remove(key, entry.version, under)
                case Entry(), bytes():
                    await store.write(key, wanted, entry.version, under)
            return
        except ConflictError:
            continue
        except (SuspendedError, SessionLostError):
            await store.connected()


async def read(store: Store, key: Key) -> bytes | None:
    """Returns the entry's value, as soon as the store responds."""
    entry = await _retried(store, lambda: store.read(key))
    return entry.value if entry is not None else None


async def names(store: Store, kind: Kind) -> list[str]:
    """Returns the names of all entries of a kind, as soon as the store responds."""
    return await _retried(store, lambda: store.names(kind))


async def leader_of(store: Store, contest: Contest) -> KnownLeader | None:
    """Returns the leader, or None, as soon as the store responds."""
    return await _retried(store, lambda: store.leader(contest))


async def resign(store: Store, leadership: Leadership) -> None:
    """Ends the leadership, as soon as the store responds."""
    await _retried(store, lambda: store.resign(leadership))


async def _retried(store: Store, call: Callable[[], Awaitable[T]]) -> T:
    while True:
        try:
            return await call()
        except (SuspendedError, SessionLostError):
            await store.connected()
