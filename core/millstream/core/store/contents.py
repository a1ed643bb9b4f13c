"""Where large content lies, to which entries of the store point: a folder, or memory.

Content is written before the entry that points to it, and deleted after that is gone: so a pointer always leads to its
content, and a crash in between leaves content behind, never a pointer to nothing. An implementation passes the suite in
`tests/core/store`.
"""

from __future__ import annotations

import itertools
from typing import Generic, Protocol, TypeVar

from millstream.core.errors import MillstreamError

T = TypeVar("T")


class NoContentError(MillstreamError):
    """A pointer leads to nothing."""


class Contents(Protocol[T]):
    """Content of one kind. What was put is never changed. Owned by one asyncio loop."""

    async def put(self, content: T) -> str:
        """Returns when the content is durable, with its pointer: a new one each time, also for equal content."""
        ...

    async def get(self, pointer: str) -> T:
        """What was put. Raises NoContentError."""
        ...

    async def delete(self, pointer: str) -> None:
        """What is gone already is no error."""
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
