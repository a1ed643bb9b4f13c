"""What windows with and without keys have in common."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.plan.column_windows import ColumnWindowSpec
from millstream.core.jobs.plan.plan import OperatorSpec
from millstream.core.jobs.plan.window_plan import Aggregated, Buffered, Contents, Reduced, WindowSpec
from millstream.core.records.type_variables import K_co, T_co
from millstream.core.records.types import PICKLED, TypeInformation
from millstream.datastream.adapters.aggregations import Max, MaxBy, Min, MinBy, Sum, aggregated_field, summed_field
from millstream.datastream.adapters.column_windows import (
    check_windows,
    key_columns_of,
    key_type_of,
    planned,
    result_type,
)
from millstream.datastream.adapters.signatures import (
    checked_callable,
    declared_type,
    element_type,
    refuse_async,
    refuse_generator,
)
from millstream.datastream.aggregates import ColumnAggregate
from millstream.datastream.data_stream.window_settings import WindowSettings
from millstream.datastream.functions import (
    AggregateFunction,
    Function,
    OutputTag,
)
from millstream.datastream.window import WindowAssigner

if TYPE_CHECKING:
    from millstream.datastream.data_stream.data_stream import DataStream
    from millstream.datastream.data_stream.keyed_stream import KeyedStream
    from millstream.datastream.stream_execution_environment import StreamExecutionEnvironment


OUT = TypeVar("OUT")
ACC = TypeVar("ACC")
RESULT = TypeVar("RESULT")
TUPLE = TypeVar("TUPLE", bound=tuple[Any, ...])


class Windowed(WindowSettings[T_co], Generic[K_co, T_co]):
    """What windows with and without keys have in common. Its settings are made before one of its operations."""

    _functions: tuple[type, ...]
    """The function classes that may be called with the contents of a window."""

    def __init__(self, keyed_stream: KeyedStream[K_co, T_co], window_assigner: WindowAssigner[Any, Any]) -> None:
        super().__init__(window_assigner, keyed_stream.get_execution_environment())
        self._stream = keyed_stream
        self._late_tag: OutputTag[Any] | None = None

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Returns the environment that the stream belongs to."""
        return self._stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation[T_co]:
        """Returns the type of the records."""
        return self._stream.get_type()

    def side_output_late_data(self, output_tag: OutputTag[Any]) -> Self:
        """Sends records that are too late for their windows to a side output; without one they are dropped and counted.

        The operation that follows returns the stream that has it: `result.get_side_output(output_tag)`. Raises
        `InvalidProgramError` unless the argument is an OutputTag.

            sums = windows.side_output_late_data(LATE).sum("fare")
            sums.get_side_output(LATE).print()
        """
        if not isinstance(output_tag, OutputTag):
            raise InvalidProgramError(f"side_output_late_data: expected an OutputTag, got {output_tag!r}")
        self._late_tag = output_tag
        return self

    def sum(self, position_to_sum: int | str = 0) -> DataStream[T_co]:
        """Adds up a field of the records of each window.

        `position_to_sum` is the position or name of the field; 0 of plain numbers is the number itself. Emits the first
        record of the window with the sum in the field. Raises `InvalidProgramError` for a field that the declared type
        does not have, or whose values cannot be added.

            windows.sum("fare")
        """
        return self._reduce(Sum(summed_field("sum", position_to_sum, self._stream.get_type())).reduce)

    def min(self, position_to_min: int | str = 0) -> DataStream[T_co]:
        """Emits the first record of each window with the smallest value of a field.

        `position_to_min` is the position or name of the field. Raises `InvalidProgramError` for a field that the
        declared type does not have.

            windows.min("fare")
        """
        return self._reduce(Min(aggregated_field("min", position_to_min, self._stream.get_type())).reduce)

    def max(self, position_to_max: int | str = 0) -> DataStream[T_co]:
        """Emits the first record of each window with the largest value of a field.

        `position_to_max` is the position or name of the field. Raises `InvalidProgramError` for a field that the
        declared type does not have.

            windows.max("fare")
        """
        return self._reduce(Max(aggregated_field("max", position_to_max, self._stream.get_type())).reduce)

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream[T_co]:
        """Emits the record of each window that has the smallest value of a field; the first of several.

        `position_to_min_by` is the position or name of the field. Raises `InvalidProgramError` for a field that the
        declared type does not have.

            windows.min_by("fare")
        """
        return self._reduce(MinBy(aggregated_field("min_by", position_to_min_by, self._stream.get_type())).reduce)

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream[T_co]:
        """Emits the record of each window that has the largest value of a field; the first of several.

        `position_to_max_by` is the position or name of the field. Raises `InvalidProgramError` for a field that the
        declared type does not have.

            windows.max_by("fare")
        """
        return self._reduce(MaxBy(aggregated_field("max_by", position_to_max_by, self._stream.get_type())).reduce)

    def _reduce(self, reduce_function: Any, window_function: Any = None, output_type: Any = None) -> DataStream[Any]:
        target = checked_callable("reduce", reduce_function, "reduce", 2)
        refuse_generator("reduce", target, "a reduce returns one value")
        record_type = self._stream.get_type()
        contents: Contents = Reduced(reduce_function, record_type)
        if self._evictor is not None:  # then all records are kept, and combined when the window fires
            contents = Buffered(record_type, lambda elements: functools.reduce(target, elements))
        return self._add("Reduce", contents, window_function, output_type, record_type)

    def _aggregate(
        self,
        aggregate_function: AggregateFunction[Any, Any, Any] | ColumnAggregate,
        window_function: Any,
        accumulator_type: Any,
        output_type: Any,
        aggregates: tuple[ColumnAggregate, ...],
    ) -> DataStream[Any]:
        if isinstance(aggregate_function, ColumnAggregate):
            further = [given for given in (window_function, accumulator_type, output_type) if given is not None]
            return self._aggregate_columns((aggregate_function, *further, *aggregates))
        if not isinstance(aggregate_function, AggregateFunction):
            raise InvalidProgramError(f"aggregate: expected an AggregateFunction, got {aggregate_function!r}")
        kept = PICKLED if accumulator_type is None else declared_type(accumulator_type)
        contents: Contents = Aggregated(aggregate_function, kept)
        if self._evictor is not None:
            contents = Buffered(self._stream.get_type(), functools.partial(_aggregated, aggregate_function))
        return self._add("Aggregate", contents, window_function, output_type, PICKLED)

    def _apply(self, name: str, function: Any, output_type: Any) -> DataStream[Any]:
        return self._add(name, Buffered(self._stream.get_type()), function, output_type, PICKLED)

    def _add(
        self, name: str, contents: Contents, window_function: Any, output_type: Any, result_type: TypeInformation
    ) -> DataStream[Any]:
        function = None if window_function is None else self._checked(name.lower(), window_function)
        kind = self._result_type(window_function, output_type, result_type)
        return self._then(name, contents, function, kind)

    def _result_type(self, function: Any, output_type: Any, result_type: TypeInformation) -> TypeInformation:
        if output_type is not None:
            return declared_type(output_type)
        if function is None:
            return result_type
        call = getattr(function, "process", None) or getattr(function, "apply", None) or function
        return element_type(call, None)

    def _checked(self, name: str, function: Any) -> Any:
        if isinstance(function, self._functions):
            called: Any = function
            refuse_async(name, getattr(function, "process", None) or called.apply)
            return function
        if isinstance(function, Function) or not callable(function):
            wanted = " or ".join(kind.__name__ for kind in self._functions)
            raise InvalidProgramError(f"{name}: expected a {wanted} or a callable, got {function!r}")
        refuse_async(name, function)
        return self._adapted(function)

    def _adapted(self, function: Callable[..., Any]) -> Any:
        raise NotImplementedError

    def _aggregate_columns(self, aggregates: tuple[Any, ...]) -> DataStream[Any]:
        check_windows(self._assigner, self._trigger, self._evictor)
        record_type = self._stream.get_type()
        named = planned(aggregates, record_type)
        keys = self._key_columns()
        kind = result_type(keys, named, record_type)
        spec = ColumnWindowSpec(
            self._assigner,
            named,
            self._stream.key_selector,
            key_type_of(keys, record_type),
            keys,
            self._lateness,
            None if self._late_tag is None else self._late_tag.tag_id,
        )
        return self._windowed("Aggregate Columns", spec, kind)

    def _key_columns(self) -> tuple[str, ...]:
        return key_columns_of(self._stream.key_selector, self._stream.get_type())

    def _then(self, name: str, contents: Contents, function: Any, kind: TypeInformation) -> DataStream[Any]:
        spec = WindowSpec(
            self._assigner,
            self._trigger,
            contents,
            function,
            self._stream.key_selector,
            self._stream.get_key_type(),
            self._evictor,
            self._lateness,
            None if self._late_tag is None else self._late_tag.tag_id,
        )
        return self._windowed(name, spec, kind)

    def _windowed(self, name: str, spec: OperatorSpec, kind: TypeInformation) -> DataStream[Any]:
        return self._stream.windowed(f"{type(self._assigner).__name__}, {name}", spec, kind)


def _aggregated(function: AggregateFunction[Any, Any, Any], elements: list[Any]) -> Any:
    accumulator = function.create_accumulator()
    for element in elements:
        accumulator = function.add(element, accumulator)
    return function.get_result(accumulator)
