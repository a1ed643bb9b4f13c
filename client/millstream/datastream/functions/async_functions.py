"""Functions that wait for something outside of the job, for many records at the same time: `AsyncFunction`.

All calls of one function in a task come from one thread, that of its event loop: `async_invoke` as a coroutine, and
`open`, `timeout` and `close` between the steps of these. So `open` may make what needs a running loop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import Any, Generic

from msgspec import Struct

from millstream.core.errors import InvalidProgramError
from millstream.core.records.type_variables import IN_contra, OUT_co, T_contra
from millstream.datastream.functions.function import Function

ResultPredicate = Callable[[list[Any]], bool]
ErrorPredicate = Callable[[Exception], bool]


class AsyncFunction(Function, ABC, Generic[IN_contra, OUT_co]):
    """A function that waits for something outside of the job, for many records concurrently: `AsyncFunction[IN, OUT]`.

    It is applied with `AsyncDataStream`. Example:

        class Lookup(AsyncFunction[int, str]):
            async def async_invoke(self, value: int) -> list[str]:
                return [await fetch_name(value)]

        AsyncDataStream.unordered_wait(ids, Lookup(), Time.seconds(5), capacity=200)
    """

    @abstractmethod
    async def async_invoke(self, value: IN_contra, /) -> list[OUT_co]:
        """Called with each record, `value`; returns its results, or an empty list. An exception fails the job."""

    def timeout(self, value: IN_contra, /) -> list[OUT_co]:
        """Called when the record `value` has not completed within the timeout; returns the results to emit instead.

        Raises `TimeoutError` unless it is overridden, which fails the job.
        """
        raise TimeoutError(
            f"{type(self).__qualname__}.async_invoke did not complete in time; override timeout() to return "
            "other results, or allow more time"
        )


class AsyncRetryPredicate(ABC, Generic[T_contra]):
    """Selects the outcomes of a call that are tried again."""

    @abstractmethod
    def result_predicate(self) -> Callable[[list[T_contra]], bool] | None:
        """Returns the predicate on the results of a call; None: results are never tried again."""

    @abstractmethod
    def exception_predicate(self) -> ErrorPredicate | None:
        """Returns the predicate on the exception of a call; None: exceptions are never tried again."""


class AsyncRetryStrategy(ABC, Generic[T_contra]):
    """Decides whether and when a function is called again for the same record, in the thread of the event loop."""

    @abstractmethod
    def can_retry(self, current_attempts: int, /) -> bool:
        """Returns whether another attempt may follow after `current_attempts` attempts."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int, /) -> int:
        """Returns the milliseconds to wait after `current_attempts` attempts."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate[T_contra]:
        """Returns the predicate that selects the outcomes to try again."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy[Any]:
        """Returns the strategy that never tries again."""
        from millstream.datastream.async_retry_strategies import NO_RETRY_STRATEGY

        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None = None,
        exception_predicate: ErrorPredicate | None = None,
    ) -> AsyncRetryStrategy[Any]:
        """Returns a strategy with the same delay, `backoff_time_millis`, before each of `max_attempts` attempts.

        `result_predicate` and `exception_predicate` return whether an outcome is tried again.
        """
        from millstream.datastream.async_retry_strategies import FixedDelayRetryStrategy

        return FixedDelayRetryStrategy(max_attempts, backoff_time_millis, result_predicate, exception_predicate)

    @staticmethod
    def exponential_backoff(
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate | None = None,
        exception_predicate: ErrorPredicate | None = None,
    ) -> AsyncRetryStrategy[Any]:
        """Returns a strategy whose delay before each attempt grows: `multiplier` times the one before.

        `max_attempts` is the number of attempts, `initial_delay` the first delay and `max_retry_delay` the longest one,
        in milliseconds. `result_predicate` and `exception_predicate` return whether an outcome is tried again.
        """
        from millstream.datastream.async_retry_strategies import ExponentialBackoffDelayRetryStrategy

        return ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )


class AsyncFunctionDescriptor(Struct, frozen=True):
    """An asynchronous function with its timeout, capacity, retry strategy and output mode."""

    class OutputMode(Enum):
        """Whether results leave in the order of their records, or as they come between two watermarks."""

        ORDERED = 0
        UNORDERED = 1

    async_function: AsyncFunction[Any, Any]
    timeout: Any
    """Milliseconds or a duration; 0 or less: no timeout."""
    capacity: int
    async_retry_strategy: AsyncRetryStrategy[Any]
    output_mode: OutputMode

    def __post_init__(self) -> None:
        if isinstance(self.capacity, bool) or not isinstance(self.capacity, int) or self.capacity < 1:
            raise InvalidProgramError(f"a capacity is a whole number of at least 1, not {self.capacity!r}")
