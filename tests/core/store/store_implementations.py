"""The implementations of the store, as the suites see them. A new one is added to `IMPLEMENTATIONS`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from millstream.core.store.memory import MemoryStore
from millstream.core.store.store import Leadership, Store


class InterruptedStore(Store, Protocol):
    """A session that the test interrupts; `MemorySession` says what each of these means."""

    def suspend(self) -> None: ...

    def suspend_within_write(self, takes_effect: bool) -> None: ...

    def lose(self) -> None: ...

    def resume(self) -> None: ...


class StoreServer(Protocol):
    """One store, which any number of services share."""

    def connect(self) -> InterruptedStore: ...


Led = tuple[InterruptedStore, Leadership]
"""A session that leads as dispatcher."""


async def still_waits(task: asyncio.Task[Any]) -> None:
    """Gives the task every chance to end, which it must not use."""
    done, _ = await asyncio.wait([task], timeout=0.01)
    assert not done


IMPLEMENTATIONS: dict[str, Callable[[], StoreServer]] = {"memory": MemoryStore}
