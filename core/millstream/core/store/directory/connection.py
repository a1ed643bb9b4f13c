"""The connection of one session to the folder. Its lock file is created with the first turn, and after a loss."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from millstream.core.store.directory.folder import StoreFolder
from millstream.core.store.directory.life import Life
from millstream.core.store.directory.shared import SharedFolder
from millstream.core.store.store import SessionLostError, StoreError, SuspendedError

T = TypeVar("T")
Work = Callable[[StoreFolder, str], T]
"""The work of a turn: in this folder, by the session of this id."""


class Connection:
    """Owned by the loop, but for the life, which only turns touch."""

    def __init__(self, shared: SharedFolder) -> None:
        self.shared = shared
        self._life: Life | None = None
        self._closed = False
        self._failed = False

    async def turn(self, work: Work[T]) -> T:
        """Runs work in the folder; returns its result. Raises SuspendedError and SessionLostError."""
        if self._closed:
            raise SessionLostError
        try:
            return await self.shared.turn(partial(self._alive, work))
        except SuspendedError:
            self._failed = True
            raise

    def _alive(self, work: Work[T], folder: StoreFolder) -> T:
        if self._life is not None and not self._life.lasts():
            self._end(folder)
            raise SessionLostError
        if self._life is None:
            self._life = folder.begin()
        return work(folder, self._life.session)

    async def connected(self) -> None:
        """See `Store`. Waits a moment after an error: the store may serve this, and fail the next write."""
        while True:
            if self._failed:
                await asyncio.sleep(self.shared.look_every)
                self._failed = False
            try:
                return await self.turn(lambda _folder, _session: None)
            except SuspendedError:
                continue
            except SessionLostError:
                if self._closed:
                    raise

    def lose(self) -> asyncio.Future[None]:
        """Ends the session. The next turn begins another."""
        return self.shared.later(self._end)

    async def close(self) -> None:
        """See `Store`."""
        if not self._closed:
            self._closed = True
            await asyncio.wait([self.lose()], timeout=self.shared.patience)
            self.shared.move()

    def _end(self, folder: StoreFolder) -> None:
        if self._life is not None:
            self._life.end()
            self._life = None
            with contextlib.suppress(OSError, StoreError):  # otherwise the next process that reads detects its end
                folder.settle()
