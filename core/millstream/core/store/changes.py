"""Reading and changing entries through suspended and lost sessions, until it is known what came of it."""

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
    """Has the entry hold what `new` makes of what it holds; None is no entry, on both sides.

    Returns when that is so. `new` may be called several times, and may get what it has done before. What is there
    already is written once more, since only a write shows whether the leadership lasts. Raises FencedError when it does
    not. Whether the change has taken effect is not known then, and nothing may be thrown away because of it: the next
    leader may rely on what was written.
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
    """What the entry holds, as soon as the store responds."""
    entry = await _answer(store, lambda: store.read(key))
    return entry.value if entry is not None else None


async def names(store: Store, kind: Kind) -> list[str]:
    """Of all entries of a kind, as soon as the store responds."""
    return await _answer(store, lambda: store.names(kind))


async def leader_of(store: Store, contest: Contest) -> KnownLeader | None:
    """Who leads, or None, as soon as the store responds."""
    return await _answer(store, lambda: store.leader(contest))


async def resign(store: Store, leadership: Leadership) -> None:
    """Returns when the leadership is over, as soon as the store responds."""
    await _answer(store, lambda: store.resign(leadership))


async def _answer(store: Store, ask: Callable[[], Awaitable[T]]) -> T:
    while True:
        try:
            return await ask()
        except (SuspendedError, SessionLostError):
            await store.connected()
