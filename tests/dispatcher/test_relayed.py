"""Requests that are passed on to job managers: each response reaches the callers of its request."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from millstream.core.messages.queries import JobQueryResult
from millstream.core.messages.rescaling import RescaleResult
from millstream.core.messages.snapshots import SnapshotResult
from millstream.dispatcher.jobs import SessionId
from millstream.dispatcher.relayed import Relayed, SessionEndedError

SESSION = SessionId(1)


async def test_requests_of_two_kinds_may_have_the_same_id() -> None:
    relayed, sent = Relayed(), list[str]()
    snapshot, rescale = (
        asyncio.ensure_future(relayed.request(kind, SESSION, "t", partial(sent.append, kind.__name__), None))
        for kind in (SnapshotResult, RescaleResult)
    )
    await asyncio.sleep(0)
    relayed.complete("t", RescaleResult("t", "done"))
    assert await rescale == RescaleResult("t", "done")
    assert not snapshot.done()
    relayed.complete("t", SnapshotResult("t", 7))
    assert await snapshot == SnapshotResult("t", 7)
    assert sent == ["SnapshotResult", "RescaleResult"]


async def test_the_same_request_is_sent_once_over_a_session() -> None:
    relayed, sent = Relayed(), list[int]()
    both = [
        asyncio.ensure_future(relayed.request(SnapshotResult, SESSION, "t", lambda: sent.append(1), None))
        for _ in range(2)
    ]
    await asyncio.sleep(0)
    relayed.complete("t", SnapshotResult("t", 7))
    assert await asyncio.gather(*both) == [SnapshotResult("t", 7)] * 2
    assert sent == [1]
    relayed.complete("t", SnapshotResult("t", 8))  # no caller waits any more


async def test_the_end_of_a_session_ends_its_requests_only() -> None:
    relayed = Relayed()
    lost = asyncio.ensure_future(relayed.request(JobQueryResult, SESSION, "a", lambda: None, None))
    other = asyncio.ensure_future(relayed.request(JobQueryResult, SessionId(2), "b", lambda: None, None))
    await asyncio.sleep(0)
    relayed.session_ended(SESSION, "it is gone")
    with pytest.raises(SessionEndedError, match="it is gone"):
        await lost
    assert not other.done()
    other.cancel()
