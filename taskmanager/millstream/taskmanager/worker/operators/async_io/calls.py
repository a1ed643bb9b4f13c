"""The event loop of asynchronous functions, in a thread of its own.

All user code runs on that thread: the coroutines, and between their steps `open`, `timeout`, `close` and the predicates
of retries. The task's thread starts calls and takes their outcomes; it waits only for `open` and the like. Timeouts and
retry delays are managed by the task: the loop starts nothing by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from typing import Any

from msgspec import Struct

from millstream.core.logs.origins import for_this_task
from millstream.core.processes.forking import leave_if_forked
from millstream.datastream.functions import AsyncFunction, AsyncRetryStrategy

_STOP_SECONDS = 1.0  # for coroutines to handle their cancellation; the thread does not keep its process from ending


class Completed(Struct, frozen=True):
    """The results of a record."""

    number: int
    results: list[Any]


class Failed(Struct, frozen=True):
    """The function raised, and no retries are left."""

    number: int
    error: BaseException


class TryAgain(Struct, frozen=True):
    """The record is to be retried after so many seconds."""

    number: int
    seconds: float


Outcome = Completed | Failed | TryAgain


class Start(Struct, frozen=True):
    """An attempt to be started."""

    number: int
    value: Any
    attempt: int


class AsyncCalls:
    """The calls of one function in one task. `announce` is called on the loop's thread when outcomes are available."""

    def __init__(
        self,
        function: AsyncFunction[Any, Any],
        strategy: AsyncRetryStrategy[Any],
        name: str,
        announce: Callable[[], None],
    ) -> None:
        self._function = function
        self._strategy = strategy
        self._name = name
        self._announce = announce
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._under_way: dict[int, asyncio.Task[None] | None] = {}  # None: between two attempts
        self._outcomes: deque[Outcome] = deque()
        self._announced = False

    def run(self, call: Callable[[], Any]) -> None:
        """Calls a function on the loop's thread, awaits its result if it is awaitable, and raises what it raises."""

        async def called() -> None:
            result = call()
            if inspect.isawaitable(result):
                await result

        self._submit(called()).result()

    def start(self, attempts: Sequence[Start]) -> None:
        """Starts attempts."""
        self._running_loop().call_soon_threadsafe(self._begin, attempts)

    def time_out(self, number: int, value: Any) -> None:
        """Calls the function's `timeout` in place of a result, unless there is a result already."""
        self._running_loop().call_soon_threadsafe(self._give_up, number, value)

    def outcomes(self) -> list[Outcome]:
        """The outcomes since the last call."""
        self._announced = False  # first: an outcome that arrives from now on is announced again
        taken = []
        while self._outcomes:
            taken.append(self._outcomes.popleft())
        return taken

    def cancel(self) -> None:
        """Cancels calls in flight; a coroutine that does not end when cancelled is abandoned."""
        if self._loop is not None:
            with contextlib.suppress(TimeoutError):
                self._submit(self._cancel_all()).result(_STOP_SECONDS)

    def stop(self) -> None:
        """Ends the thread."""
        if self._loop is None or self._thread is None:
            return
        loop, thread = self._loop, self._thread
        self._loop = None
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_STOP_SECONDS)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            run = for_this_task(_run)
            self._thread = threading.Thread(target=run, args=(self._loop,), name=f"async {self._name}", daemon=True)
            self._thread.start()
        return self._loop

    def _submit(self, coroutine: Coroutine[Any, Any, None]) -> Future[None]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._running_loop())

    def _begin(self, attempts: Sequence[Start]) -> None:
        loop = asyncio.get_running_loop()
        for attempt in attempts:
            self._under_way[attempt.number] = loop.create_task(self._attempt(attempt))

    async def _attempt(self, attempt: Start) -> None:
        number = attempt.number
        try:
            outcome = await self._outcome(attempt)
        except BaseException as error:  # also a cancellation, unless this class has requested it
            leave_if_forked(error)
            outcome = Failed(number, error)
        leave_if_forked()
        if self._under_way.get(number) is not asyncio.current_task():
            return  # it was cancelled
        if isinstance(outcome, TryAgain):
            self._under_way[number] = None
        else:
            del self._under_way[number]
        self._notify(outcome)

    async def _outcome(self, attempt: Start) -> Outcome:
        predicate = self._strategy.get_retry_predicate()
        try:
            results = await self._function.async_invoke(attempt.value)
        except Exception as error:
            by_error = predicate.exception_predicate()
            if by_error is None or not by_error(error) or not self._strategy.can_retry(attempt.attempt):
                raise
        else:
            by_result = predicate.result_predicate()
            if by_result is None or not by_result(results) or not self._strategy.can_retry(attempt.attempt):
                return Completed(attempt.number, self._checked(results))
        return TryAgain(attempt.number, self._strategy.get_backoff_time_millis(attempt.attempt) / 1000)

    def _give_up(self, number: int, value: Any) -> None:
        if number not in self._under_way:
            return
        task = self._under_way.pop(number)
        if task is not None:
            task.cancel()
        try:
            outcome: Outcome = Completed(number, self._checked(self._function.timeout(value)))
        except BaseException as error:
            leave_if_forked(error)
            outcome = Failed(number, error)
        leave_if_forked()
        self._notify(outcome)

    def _checked(self, results: Any) -> list[Any]:
        if isinstance(results, Iterable) and not isinstance(results, str | bytes):
            return list(results)
        what = "cannot be none" if results is None else f"should be of list type, not {type(results).__qualname__}"
        raise TypeError(
            f"The result of AsyncFunction {what}: please check the methods 'async_invoke' and 'timeout' of class "
            f"'{type(self._function).__qualname__}'"
        )

    def _notify(self, outcome: Outcome) -> None:
        self._outcomes.append(outcome)
        if not self._announced:
            self._announced = True
            self._announce()

    async def _cancel_all(self) -> None:
        tasks = [task for task in self._under_way.values() if task is not None]
        self._under_way.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()
