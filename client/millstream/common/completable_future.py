"""`CompletableFuture`: what is asked of a job and takes its time, with PyFlink's name.

It is under way from the start, on a thread of the client's: nobody has to wait for it. Any thread may ask it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")
Take = Callable[["Future[Any]", float | None], T]


class CompletableFuture(Generic[T]):
    """A result that is there later: `future.result()` waits for it, and so does `await future`."""

    def __init__(self, future: Future[Any] | None = None, take: Take[T] | None = None) -> None:
        """`take` waits for what the future brings and makes the result of it; called for each `result`."""
        if future is None:
            from concurrent.futures import Future

            future = Future()
        self._future: Future[Any] = future
        self._take = take

    def result(self, timeout: float | None = None) -> T:
        """Waits for the work, for at most `timeout` seconds, and returns its result.

        Raises what the work raised, and `TimeoutError` when it has not ended in time.
        """
        return self._future.result(timeout) if self._take is None else self._take(self._future, timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Waits for the work, for at most `timeout` seconds; returns the exception that it raised, or None.

        Raises `TimeoutError` when the work has not ended in time.
        """
        try:
            self.result(timeout)
        except TimeoutError as error:
            if not self._future.done():
                raise
            return error
        except Exception as error:
            return error
        return None

    def done(self) -> bool:
        """Whether there is a result, or an error, or it was cancelled."""
        return self._future.done()

    def cancel(self) -> bool:
        """Gives up the work, unless it is done; whether it was given up. A job is cancelled by its client instead."""
        return self._future.cancel()

    def cancelled(self) -> bool:
        """Whether it was given up."""
        return self._future.cancelled()

    def set_result(self, result: T) -> None:
        """The result of a future that was made without work of its own."""
        self._future.set_result(result)

    def set_exception(self, exception: BaseException) -> None:
        """Sets the `exception` that `result` raises, for a future that was created without work of its own."""
        self._future.set_exception(exception)

    def __await__(self) -> Generator[Any, None, T]:
        import asyncio

        return asyncio.to_thread(self.result).__await__()
