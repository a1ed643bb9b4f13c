"""Storage for large content that entries of the store point to: files in a folder or in object storage, or memory.

Content is written before the entry that points to it, and deleted after that is removed: so a pointer always refers to
existing content, and a crash in between leaves unused content, never a dangling pointer. Implementations pass the suite
in `tests/core/store`.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from millstream.core.backoff import Backoff
from millstream.core.errors import MillstreamError
from millstream.core.logs.repeats import Repeats

log = logging.getLogger(__name__)
T = TypeVar("T")
_BACKOFF = Backoff(0.5, 30.0)  # seconds


class NoContentError(MillstreamError):
    """A pointer refers to content that does not exist."""


class UnreachableContentError(MillstreamError):
    """The storage of the content is unreachable now, possibly for a while."""


class Contents(Protocol[T]):
    """Content of one kind. What was put is never changed. Owned by one asyncio loop."""

    async def put(self, content: T) -> str:
        """Returns when the content is durable, with its pointer: a new one each time, also for equal content.

        Raises UnreachableContentError, as the others do.
        """
        ...

    async def get(self, pointer: str) -> T:
        """Returns the content. Raises NoContentError."""
        ...

    async def delete(self, pointer: str) -> None:
        """Deletes the content, if it exists."""
        ...


class MemoryContents(Generic[T]):
    """`Contents` in this process. Keeps what is put as it is: values that are never changed need no copy."""

    def __init__(self) -> None:
        self._contents: dict[str, T] = {}
        self._numbers = itertools.count(1)

    def __len__(self) -> int:
        return len(self._contents)

    async def put(self, content: T) -> str:
        """See `Contents`."""
        pointer = f"memory:{next(self._numbers)}"
        self._contents[pointer] = content
        return pointer

    async def get(self, pointer: str) -> T:
        """See `Contents`."""
        if pointer not in self._contents:
            raise NoContentError(f"there is nothing at {pointer}")
        return self._contents[pointer]

    async def delete(self, pointer: str) -> None:
        """See `Contents`."""
        self._contents.pop(pointer, None)


async def until_reached(call: Callable[[], Awaitable[T]]) -> T:
    """Returns the result of the call, which is retried while the storage of the content is unreachable."""
    pauses, repeats, loop = _BACKOFF.delays(), Repeats(), asyncio.get_running_loop()
    while True:
        pause = next(pauses)
        try:
            return await call()
        except UnreachableContentError as error:
            if repeats.is_told(str(error), loop.time()):
                log.warning("retrying in %g s%s: %s", pause, repeats.times, error)
        await asyncio.sleep(pause)
