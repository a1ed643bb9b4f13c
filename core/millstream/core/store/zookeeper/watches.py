"""Watches for changes of znodes in ZooKeeper: one for each path, shared by all waiters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

Post = Callable[[Callable[[], None]], None]
"""Schedules work on the loop, from any thread."""


class Watch:
    """Fires once, when the znode or the connection has changed. Kazoo calls it on its thread."""

    def __init__(self, post: Post, fire: Callable[[], None]) -> None:
        self._post = post
        self._fire = fire
        self.fired = asyncio.Event()

    def __call__(self, event: object) -> None:
        """Called by kazoo for any event; waiters read the new state themselves."""
        self._post(self._fire)


class Watches:
    """The watches that have not fired. kazoo keeps a watch until it fires, so the same one is passed each time."""

    def __init__(self, post: Post) -> None:
        self._post = post
        self._waiting: dict[str, Watch] = {}

    def on(self, path: str) -> Watch:
        """Returns the watch for a path, to pass to kazoo and to wait for."""
        if path not in self._waiting:
            self._waiting[path] = Watch(self._post, lambda: self._fire(path))
        return self._waiting[path]

    def fire_all(self) -> None:
        """Fires all watches after the connection has changed, since kazoo drops them."""
        for path in list(self._waiting):
            self._fire(path)

    def _fire(self, path: str) -> None:
        watch = self._waiting.pop(path, None)
        if watch is not None:
            watch.fired.set()
