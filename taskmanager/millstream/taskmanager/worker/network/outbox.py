"""Frames queued for one peer: put by any thread, taken by the exchange's loop, which sleeps when there are none.

The loop never sleeps while a frame waits. It declares that it is about to sleep *before* its last check, and a thread
checks whether the loop sleeps *after* it has put its frame: one of the two sees the other, however many threads put at
once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class Outbox:
    """`wake` is called on the thread that puts a frame while the loop sleeps."""

    def __init__(self, wake: Callable[[], object]) -> None:
        self._frames: deque[bytes] = deque()
        self._wake = wake
        self._sleeps = False

    def put(self, frame: bytes) -> None:
        """Appends a frame; called on any thread. It must not be interrupted half-way: others rely on its wake-up."""
        self._frames.append(frame)
        if self._sleeps:
            self._sleeps = False  # one wake-up is enough, and costs a system call
            self._wake()

    def take(self) -> bytes | None:
        """The next frame; only the loop takes."""
        return self._frames.popleft() if self._frames else None

    def may_sleep(self) -> bool:
        """Called before the loop sleeps; returns whether it may. The next frame wakes it."""
        self._sleeps = True
        if self._frames:
            self._sleeps = False
            return False
        return True
