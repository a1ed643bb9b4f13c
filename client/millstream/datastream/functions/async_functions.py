"""Functions that wait for something outside of the job, for many records at the same time: `AsyncFunction`.

All calls of one function in a task come from one thread, that of its event loop: `async_invoke` as a coroutine, and
`open`, `timeout` and `close` between the steps of these. So `open` may make what needs a running loop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import Any, Generic, TypeVar

from msgspec import Struct

from millstream.core.errors import InvalidProgramError
from millstream.datastream.functions.function import Function

IN = TypeVar("IN")
OUT = TypeVar("OUT")

ResultPredicate = Callable[[list[Any]], bool]
ErrorPredicate = Callable[[Exception], bool]


class AsyncFunction(Function, ABC, Generic[IN, OUT]):
    """A function whose calls wait without holding each other up; applied with `AsyncDataStream`."""

    @abstractmethod
    async def async_invoke(self, value: IN) -> list[OUT]:
        """Called with each record; answers the results, of which there may be none. What it raises fails the job."""

    def timeout(self, value: IN) -> list[OUT]:
        """Called in place of a result that did not come in time; answers the results, or raises."""
        raise TimeoutError(
            f"{type(self).__qualname__}.async_invoke did not answer in time; override timeout() for results to go on "
            "with, or allow more time"
        )


class AsyncRetryPredicate(ABC, Generic[OUT]):
    """When an outcome is one to try again."""

    @abstractmethod
    def result_predicate(self) -> Callable[[list[OUT]], bool] | None:
        """By the results, if at all."""

    @abstractmethod
    def exception_predicate(self) -> ErrorPredicate | None:
        """By what was raised, if at all."""


class AsyncRetryStrategy(ABC, Generic[OUT]):
    """Whether and when a function is called again for the same record. Asked in the thread of the event loop."""

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Whether there may be another after so many attempts."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """How long to wait after so many attempts."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Which outcomes to try again."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy[Any]:
        """Never."""
        from millstream.datastream.async_retry_strategies import NO_RETRY_STRATEGY

        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None = None,
        exception_predicate: ErrorPredicate | None = None,
    ) -> AsyncRetryStrategy[Any]:
        """After the same time each time."""
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
        """After a time that grows with each attempt."""
        from millstream.datastream.async_retry_strategies import ExponentialBackoffDelayRetryStrategy

        return ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )


class AsyncFunctionDescriptor(Struct, frozen=True):
    """An asynchronous function with everything that was said about how to call it."""

    class OutputMode(Enum):
        """Whether results leave in the order of their records, or as they come between two watermarks."""

        ORDERED = 0
        UNORDERED = 1

    async_function: AsyncFunction[Any, Any]
    timeout: Any
    """Milliseconds or a duration; 0 or less: as long as it likes."""
    capacity: int
    async_retry_strategy: AsyncRetryStrategy[Any]
    output_mode: OutputMode

    def __post_init__(self) -> None:
        if isinstance(self.capacity, bool) or not isinstance(self.capacity, int) or self.capacity < 1:
            raise InvalidProgramError(f"a capacity is a whole number of at least 1, not {self.capacity!r}")
