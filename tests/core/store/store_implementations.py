"""The implementations of the store, as the suites use them. A new one is added to `IMPLEMENTATIONS`.

One that is a process is added to the fixture `server`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from interrupted_directory import DirectoryServer

from millstream.core.store.memory import MemoryStore
from millstream.core.store.store import Kind, Leadership, Store, SuspendedError


class InterruptedStore(Store, Protocol):
    """A session that the test interrupts; `MemorySession` documents what each interruption means."""

    def suspend(self) -> None: ...

    def suspend_within_write(self, takes_effect: bool) -> None: ...

    def lose(self) -> None: ...

    def resume(self) -> None: ...


class StoreServer(Protocol):
    """One store, which any number of services share."""

    def connect(self) -> InterruptedStore: ...

    async def settle(self) -> None:
        """Returns when everything that was started is done, and new leaders have been notified."""
        ...

    async def close(self) -> None:
        """Ends all sessions, after the test."""
        ...


class MemoryServer(MemoryStore):
    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async def close(self) -> None:
        pass


Led = tuple[InterruptedStore, Leadership]
"""A session that leads as dispatcher."""


IN_LINE: WeakKeyDictionary[asyncio.Task[Any], Callable[[], Awaitable[None]]] = WeakKeyDictionary()
"""Waits until the campaign of a task is in line, where that takes longer than its first step."""


async def still_waits(task: asyncio.Task[Any]) -> None:
    """Gives the task every chance to end, which it must not take."""
    done, _ = await asyncio.wait([task], timeout=0.01)
    if task in IN_LINE:
        await IN_LINE[task]()
    assert not done
    assert not task.done()


async def until_suspended(store: InterruptedStore) -> None:
    """Returns when the write that `suspend_within_write` waits for has arrived."""
    with contextlib.suppress(SuspendedError):
        while True:
            await store.names(Kind.JOB_GRAPH)
            await asyncio.sleep(0)


IMPLEMENTATIONS: dict[str, Callable[[], StoreServer]] = {"memory": MemoryServer, "directory": DirectoryServer}
