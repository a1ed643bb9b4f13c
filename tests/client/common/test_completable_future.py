"""Futures of a job's client: awaited, queried, cancelled."""

from __future__ import annotations

import asyncio
from concurrent.futures import CancelledError, Future

import pytest

from millstream.common import CompletableFuture


def test_a_result_is_waited_for_by_threads_and_by_coroutines() -> None:
    future: CompletableFuture[int] = CompletableFuture()
    assert not future.done()
    with pytest.raises(TimeoutError):
        future.result(timeout=0)
    future.set_result(1)
    assert (future.result(), future.exception(), future.done(), future.cancelled()) == (1, None, True, False)

    async def wait() -> int:
        return await future

    assert asyncio.run(wait()) == 1


def test_an_error_is_raised_and_answered() -> None:
    future: CompletableFuture[int] = CompletableFuture()
    error = ValueError("no")
    future.set_exception(error)
    assert future.exception() is error
    with pytest.raises(ValueError, match="no"):
        future.result()


def test_it_can_be_given_up_while_it_is_not_done() -> None:
    future: CompletableFuture[int] = CompletableFuture()
    assert future.cancel()
    assert future.cancelled()
    with pytest.raises(CancelledError):
        future.result()


def test_an_error_while_waiting_is_not_taken_for_the_result() -> None:
    future: CompletableFuture[int] = CompletableFuture()
    with pytest.raises(TimeoutError):
        future.exception(timeout=0)


def test_a_result_may_be_made_of_what_the_work_brings() -> None:
    work: Future[int] = Future()
    future = CompletableFuture(work, lambda brought, timeout: str(brought.result(timeout)))
    work.set_result(7)
    assert future.result() == "7"
