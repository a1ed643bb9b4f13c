"""Retry strategies of asynchronous functions, with PyFlink's names; created by `AsyncRetryStrategy`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from millstream.core.backoff import Backoff
from millstream.core.errors import InvalidProgramError
from millstream.core.overriding import override
from millstream.datastream.functions import AsyncRetryPredicate, AsyncRetryStrategy

OUT = TypeVar("OUT")

_Results = Callable[[list[OUT]], bool] | None
_Errors = Callable[[Exception], bool] | None


class RetryPredicate(AsyncRetryPredicate[OUT]):
    """A predicate of results and a predicate of exceptions; either can be None."""

    def __init__(self, result_predicate: _Results[OUT], exception_predicate: _Errors) -> None:
        self._result_predicate = result_predicate
        self._exception_predicate = exception_predicate

    @override
    def result_predicate(self) -> _Results[OUT]:
        return self._result_predicate

    @override
    def exception_predicate(self) -> _Errors:
        return self._exception_predicate


class NoRetryStrategy(AsyncRetryStrategy[OUT]):
    """Never retries."""

    @override
    def can_retry(self, current_attempts: int) -> bool:
        return False

    @override
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return -1

    @override
    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        return RetryPredicate(None, None)


class _LimitedRetryStrategy(AsyncRetryStrategy[OUT]):
    def __init__(self, max_attempts: int, result_predicate: _Results[OUT], exception_predicate: _Errors) -> None:
        self._max_attempts: int = _positive("max_attempts", max_attempts)
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    @override
    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self._max_attempts

    @override
    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        return self._predicate


class FixedDelayRetryStrategy(_LimitedRetryStrategy[OUT]):
    """Retries after a fixed delay."""

    def __init__(
        self,
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: _Results[OUT],
        exception_predicate: _Errors,
    ) -> None:
        super().__init__(max_attempts, result_predicate, exception_predicate)
        self._backoff_time_millis: int = _positive("backoff_time_millis", backoff_time_millis)

    @override
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return self._backoff_time_millis


class ExponentialBackoffDelayRetryStrategy(_LimitedRetryStrategy[OUT]):
    """Retries after a delay that grows with each attempt up to a maximum."""

    def __init__(
        self,
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: _Results[OUT],
        exception_predicate: _Errors,
    ) -> None:
        super().__init__(max_attempts, result_predicate, exception_predicate)
        self._initial_delay = _positive("initial_delay", initial_delay)
        self._max_retry_delay = _positive("max_retry_delay", max_retry_delay)
        self._multiplier = _positive("multiplier", multiplier)

    @override
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return int(Backoff(self._initial_delay, self._max_retry_delay, self._multiplier).after(current_attempts))


def _positive(name: str, number: Any) -> Any:
    if isinstance(number, bool) or not isinstance(number, int | float) or number <= 0:
        raise InvalidProgramError(f"a retry strategy's {name} is a number above 0, not {number!r}")
    return number


NO_RETRY_STRATEGY: NoRetryStrategy[Any] = NoRetryStrategy()
"""The default strategy."""
