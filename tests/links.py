"""A session that a test opens, in place of a service."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from millstream.core.services.session import Dialer, Session
from millstream.core.settings.configuration import Configuration
from millstream.core.wire.contract import SessionContract

Up = TypeVar("Up")
Down = TypeVar("Down")
M = TypeVar("M")


async def next_of(received: asyncio.Queue[Any], kind: type[M]) -> M:
    """The next message of this kind; others in between are dropped."""
    while not isinstance(message := await received.get(), kind):
        pass
    return message


class Link(Generic[Up, Down]):
    """One session: what arrived, and a way to send. It starts with the registration of the service."""

    def __init__(
        self, address: str, contract: SessionContract[Up, Down], configuration: Configuration, *registration: Up,
        peer: str = "the peer",
    ) -> None:  # fmt: skip
        self.received: asyncio.Queue[Down] = asyncio.Queue()
        self.session: asyncio.Future[Session[Up, Down]] = asyncio.get_running_loop().create_future()
        self._registration = registration
        dialling = Dialer(address, contract, configuration).dial_once(peer, self._started)
        self.end = asyncio.get_running_loop().create_task(dialling)

    def _started(self, session: Session[Up, Down]) -> Callable[[Down], None]:
        for message in self._registration:
            session.send(message)
        self.session.set_result(session)
        return self.received.put_nowait

    async def send(self, message: Up) -> None:
        (await self.session).send(message)

    async def next(self, kind: type[M] = object) -> M:  # type: ignore[assignment]  # any at all
        """The next message of this kind; others in between are dropped."""
        return await next_of(self.received, kind)

    async def close(self) -> None:
        if self.session.done():
            self.session.result().close("the test is over")
        await asyncio.gather(self.end, return_exceptions=True)
