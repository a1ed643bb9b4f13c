"""Asynchronous functions in the API: what is refused, and what becomes of the settings."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from millstream.common import Time, Types
from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.plan.async_plan import AsyncSpec
from millstream.datastream import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    DataStream,
    StreamExecutionEnvironment,
)
from millstream.datastream.async_retry_predicates import (
    empty_result_predicate,
    exception_type_predicate,
    has_exception_predicate,
)
from millstream.datastream.async_retry_strategies import NO_RETRY_STRATEGY
from millstream.datastream.graph.transformations import OperatorTransformation


class Lookup(AsyncFunction[int, str]):
    async def async_invoke(self, value: int) -> list[str]:
        return [str(value)]


class Blocking:
    def async_invoke(self, value: int) -> list[str]:
        return [str(value)]


@pytest.fixture
def numbers() -> DataStream:
    return StreamExecutionEnvironment.get_execution_environment().from_sequence(1, 3)


def spec_of(stream: DataStream) -> AsyncSpec:
    assert isinstance(stream.transformation, OperatorTransformation)
    assert isinstance(stream.transformation.spec, AsyncSpec)
    return stream.transformation.spec


@pytest.mark.parametrize("timeout", [Time.seconds(5), timedelta(seconds=5), 5000])
def test_a_timeout_is_any_length_of_time(numbers: DataStream, timeout: Any) -> None:
    spec = spec_of(AsyncDataStream.ordered_wait(numbers, Lookup(), timeout, 7))
    assert (spec.timeout, spec.capacity, spec.ordered, spec.retry_strategy) == (5.0, 7, True, NO_RETRY_STRATEGY)


def test_a_timeout_of_zero_is_none(numbers: DataStream) -> None:
    spec = spec_of(AsyncDataStream.unordered_wait(numbers, Lookup(), Time.seconds(0)))
    assert (spec.timeout, spec.capacity, spec.ordered) == (None, 100, False)


def test_the_type_is_declared_or_taken_from_the_annotation(numbers: DataStream) -> None:
    assert AsyncDataStream.ordered_wait(numbers, Lookup(), 1000).get_type() == Types.STRING()
    assert AsyncDataStream.ordered_wait(numbers, Lookup(), 1000, 1, Types.LONG()).get_type() == Types.LONG()


def test_what_cannot_be_is_refused(numbers: DataStream) -> None:
    wait, again = AsyncDataStream.unordered_wait, AsyncDataStream.unordered_wait_with_retry
    retry = AsyncRetryStrategy.fixed_delay(1, 1000, empty_result_predicate, None)
    with pytest.raises(InvalidProgramError, match=r"Method 'async_invoke' of class 'Blocking' should be .*'async def'"):
        wait(numbers, Blocking(), Time.seconds(1))  # type: ignore[arg-type]
    with pytest.raises(InvalidProgramError, match="a capacity is a whole number of at least 1, not 0"):
        wait(numbers, Lookup(), Time.seconds(1), 0)
    with pytest.raises(InvalidProgramError, match="a timeout is milliseconds or a duration, not 'soon'"):
        wait(numbers, Lookup(), "soon")  # type: ignore[arg-type]
    with pytest.raises(InvalidProgramError, match="needs a timeout of more than 0"):
        again(numbers, Lookup(), 0, retry)
    with pytest.raises(InvalidProgramError, match="expected an AsyncRetryStrategy, got None"):
        again(numbers, Lookup(), 1, None)  # type: ignore[arg-type]
    with pytest.raises(InvalidProgramError, match="expected a DataStream"):
        wait([1, 2], Lookup(), 1)  # type: ignore[arg-type]


def test_a_fixed_delay_is_the_same_each_time_and_limited() -> None:
    strategy = AsyncRetryStrategy.fixed_delay(2, 300)
    assert [strategy.can_retry(n) for n in (1, 2, 3)] == [True, True, False]
    assert [strategy.get_backoff_time_millis(n) for n in (1, 2)] == [300, 300]


def test_an_exponential_delay_grows_up_to_the_longest() -> None:
    strategy = AsyncRetryStrategy.exponential_backoff(9, 100, 1000, 3.0)
    assert [strategy.get_backoff_time_millis(n) for n in (1, 2, 3, 4, 1)] == [100, 300, 900, 1000, 100]
    assert [strategy.can_retry(n) for n in (9, 10)] == [True, False]


@pytest.mark.parametrize("arguments", [(0, 1), (1, 0), (1, -5), (True, 1), (1, "a")])
def test_a_strategy_needs_numbers_above_zero(arguments: tuple[Any, Any]) -> None:
    with pytest.raises(InvalidProgramError, match="is a number above 0"):
        AsyncRetryStrategy.fixed_delay(*arguments)


def test_the_predicates_by_their_names() -> None:
    assert [empty_result_predicate(result) for result in ([], None, [1])] == [True, True, False]
    assert [has_exception_predicate(error) for error in (ValueError(), None)] == [True, False]
    is_value_error = partial(exception_type_predicate, expected_error_type=ValueError)
    assert [is_value_error(error) for error in (ValueError(), KeyError())] == [True, False]
