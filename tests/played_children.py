"""A child process that sends predefined messages, and ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class SayingChild:
    """A `millstream.core.processes.child.Child`, and the launcher of itself."""

    def __init__(self, messages: Sequence[bytes]) -> None:
        self.crashed = False
        self.was_killed = False
        self._messages = messages

    async def __call__(self, *_arguments: Any) -> SayingChild:
        return self

    def send(self, message: bytes) -> None:
        """Ignores the message."""

    async def receive(self, on_message: Callable[[bytes], None]) -> None:
        for message in self._messages:
            on_message(message)

    async def wait(self) -> str:
        return "no more messages"

    def kill(self) -> None:
        self.was_killed = True
