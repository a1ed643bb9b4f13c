"""Requests that the dispatcher passes on to job managers, and their responses. Owned by the dispatcher's loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct

from millstream.dispatcher.jobs import SessionId

ResponseT = TypeVar("ResponseT")


class SessionEndedError(Exception):
    """The session with the job manager ended before its response."""


class _Pending(Struct, eq=False):
    session: SessionId
    future: asyncio.Future[Any]
    waiting: int = 0


class Relayed:
    """Requests by the class of their response, and by their id."""

    def __init__(self) -> None:
        self._pending: dict[tuple[type[Any], str], _Pending] = {}

    async def request(
        self,
        response: type[ResponseT],
        session: SessionId,
        request_id: str,
        send: Callable[[], None],
        timeout: float | None,
    ) -> ResponseT:
        """The response to a request, which is sent unless the same one is already in progress over the session.

        Raises TimeoutError, or SessionEndedError with the reason.
        """
        key = (response, request_id)
        pending = self._pending.get(key)
        if pending is None or pending.session != session:
            pending = self._pending[key] = _Pending(session, asyncio.get_running_loop().create_future())
            send()
        pending.waiting += 1
        try:
            async with asyncio.timeout(timeout):
                received: ResponseT = await asyncio.shield(pending.future)
                return received
        finally:
            pending.waiting -= 1
            if not pending.waiting and self._pending.get(key) is pending:
                del self._pending[key]

    def complete(self, request_id: str, response: object) -> None:
        """Sets the response to a request; without effect when no caller waits any more."""
        pending = self._pending.get((type(response), request_id))
        if pending is not None and not pending.future.done():
            pending.future.set_result(response)

    def session_ended(self, session: SessionId, reason: str) -> None:
        """Raises SessionEndedError in all callers that wait for responses over this session."""
        for pending in self._pending.values():
            if pending.session == session and not pending.future.done():
                pending.future.set_exception(SessionEndedError(reason))
