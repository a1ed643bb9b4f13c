"""The parts that all sessions of one process share: the thread that uses the folder, and the watch for changes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from millstream.core.store.directory.folder import StoreFolder
from millstream.core.store.directory.ordered_thread import OrderedThread
from millstream.core.store.store import StoreError, SuspendedError

T = TypeVar("T")
_log = logging.getLogger(__name__)


class SharedFolder:
    """Owned by one asyncio loop. All work on files is done in the thread, in the order of submission."""

    def __init__(self, path: Path, look_every: float, patience: float) -> None:
        self.look_every = look_every
        self.patience = patience
        self._folder = StoreFolder(path)
        self._thread = OrderedThread("millstream store")
        self._moved = asyncio.Event()
        self._revision = 0
        self._responds = True
        self._waiting = 0
        self._watch: asyncio.Task[None] | None = None
        self._seen: object = None

    async def turn(self, work: Callable[[StoreFolder], T]) -> T:
        """Runs work under the lock; returns its result.

        Raises SuspendedError after `patience`. The work may still run later, but before all work submitted after it.
        """
        try:
            async with asyncio.timeout(self.patience):
                result = await self._submit(work)
        except OSError as error:  # a timeout is one
            self._now_responds(False, error)
            raise SuspendedError from error
        finally:
            self._notify()
        self._now_responds(True)
        return result

    def later(self, work: Callable[[StoreFolder], None]) -> asyncio.Future[None]:
        """Runs work under the lock, even if no caller waits for it; retries it while the disk fails."""
        outcome = self._submit(work)
        outcome.add_done_callback(partial(self._done_later, work))
        return outcome

    def _submit(self, work: Callable[[StoreFolder], T]) -> asyncio.Future[T]:
        def under_lock() -> T:
            with self._folder.locked():
                return work(self._folder)

        return self._thread.submit(under_lock)

    def _done_later(self, work: Callable[[StoreFolder], None], outcome: asyncio.Future[None]) -> None:
        self._notify()
        match outcome.exception() if not outcome.cancelled() else None:
            case OSError() as error:
                self._now_responds(False, error)
                outcome.get_loop().call_later(self.look_every, self.later, work)
            case Exception() as error:
                _log.error("the store in %s: %s", self._folder.path, error)

    def _now_responds(self, responds: bool, error: OSError | None = None) -> None:
        if responds is not self._responds:
            self._responds = responds
            if responds:
                _log.info("the store in %s responds again", self._folder.path)
            else:
                cause = str(error) or "its lock is held"
                _log.warning("the store in %s does not respond: %s", self._folder.path, cause)

    # Waiting

    def move(self) -> None:
        """Wakes waiting calls, because leaders or connections may have changed."""
        self._moved.set()
        self._moved = asyncio.Event()

    def next_move(self) -> asyncio.Event:
        """Returns an event that the next `move` sets. Taken before a turn, to wait for changes of its result."""
        return self._moved

    async def wait(self, moved: asyncio.Event) -> None:
        """Waits until the event is set. While there are waiters, the folder is polled."""
        self._waiting += 1
        if self._watch is None:
            self._watch = asyncio.create_task(self._look())
        try:
            await moved.wait()
        finally:
            self._waiting -= 1
            if not self._waiting and self._watch is not None:
                self._watch.cancel()
                self._watch = None

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(self.look_every)
            with contextlib.suppress(OSError, StoreError):
                found = await self._thread.submit(self._folder.look)
                if found != self._seen:  # which never is as it was before an earlier look: see `Lines`
                    self._seen = found
                    self.move()

    def _notify(self) -> None:
        if self._folder.revision != self._revision:
            self._revision = self._folder.revision
            self.move()
