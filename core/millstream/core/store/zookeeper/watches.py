"""Waiting for changes of a znode in ZooKeeper: one watch for each path, however many wait or gave up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

Post = Callable[[Callable[[], None]], None]
"""Has something done on the loop, from any thread."""


class Watch:
    """Fires once: something about the znode is different, or about the connection. Kazoo calls it on its thread."""

    def __init__(self, post: Post, fire: Callable[[], None]) -> None:
        self._post = post
        self._fire = fire
        self.fired = asyncio.Event()

    def __call__(self, event: object) -> None:
        """What kazoo does, whatever the event: who waits looks for itself."""
        self._post(self._fire)


class Watches:
    """Those that have not fired. kazoo keeps a watch until it fires, so it is given the same one each time."""

    def __init__(self, post: Post) -> None:
        self._post = post
        self._waiting: dict[str, Watch] = {}

    def on(self, path: str) -> Watch:
        """One to hand to kazoo, and to wait for."""
        if path not in self._waiting:
            self._waiting[path] = Watch(self._post, lambda: self._fire(path))
        return self._waiting[path]

    def fire_all(self) -> None:
        """The connection is another: kazoo has forgotten them, or is about to."""
        for path in list(self._waiting):
            self._fire(path)

    def _fire(self, path: str) -> None:
        watch = self._waiting.pop(path, None)
        if watch is not None:
            watch.fired.set()
