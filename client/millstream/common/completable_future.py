"""`CompletableFuture`: the result of an asynchronous request to a job, with PyFlink's name.

The request starts when the future is created and runs on a thread of the client, whether or not the program waits for
it. Futures are thread-safe.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")
Take = Callable[["Future[Any]", float | None], T]


class CompletableFuture(Generic[T]):
    """The result of an asynchronous operation: `future.result()` waits for it, and so does `await future`."""

    def __init__(self, future: Future[Any] | None = None, take: Take[T] | None = None) -> None:
        """Creates a future that wraps `future`; without it, one that is completed with `set_result` or `set_exception`.

        `take` is called by each `result` with `future` and the timeout, and returns the result.
        """
        if future is None:
            from concurrent.futures import Future

            future = Future()
        self._future: Future[Any] = future
        self._take = take

    def result(self, timeout: float | None = None) -> T:
        """Waits for at most `timeout` seconds and returns the result; without a timeout, waits indefinitely.

        Raises the exception of a failed operation, and `TimeoutError` if it has not completed in time.
        """
        return self._future.result(timeout) if self._take is None else self._take(self._future, timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Waits for at most `timeout` seconds and returns the exception of the operation; None if it succeeded.

        Raises `TimeoutError` if the operation has not completed in time.
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
        """Returns whether the future has completed: with a result, with an exception, or by being cancelled."""
        return self._future.done()

    def cancel(self) -> bool:
        """Cancels the future and returns whether it was cancelled; a completed future cannot be.

        It does not cancel the job: see `JobClient.cancel`.
        """
        return self._future.cancel()

    def cancelled(self) -> bool:
        """Returns whether the future was cancelled."""
        return self._future.cancelled()

    def set_result(self, result: T) -> None:
        """Completes the future with `result`; for a future that was created without an operation."""
        self._future.set_result(result)

    def set_exception(self, exception: BaseException) -> None:
        """Completes the future with `exception`, which `result` raises; for a future created without an operation."""
        self._future.set_exception(exception)

    def __await__(self) -> Generator[Any, None, T]:
        import asyncio

        return asyncio.to_thread(self.result).__await__()
