"""Gates that block asynchronous functions in tests until the test opens them, one for each record."""

from __future__ import annotations

import asyncio
from typing import Any


class Gates:
    """Lets calls continue one by one; exists outside of the function, as a service does."""

    def __init__(self) -> None:
        self.begun: list[Any] = []
        self._open: dict[Any, asyncio.Event] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    async def pass_through(self, value: Any) -> None:
        """Waits until its gate is open; on the function's loop."""
        self._loop = asyncio.get_running_loop()
        gate = self._open[value] = asyncio.Event()
        self.begun.append(value)
        await gate.wait()

    def open(self, *values: Any) -> None:
        """Called on the test's thread, for calls that have started."""
        assert self._loop is not None, "a call has begun"
        for value in values:
            self._loop.call_soon_threadsafe(self._open[value].set)
