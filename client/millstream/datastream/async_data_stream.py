"""`AsyncDataStream`: asynchronous functions on streams, with PyFlink's names."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar, overload

from millstream.common.time import Interval, plain_milliseconds
from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.plan.async_plan import AsyncSpec
from millstream.core.records.types import AnyType, TypeInformation
from millstream.datastream.adapters.signatures import element_type
from millstream.datastream.async_retry_strategies import NO_RETRY_STRATEGY, NoRetryStrategy
from millstream.datastream.data_stream import DataStream
from millstream.datastream.functions import AsyncFunction, AsyncFunctionDescriptor, AsyncRetryStrategy

_ORDERED, _UNORDERED = AsyncFunctionDescriptor.OutputMode.ORDERED, AsyncFunctionDescriptor.OutputMode.UNORDERED


T = TypeVar("T")
OUT = TypeVar("OUT")


class AsyncDataStream:
    """Applies an AsyncFunction to a stream: up to `capacity` records of a subtask are processed concurrently.

    `timeout` is a duration or milliseconds; 0 is no timeout. A record that takes longer gets the results of the
    function's `timeout` method. `output_type` is the type of one result. Each method raises `InvalidProgramError`
    unless `async_invoke` is an `async def` method, and for an invalid timeout, capacity or retry strategy. Example:

        names = AsyncDataStream.unordered_wait(ids, Lookup(), Time.seconds(5), capacity=200)
    """

    @overload
    @staticmethod
    def unordered_wait(
        data_stream: DataStream[T],
        async_function: AsyncFunction[T, OUT],
        timeout: Interval,
        capacity: int = 100,
        output_type: None = None,
    ) -> DataStream[OUT]: ...

    @overload
    @staticmethod
    def unordered_wait(
        data_stream: DataStream[T],
        async_function: AsyncFunction[T, object],
        timeout: Interval,
        capacity: int = 100,
        *,
        output_type: TypeInformation[OUT] | type[OUT],
    ) -> DataStream[OUT]: ...

    @overload
    @staticmethod
    def unordered_wait(
        data_stream: DataStream[T],
        async_function: AsyncFunction[T, object],
        timeout: Interval,
        capacity: int = 100,
        *,
        output_type: AnyType,
    ) -> DataStream[object]: ...

    @overload
    @staticmethod
    def unordered_wait(
        data_stream: DataStream[T],
        async_function: AsyncFunction[T, object],
        timeout: Interval,
        capacity: int = 100,
        output_type: object = None,
    ) -> DataStream[Any]: ...

    @staticmethod
    def unordered_wait(
        data_stream: DataStream[Any],
        async_function: AsyncFunction[Any, Any],
        timeout: Interval,
        capacity: int = 100,
        output_type: Any = None,
    ) -> DataStream[Any]:
        """Applies `async_function` to `data_stream`; returns results as they complete; none overtakes a watermark.

        `timeout` is the longest time for a record, `capacity` the number of concurrent records in a subtask, and
        `output_type` the type of one result.

            AsyncDataStream.unordered_wait(users, Profiles(), Time.seconds(5), output_type=str)
        """
        return _applied(data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type, _UNORDERED)

    @overload
    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream[T],
        async_function: AsyncFunction[T, OUT],
        timeout: Interval,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        output_type: None = None,
    ) -> DataStream[OUT]: ...

    @overload
    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream[T],
        async_function: AsyncFunction[T, object],
        timeout: Interval,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        *,
        output_type: TypeInformation[OUT] | type[OUT],
    ) -> DataStream[OUT]: ...

    @overload
    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream[T],
        async_function: AsyncFunction[T, object],
        timeout: Interval,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        *,
        output_type: AnyType,
    ) -> DataStream[object]: ...

    @overload
    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream[T],
        async_function: AsyncFunction[T, object],
        timeout: Interval,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        output_type: object = None,
    ) -> DataStream[Any]: ...

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream[Any],
        async_function: AsyncFunction[Any, Any],
        timeout: Interval,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        output_type: Any = None,
    ) -> DataStream[Any]:
        """Applies `async_function` to `data_stream`, with retries; returns results as they complete.

        `async_retry_strategy` selects the outcomes that are tried again, all within `timeout`. `capacity` is the number
        of concurrent records in a subtask, and `output_type` the type of one result. No result overtakes a watermark.

            again = AsyncRetryStrategy.fixed_delay(3, 100, exception_predicate=lambda error: isinstance(error, OSError))
            AsyncDataStream.unordered_wait_with_retry(ids, Lookup(), Time.seconds(5), again)
        """
        return _applied(data_stream, async_function, timeout, async_retry_strategy, capacity, output_type, _UNORDERED)

    @overload
    @staticmethod
    def ordered_wait(
        data_stream: DataStream[T],
        async_function: AsyncFunction[T, OUT],
        timeout: Interval,
        capacity: int = 100,
        output_type: None = None,
    ) -> DataStream[OUT]: ...

    @overload
    @staticmethod
    def ordered_wait(
        data_stream: DataStream[T],
        async_function: AsyncFunction[T, object],
        timeout: Interval,
        capacity: int = 100,
        *,
        output_type: TypeInformation[OUT] | type[OUT],
    ) -> DataStream[OUT]: ...

    @overload
    @staticmethod
    def ordered_wait(
        data_stream: DataStream[T],
        async_function: AsyncFunction[T, object],
        timeout: Interval,
        capacity: int = 100,
        *,
        output_type: AnyType,
    ) -> DataStream[object]: ...

    @overload
    @staticmethod
    def ordered_wait(
        data_stream: DataStream[T],
        async_function: AsyncFunction[T, object],
        timeout: Interval,
        capacity: int = 100,
        output_type: object = None,
    ) -> DataStream[Any]: ...

    @staticmethod
    def ordered_wait(
        data_stream: DataStream[Any],
        async_function: AsyncFunction[Any, Any],
        timeout: Interval,
        capacity: int = 100,
        output_type: Any = None,
    ) -> DataStream[Any]:
        """Applies `async_function` to `data_stream`; returns the results in the order of their records.

        `timeout` is the longest time for a record, `capacity` the number of concurrent records in a subtask, and
        `output_type` the type of one result.

            AsyncDataStream.ordered_wait(users, Profiles(), Time.seconds(5), capacity=100)
        """
        return _applied(data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type, _ORDERED)

    @overload
    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream[T],
        async_function: AsyncFunction[T, OUT],
        timeout: Interval,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        output_type: None = None,
    ) -> DataStream[OUT]: ...

    @overload
    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream[T],
        async_function: AsyncFunction[T, object],
        timeout: Interval,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        *,
        output_type: TypeInformation[OUT] | type[OUT],
    ) -> DataStream[OUT]: ...

    @overload
    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream[T],
        async_function: AsyncFunction[T, object],
        timeout: Interval,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        *,
        output_type: AnyType,
    ) -> DataStream[object]: ...

    @overload
    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream[T],
        async_function: AsyncFunction[T, object],
        timeout: Interval,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        output_type: object = None,
    ) -> DataStream[Any]: ...

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream[Any],
        async_function: AsyncFunction[Any, Any],
        timeout: Interval,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        output_type: Any = None,
    ) -> DataStream[Any]:
        """Applies `async_function` to `data_stream`, with retries; returns the results in the order of their records.

        `async_retry_strategy` selects the outcomes that are tried again, all within `timeout`. `capacity` is the number
        of concurrent records in a subtask, and `output_type` the type of one result.

            retries = AsyncRetryStrategy.fixed_delay(3, 100)
            AsyncDataStream.ordered_wait_with_retry(users, Profiles(), Time.seconds(5), retries)
        """
        return _applied(data_stream, async_function, timeout, async_retry_strategy, capacity, output_type, _ORDERED)


def _applied(
    stream: DataStream[Any],
    function: AsyncFunction[Any, Any],
    timeout: Interval,
    strategy: AsyncRetryStrategy[Any],
    capacity: int,
    output_type: Any,
    mode: AsyncFunctionDescriptor.OutputMode,
) -> DataStream[Any]:
    if not isinstance(stream, DataStream):
        raise InvalidProgramError(f"AsyncDataStream: expected a DataStream, got {stream!r}")
    if not inspect.iscoroutinefunction(getattr(function, "async_invoke", None)):
        raise InvalidProgramError(
            f"AsyncDataStream: Method 'async_invoke' of class '{type(function).__qualname__}' should be declared as "
            "'async def'."
        )
    if not isinstance(strategy, AsyncRetryStrategy):
        raise InvalidProgramError(f"AsyncDataStream: expected an AsyncRetryStrategy, got {strategy!r}")
    if strategy.get_retry_predicate() is None:
        raise InvalidProgramError(f"AsyncDataStream: {type(strategy).__qualname__} has no retry predicate")
    milliseconds = plain_milliseconds(timeout)
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float):
        raise InvalidProgramError(f"AsyncDataStream: a timeout is milliseconds or a duration, not {timeout!r}")
    if milliseconds <= 0 and not isinstance(strategy, NoRetryStrategy):
        raise InvalidProgramError("AsyncDataStream: a function that is tried again needs a timeout of more than 0")
    descriptor = AsyncFunctionDescriptor(function, timeout, capacity, strategy, mode)
    spec = AsyncSpec(
        descriptor.async_function,
        milliseconds / 1000 if milliseconds > 0 else None,
        descriptor.capacity,
        descriptor.async_retry_strategy,
        descriptor.output_mode is _ORDERED,
    )
    kind = element_type(function.async_invoke, output_type)
    environment = stream.get_execution_environment()
    operator = environment.add_operator("async wait operator", stream.transformation, spec, kind)
    return DataStream(environment, operator, kind)
