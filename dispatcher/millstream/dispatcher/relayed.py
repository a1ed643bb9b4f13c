"""Requests that the dispatcher passes on to job managers, and their answers. Owned by the dispatcher's loop."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

from millstream.dispatcher.jobs import SessionId

AnswerT = TypeVar("AnswerT")


class SessionEndedError(Exception):
    """The job manager went away before it answered."""


class Relayed(Generic[AnswerT]):
    """Requests of one kind, by their id."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[SessionId, asyncio.Future[AnswerT]]] = {}

    async def answer(self, session: SessionId, request_id: str, timeout: float | None) -> AnswerT:
        """The answer to a request that was just sent. Raises TimeoutError, or SessionEndedError with the reason."""
        future: asyncio.Future[AnswerT] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = (session, future)
        try:
            async with asyncio.timeout(timeout):
                return await future
        finally:
            del self._waiting[request_id]

    def answered(self, request_id: str, answer: AnswerT) -> None:
        """An answer came; nobody may be waiting any more."""
        _, future = self._waiting.get(request_id, (None, None))
        if future is not None and not future.done():
            future.set_result(answer)

    def session_ended(self, session: SessionId, reason: str) -> None:
        """Nobody will answer what was asked over this session."""
        for asked, future in self._waiting.values():
            if asked == session and not future.done():
                future.set_exception(SessionEndedError(reason))
