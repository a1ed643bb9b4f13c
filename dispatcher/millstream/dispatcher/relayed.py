"""Requests that the dispatcher passes on to job managers, and their answers. Owned by the dispatcher's loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec import Struct

from millstream.dispatcher.jobs import SessionId

AnswerT = TypeVar("AnswerT")


class SessionEndedError(Exception):
    """The job manager went away before it answered."""


class _Asked(Generic[AnswerT], Struct, eq=False):
    session: SessionId
    future: asyncio.Future[AnswerT]
    waiting: int = 0


class Relayed(Generic[AnswerT]):
    """Requests of one kind, by their id."""

    def __init__(self) -> None:
        self._asked: dict[str, _Asked[AnswerT]] = {}

    async def answer(
        self, session: SessionId, request_id: str, send: Callable[[], None], timeout: float | None
    ) -> AnswerT:
        """The answer to a request, which is sent unless the same one is already under way over the session.

        Raises TimeoutError, or SessionEndedError with the reason.
        """
        asked = self._asked.get(request_id)
        if asked is None or asked.session != session:
            asked = self._asked[request_id] = _Asked(session, asyncio.get_running_loop().create_future())
            send()
        asked.waiting += 1
        try:
            async with asyncio.timeout(timeout):
                return await asyncio.shield(asked.future)
        finally:
            asked.waiting -= 1
            if not asked.waiting and self._asked.get(request_id) is asked:
                del self._asked[request_id]

    def answered(self, request_id: str, answer: AnswerT) -> None:
        """An answer came; nobody may be waiting any more."""
        asked = self._asked.get(request_id)
        if asked is not None and not asked.future.done():
            asked.future.set_result(answer)

    def session_ended(self, session: SessionId, reason: str) -> None:
        """Nobody will answer what was asked over this session."""
        for asked in self._asked.values():
            if asked.session == session and not asked.future.done():
                asked.future.set_exception(SessionEndedError(reason))
