"""A session with the store in a directory that a test interrupts, between the session and the folder."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import TypeVar

from millstream.core.store.directory.connection import Connection, Work
from millstream.core.store.directory.session import DirectorySession
from millstream.core.store.directory.shared import SharedFolder
from millstream.core.store.store import Key, Leadership, SessionLostError, StoreError, SuspendedError

T = TypeVar("T")
_MEMORY = "/dev/shm"  # the suites test decisions, not durability, and a disk takes 10 ms each time


class _Now(Enum):
    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


class InterruptedConnection(Connection):
    """Responds as the test requires. A loss is real: the session in the folder ends."""

    def __init__(self, shared: SharedFolder) -> None:
        super().__init__(shared)
        self._now = _Now.CONNECTED

    async def turn(self, work: Work[T]) -> T:
        if self._now is _Now.SUSPENDED:
            raise SuspendedError
        if self._now is _Now.LOST:
            raise SessionLostError
        return await super().turn(work)

    async def connected(self) -> None:
        while self._now is not _Now.CONNECTED:
            await self.shared.wait(self.shared.next_move())
        await super().connected()

    async def close(self) -> None:
        self.change(_Now.CONNECTED)
        await super().close()

    def change(self, now: _Now) -> None:
        self._now = now
        self.shared.move()


class InterruptedDirectorySession(DirectorySession):
    def __init__(self, connection: InterruptedConnection) -> None:
        super().__init__(connection)
        self._interrupted = connection
        self._breaks_off: bool | None = None

    async def write(self, key: Key, value: bytes, expected: int, under: Leadership) -> int:
        with self._broken_off() as is_sent:
            return await super().write(key, value, expected, under) if is_sent else 0

    async def remove(self, key: Key, expected: int, under: Leadership) -> None:
        with self._broken_off() as is_sent:
            if is_sent:
                await super().remove(key, expected, under)

    @contextlib.contextmanager
    def _broken_off(self) -> Iterator[bool]:
        takes_effect, self._breaks_off = self._breaks_off, None
        if takes_effect is None:
            yield True
            return
        with contextlib.suppress(StoreError):
            yield takes_effect
        self.suspend()
        raise SuspendedError

    def suspend(self) -> None:
        self._interrupted.change(_Now.SUSPENDED)

    def suspend_within_write(self, takes_effect: bool) -> None:
        self._breaks_off = takes_effect

    def lose(self) -> None:
        self._interrupted.lose()
        self._interrupted.change(_Now.LOST)

    def resume(self) -> None:
        self._interrupted.change(_Now.CONNECTED)


class DirectoryServer:
    """A folder, deleted at the end."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(dir=_MEMORY if Path(_MEMORY).is_dir() else None)
        self._shared = SharedFolder(Path(self._folder.name) / "store", look_every=0.05, patience=100.0)
        self._sessions: list[InterruptedDirectorySession] = []

    def connect(self) -> InterruptedDirectorySession:
        self._sessions.append(InterruptedDirectorySession(InterruptedConnection(self._shared)))
        return self._sessions[-1]

    async def settle(self) -> None:
        for _ in range(5):
            for _ in range(5):
                await asyncio.sleep(0)
            await self._shared.later(lambda _folder: None)  # after everything that was requested so far

    async def close(self) -> None:
        for session in self._sessions:
            await session.close()
        self._folder.cleanup()
