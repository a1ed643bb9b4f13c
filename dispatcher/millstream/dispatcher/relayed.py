"""Requests that the dispatcher passes on to job managers, and their responses. Owned by the dispatcher's loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec import Struct

from millstream.dispatcher.jobs import SessionId

ResponseT = TypeVar("ResponseT")


class SessionEndedError(Exception):
    """The session with the job manager ended before its response."""


class _Pending(Generic[ResponseT], Struct, eq=False):
    session: SessionId
    future: asyncio.Future[ResponseT]
    waiting: int = 0


class Relayed(Generic[ResponseT]):
    """Requests of one kind, by their id."""

    def __init__(self) -> None:
        self._pending: dict[str, _Pending[ResponseT]] = {}

    async def request(
        self, session: SessionId, request_id: str, send: Callable[[], None], timeout: float | None
    ) -> ResponseT:
        """The response to a request, which is sent unless the same one is already in progress over the session.

        Raises TimeoutError, or SessionEndedError with the reason.
        """
        pending = self._pending.get(request_id)
        if pending is None or pending.session != session:
            pending = self._pending[request_id] = _Pending(session, asyncio.get_running_loop().create_future())
            send()
        pending.waiting += 1
        try:
            async with asyncio.timeout(timeout):
                return await asyncio.shield(pending.future)
        finally:
            pending.waiting -= 1
            if not pending.waiting and self._pending.get(request_id) is pending:
                del self._pending[request_id]

    def complete(self, request_id: str, response: ResponseT) -> None:
        """Sets the response to a request; without effect when no caller waits any more."""
        pending = self._pending.get(request_id)
        if pending is not None and not pending.future.done():
            pending.future.set_result(response)

    def session_ended(self, session: SessionId, reason: str) -> None:
        """Raises SessionEndedError in all callers that wait for responses over this session."""
        for pending in self._pending.values():
            if pending.session == session and not pending.future.done():
                pending.future.set_exception(SessionEndedError(reason))
