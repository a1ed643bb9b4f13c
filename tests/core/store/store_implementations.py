"""The implementations of the store, as the suites see them.

A new one is added to `IMPLEMENTATIONS`, or to the fixture `server` if it is a process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from millstream.core.store.memory import MemoryStore
from millstream.core.store.store import Leadership, Store


class InterruptedStore(Store, Protocol):
    """A session that the test interrupts; `MemorySession` says what each of these means."""

    def suspend(self) -> None: ...

    def suspend_within_write(self, takes_effect: bool) -> None: ...

    def lose(self) -> None: ...

    def resume(self) -> None: ...


class StoreServer(AbstractAsyncContextManager["StoreServer"], Protocol):
    """One store, which any number of services share. Leaving it ends what is left of their sessions."""

    def connect(self) -> InterruptedStore: ...


class MemoryServer(MemoryStore, AbstractAsyncContextManager["MemoryServer"]):
    """Nothing is left of the sessions."""

    async def __aexit__(self, *_: object) -> None: ...


Led = tuple[InterruptedStore, Leadership]
"""A session that leads as dispatcher."""


IN_LINE: WeakKeyDictionary[asyncio.Task[Any], Callable[[], Awaitable[None]]] = WeakKeyDictionary()
"""What waits until the campaign of a task is in line, where that takes longer than its first step."""


async def still_waits(task: asyncio.Task[Any]) -> None:
    """Gives the task every chance to end, which it must not use."""
    done, _ = await asyncio.wait([task], timeout=0.01)
    if task in IN_LINE:
        await IN_LINE[task]()
    assert not done
    assert not task.done()


IMPLEMENTATIONS: dict[str, Callable[[], StoreServer]] = {"memory": MemoryServer}
