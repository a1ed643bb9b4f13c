"""`AllWindowedStream`: the operations on the windows of a stream without keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from millstream.core.jobs.plan.plan import OperatorSpec
from millstream.core.records.type_variables import T_co, W_co
from millstream.core.records.types import AnyType, TypeInformation
from millstream.core.row import Row
from millstream.datastream.adapters.process_functions import CallableAllWindowFunction
from millstream.datastream.aggregates import ColumnAggregate
from millstream.datastream.data_stream.windowed import Windowed
from millstream.datastream.functions import (
    AggregateFunction,
    AllWindowFunction,
    OutputTag,
    ProcessAllWindowFunction,
    ReduceFunction,
)
from millstream.datastream.functions.record_functions import SupportsReduce

if TYPE_CHECKING:
    from millstream.datastream.data_stream.data_stream import DataStream

OUT = TypeVar("OUT")
ACC = TypeVar("ACC")
RESULT = TypeVar("RESULT")
TUPLE = TypeVar("TUPLE", bound=tuple[Any, ...])


class AllWindowedStream(Windowed[Any, T_co], Generic[T_co, W_co]):
    """The windows of a stream without keys, in one subtask: `AllWindowedStream[RECORD, WINDOW]`."""

    _functions = (AllWindowFunction, ProcessAllWindowFunction)

    @overload  # a type checker may know that a number in a tuple is 1, which no result of the function has to be
    def reduce(
        self: AllWindowedStream[tuple[Any, ...], Any],
        reduce_function: Callable[[T_co, T_co], TUPLE] | SupportsReduce[T_co, TUPLE],
    ) -> DataStream[TUPLE]: ...

    @overload
    def reduce(
        self, reduce_function: Callable[[T_co, T_co], T_co] | ReduceFunction[T_co], window_function: None = None
    ) -> DataStream[T_co]: ...

    @overload
    def reduce(
        self: AllWindowedStream[tuple[Any, ...], Any],
        reduce_function: Callable[[T_co, T_co], TUPLE] | SupportsReduce[T_co, TUPLE],
        window_function: AllWindowFunction[TUPLE, OUT, W_co]
        | ProcessAllWindowFunction[TUPLE, OUT, W_co]
        | Callable[[W_co, list[TUPLE]], Iterable[OUT | tuple[OutputTag[Any], Any]] | None],
    ) -> DataStream[OUT]: ...

    @overload
    def reduce(
        self,
        reduce_function: Callable[[T_co, T_co], T_co] | ReduceFunction[T_co],
        window_function: AllWindowFunction[T_co, OUT, W_co]
        | ProcessAllWindowFunction[T_co, OUT, W_co]
        | Callable[[W_co, list[T_co]], Iterable[OUT | tuple[OutputTag[Any], Any]] | None],
    ) -> DataStream[OUT]: ...

    @overload
    def reduce(
        self,
        reduce_function: Callable[[T_co, T_co], Any] | SupportsReduce[T_co, Any],
        window_function: AllWindowFunction[T_co, object, W_co]
        | ProcessAllWindowFunction[T_co, object, W_co]
        | Callable[[W_co, list[T_co]], Iterable[object] | None]
        | None = None,
        *,
        output_type: TypeInformation[OUT] | type[OUT],
    ) -> DataStream[OUT]: ...

    @overload
    def reduce(
        self,
        reduce_function: Callable[[T_co, T_co], Any] | SupportsReduce[T_co, Any],
        window_function: AllWindowFunction[T_co, object, W_co]
        | ProcessAllWindowFunction[T_co, object, W_co]
        | Callable[[W_co, list[T_co]], Iterable[object] | None]
        | None = None,
        *,
        output_type: AnyType,
    ) -> DataStream[object]: ...

    @overload
    def reduce(
        self,
        reduce_function: Callable[[T_co, T_co], Any] | SupportsReduce[T_co, Any],
        window_function: AllWindowFunction[T_co, object, W_co]
        | ProcessAllWindowFunction[T_co, object, W_co]
        | Callable[[W_co, list[T_co]], Iterable[object] | None]
        | None = None,
        *,
        output_type: object,
    ) -> DataStream[Any]: ...

    def reduce(self, reduce_function: Any, window_function: Any = None, output_type: Any = None) -> DataStream[Any]:
        """Combines the records of each window into one value as they arrive, and emits it when the window is evaluated.

        `reduce_function` is a callable `(combined, record)` or a ReduceFunction. A `window_function` is called with the
        one combined value, and its results are emitted instead: an AllWindowFunction, a ProcessAllWindowFunction or a
        callable `(window, values)`. `output_type` is the type of one result. Raises `InvalidProgramError` for generator
        functions and for async functions.

            windows.reduce(lambda a, b: a if a.price > b.price else b)
        """
        return self._reduce(reduce_function, window_function, output_type)

    @overload
    def aggregate(self, aggregate_function: ColumnAggregate, *aggregates: ColumnAggregate) -> DataStream[Row]: ...

    @overload
    def aggregate(
        self,
        aggregate_function: AggregateFunction[T_co, ACC, RESULT],
        window_function: None = None,
        accumulator_type: object = None,
    ) -> DataStream[RESULT]: ...

    @overload
    def aggregate(
        self,
        aggregate_function: AggregateFunction[T_co, ACC, RESULT],
        window_function: AllWindowFunction[RESULT, OUT, W_co]
        | ProcessAllWindowFunction[RESULT, OUT, W_co]
        | Callable[[W_co, list[RESULT]], Iterable[OUT | tuple[OutputTag[Any], Any]] | None],
        accumulator_type: object = None,
    ) -> DataStream[OUT]: ...

    @overload
    def aggregate(
        self,
        aggregate_function: AggregateFunction[T_co, ACC, RESULT],
        window_function: AllWindowFunction[RESULT, object, W_co]
        | ProcessAllWindowFunction[RESULT, object, W_co]
        | Callable[[W_co, list[RESULT]], Iterable[object] | None]
        | None = None,
        accumulator_type: object = None,
        *,
        output_type: TypeInformation[OUT] | type[OUT],
    ) -> DataStream[OUT]: ...

    @overload
    def aggregate(
        self,
        aggregate_function: AggregateFunction[T_co, ACC, RESULT],
        window_function: AllWindowFunction[RESULT, object, W_co]
        | ProcessAllWindowFunction[RESULT, object, W_co]
        | Callable[[W_co, list[RESULT]], Iterable[object] | None]
        | None = None,
        accumulator_type: object = None,
        *,
        output_type: AnyType,
    ) -> DataStream[object]: ...

    @overload
    def aggregate(
        self,
        aggregate_function: AggregateFunction[T_co, ACC, RESULT],
        window_function: AllWindowFunction[RESULT, object, W_co]
        | ProcessAllWindowFunction[RESULT, object, W_co]
        | Callable[[W_co, list[RESULT]], Iterable[object] | None]
        | None = None,
        accumulator_type: object = None,
        *,
        output_type: object,
    ) -> DataStream[Any]: ...

    def aggregate(
        self,
        aggregate_function: Any,
        window_function: Any = None,
        accumulator_type: Any = None,
        output_type: Any = None,
        *aggregates: ColumnAggregate,
    ) -> DataStream[Any]:
        """Adds the records of each window to an accumulator as they arrive, and emits its result.

        `aggregate_function` is an AggregateFunction, and `accumulator_type` the type of its accumulator. A
        `window_function` is called with the one result, and its results are emitted instead: an AllWindowFunction, a
        ProcessAllWindowFunction or a callable `(window, values)`. `output_type` is the type of one result.

        With any number of `millstream.datastream.aggregates`, aggregates columns instead: the results are rows with the
        columns of the key, one column for each aggregate, `window_start` and `window_end`. Raises `InvalidProgramError`
        for any other function, and for columns that the declared type does not have.

            windows.aggregate(count(), sum("amount").alias("total"))
        """
        return self._aggregate(aggregate_function, window_function, accumulator_type, output_type, aggregates)

    @overload
    def apply(
        self,
        window_function: AllWindowFunction[T_co, OUT, W_co]
        | Callable[[W_co, list[T_co]], Iterable[OUT | tuple[OutputTag[Any], Any]] | None],
    ) -> DataStream[OUT]: ...

    @overload
    def apply(
        self,
        window_function: AllWindowFunction[T_co, object, W_co]
        | Callable[[W_co, list[T_co]], Iterable[object] | None],
        output_type: TypeInformation[OUT] | type[OUT],
    ) -> DataStream[OUT]: ...

    @overload
    def apply(
        self,
        window_function: AllWindowFunction[T_co, object, W_co]
        | Callable[[W_co, list[T_co]], Iterable[object] | None],
        output_type: AnyType,
    ) -> DataStream[object]: ...

    @overload
    def apply(
        self,
        window_function: AllWindowFunction[T_co, object, W_co]
        | Callable[[W_co, list[T_co]], Iterable[object] | None],
        output_type: object,
    ) -> DataStream[Any]: ...

    def apply(self, window_function: Any, output_type: Any = None) -> DataStream[Any]:
        """Keeps all records of each window and calls a function with them; returns the stream of its results.

        `window_function` is an AllWindowFunction, or a callable `(window, records)`, and `output_type` the type of one
        result. Raises `InvalidProgramError` for another function class, and for an async function.

            windows.apply(lambda window, records: [(window.start, len(records))])
        """
        return self._apply("Apply", window_function, output_type)

    @overload
    def process(
        self,
        process_window_function: ProcessAllWindowFunction[T_co, OUT, W_co]
        | Callable[[W_co, list[T_co]], Iterable[OUT | tuple[OutputTag[Any], Any]] | None],
    ) -> DataStream[OUT]: ...

    @overload
    def process(
        self,
        process_window_function: ProcessAllWindowFunction[T_co, object, W_co]
        | Callable[[W_co, list[T_co]], Iterable[object] | None],
        output_type: TypeInformation[OUT] | type[OUT],
    ) -> DataStream[OUT]: ...

    @overload
    def process(
        self,
        process_window_function: ProcessAllWindowFunction[T_co, object, W_co]
        | Callable[[W_co, list[T_co]], Iterable[object] | None],
        output_type: AnyType,
    ) -> DataStream[object]: ...

    @overload
    def process(
        self,
        process_window_function: ProcessAllWindowFunction[T_co, object, W_co]
        | Callable[[W_co, list[T_co]], Iterable[object] | None],
        output_type: object,
    ) -> DataStream[Any]: ...

    def process(self, process_window_function: Any, output_type: Any = None) -> DataStream[Any]:
        """Keeps all records of each window and calls a function with them and a context with state.

        `process_window_function` is a ProcessAllWindowFunction, or a callable `(window, records)`, and `output_type`
        the type of one result. Raises `InvalidProgramError` for another function class, and for an async function.

            windows.process(lambda window, records: [(window.end, len(list(records)))])
        """
        return self._apply("Process", process_window_function, output_type)

    def _adapted(self, function: Callable[..., Any]) -> Any:
        return CallableAllWindowFunction(function)

    def _key_columns(self) -> tuple[str, ...]:
        return ()

    def _windowed(self, name: str, spec: OperatorSpec, kind: TypeInformation) -> DataStream[Any]:
        return super()._windowed(name, spec, kind).force_non_parallel()
