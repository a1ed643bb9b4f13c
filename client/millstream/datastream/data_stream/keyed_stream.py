"""`KeyedStream`: a stream grouped by key, and the operations that keep something for each key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, overload

from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.plan.function_ends_plan import SinkFunctionSpec
from millstream.core.jobs.plan.plan import (
    FilterSpec,
    HashPartitioner,
    KeyedProcessSpec,
    KeySelector,
    OperatorSpec,
    Partitioner,
    ReduceSpec,
)
from millstream.core.records.type_variables import K_co, T_co
from millstream.core.records.types import AnyType, TypeInformation
from millstream.core.row import Row
from millstream.datastream.adapters.aggregations import Max, MaxBy, Min, MinBy, Sum, aggregated_field, summed_field
from millstream.datastream.adapters.keyed_adapters import with_keys
from millstream.datastream.adapters.keyed_records import WithKey, type_with_key
from millstream.datastream.adapters.process_functions import CallableKeyedProcessFunction
from millstream.datastream.adapters.signatures import checked_callable, element_type, refuse_generator
from millstream.datastream.data_stream.data_stream import DataStream
from millstream.datastream.functions import (
    KeyedContext,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    ReduceFunction,
    SinkFunction,
)
from millstream.datastream.functions import KeySelector as KeySelectorFunction
from millstream.datastream.functions.record_functions import SupportsReduce
from millstream.datastream.graph.transformations import OperatorTransformation, PartitionTransformation

if TYPE_CHECKING:
    from millstream.datastream.data_stream.interval_join import IntervalJoin
    from millstream.datastream.data_stream.windowed_stream import WindowedStream
    from millstream.datastream.execution.collecting import CloseableIterator
    from millstream.datastream.window import WindowAssigner


OUT = TypeVar("OUT")
KEY = TypeVar("KEY")
OTHER = TypeVar("OTHER")
TUPLE = TypeVar("TUPLE", bound=tuple[Any, ...])
W = TypeVar("W")


class KeyedStream(DataStream[T_co], Generic[K_co, T_co]):
    """A stream grouped by key: `KeyedStream[str, Event]` has keys of text and records of `Event`.

    `DataStream.key_by` returns it. The records of one key are processed by one subtask, in order, with the state of
    that key. The type of the keys comes first, as in a dict and in `MapState[K, V]`.
    """

    def __init__(self, stream: DataStream[T_co], key_selector: KeySelector, key_type: TypeInformation[K_co]) -> None:
        transformation = PartitionTransformation(stream.transformation, HashPartitioner(key_selector))
        super().__init__(stream.get_execution_environment(), transformation, stream.get_type())
        self._origin = stream
        self._key_selector = key_selector
        self._key_type = key_type

    def get_key_type(self) -> TypeInformation[K_co]:
        """Returns the type of the keys."""
        return self._key_type

    @property
    def key_selector(self) -> KeySelector:
        """How the key is taken from a record."""
        return self._key_selector

    @property
    def origin(self) -> DataStream[T_co]:
        """The stream before it was keyed."""
        return self._origin

    @overload
    def key_by(
        self, key_selector: Callable[[T_co], KEY] | KeySelectorFunction[T_co, KEY], key_type: None = None
    ) -> KeyedStream[KEY, T_co]: ...

    @overload
    def key_by(
        self, key_selector: str | int | Sequence[str | int], key_type: None = None
    ) -> KeyedStream[Any, T_co]: ...

    @overload
    def key_by(
        self,
        key_selector: Callable[[T_co], object] | KeySelectorFunction[T_co, object] | str | int | Sequence[str | int],
        key_type: TypeInformation[KEY] | type[KEY],
    ) -> KeyedStream[KEY, T_co]: ...

    @overload
    def key_by(
        self,
        key_selector: Callable[[T_co], object] | KeySelectorFunction[T_co, object] | str | int | Sequence[str | int],
        key_type: AnyType,
    ) -> KeyedStream[object, T_co]: ...

    @overload
    def key_by(
        self,
        key_selector: Callable[[T_co], object] | KeySelectorFunction[T_co, object] | str | int | Sequence[str | int],
        key_type: object,
    ) -> KeyedStream[Any, T_co]: ...

    def key_by(self, key_selector: Any, key_type: Any = None) -> KeyedStream[Any, T_co]:
        """Returns the stream grouped by another key instead.

        `key_selector` and `key_type` are those of `DataStream.key_by`.

            orders.key_by("user").key_by(lambda order: order.city, key_type=str)
        """
        return self._origin.key_by(key_selector, key_type)

    @overload  # a type checker may know that a number in a tuple is 1, which no result of the function has to be
    def reduce(
        self: KeyedStream[Any, tuple[Any, ...]], func: Callable[[T_co, T_co], TUPLE] | SupportsReduce[T_co, TUPLE]
    ) -> DataStream[TUPLE]: ...

    @overload
    def reduce(self, func: Callable[[T_co, T_co], T_co] | ReduceFunction[T_co]) -> DataStream[T_co]: ...

    def reduce(self, func: Any) -> DataStream[Any]:
        """Combines each record with the combined value of its key, and emits the new combined value every time.

        `func` is a callable `(combined, record)` or a ReduceFunction. The first record of a key is emitted as it is.
        Raises `InvalidProgramError` for a generator function and an async function.

            words.map(lambda word: (word, 1)).key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
        """
        target = checked_callable("reduce", func, "reduce", 2)
        refuse_generator("reduce", target, "a reduce returns one value")
        return self._reduce("Keyed Reduce", func)

    def sum(self, position_to_sum: int | str = 0) -> DataStream[T_co]:
        """Adds up a field of the records of each key.

        `position_to_sum` is the position or name of the field; 0 of plain numbers is the number itself. Emits the first
        record of the key with the new sum in the field, for each record. Raises `InvalidProgramError` for a field that
        the declared type does not have, or whose values cannot be added.

            orders.key_by("customer").sum("amount")
        """
        return self._reduce("Keyed Aggregation", Sum(summed_field("sum", position_to_sum, self._type)))

    def min(self, position_to_min: int | str = 0) -> DataStream[T_co]:
        """Emits, for each record, the first record of the key with the smallest value of a field so far.

        `position_to_min` is the position or name of the field. Raises `InvalidProgramError` for a field that the
        declared type does not have.

            rides.key_by("city").min("fare")
        """
        return self._reduce("Keyed Aggregation", Min(aggregated_field("min", position_to_min, self._type)))

    def max(self, position_to_max: int | str = 0) -> DataStream[T_co]:
        """Emits, for each record, the first record of the key with the largest value of a field so far.

        `position_to_max` is the position or name of the field. Raises `InvalidProgramError` for a field that the
        declared type does not have.

            rides.key_by("city").max("fare")
        """
        return self._reduce("Keyed Aggregation", Max(aggregated_field("max", position_to_max, self._type)))

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream[T_co]:
        """Emits, for each record, the record of the key with the smallest value of a field; the first of several.

        `position_to_min_by` is the position or name of the field. Raises `InvalidProgramError` for a field that the
        declared type does not have.

            rides.key_by("city").min_by("fare")
        """
        return self._reduce("Keyed Aggregation", MinBy(aggregated_field("min_by", position_to_min_by, self._type)))

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream[T_co]:
        """Emits, for each record, the record of the key with the largest value of a field; the first of several.

        `position_to_max_by` is the position or name of the field. Raises `InvalidProgramError` for a field that the
        declared type does not have.

            rides.key_by("city").max_by("fare")
        """
        return self._reduce("Keyed Aggregation", MaxBy(aggregated_field("max_by", position_to_max_by, self._type)))

    @overload
    def process(
        self,
        func: KeyedProcessFunction[K_co, T_co, OUT]
        | ProcessFunction[T_co, OUT]
        | Callable[[T_co, KeyedContext[K_co]], Iterable[OUT | tuple[OutputTag[Any], Any]] | None],
    ) -> DataStream[OUT]: ...

    @overload
    def process(
        self,
        func: KeyedProcessFunction[K_co, T_co, object]
        | ProcessFunction[T_co, object]
        | Callable[[T_co, KeyedContext[K_co]], Iterable[object] | None],
        output_type: TypeInformation[OUT] | type[OUT],
    ) -> DataStream[OUT]: ...

    @overload
    def process(
        self,
        func: KeyedProcessFunction[K_co, T_co, object]
        | ProcessFunction[T_co, object]
        | Callable[[T_co, KeyedContext[K_co]], Iterable[object] | None],
        output_type: AnyType,
    ) -> DataStream[object]: ...

    @overload
    def process(
        self,
        func: KeyedProcessFunction[K_co, T_co, object]
        | ProcessFunction[T_co, object]
        | Callable[[T_co, KeyedContext[K_co]], Iterable[object] | None],
        output_type: object,
    ) -> DataStream[Any]: ...

    def process(self, func: Any, output_type: Any = None) -> DataStream[Any]:
        """Returns the stream of the results of the general function, with keyed state, timers and side outputs.

        `func` is a KeyedProcessFunction, or a callable `(value, ctx)` whose context has the current key; `output_type`
        is the type of one result. Raises `InvalidProgramError` for an async function.

            users.key_by(lambda user: user, key_type=str).process(Visits(), output_type=int)
        """
        if isinstance(func, ProcessFunction):
            return super().process(func, output_type)
        target = checked_callable("process", func, "process_element", 2)
        function = func if isinstance(func, KeyedProcessFunction) else CallableKeyedProcessFunction(func)
        spec = KeyedProcessSpec(function, self._key_selector, self._key_type)
        return self._then("KeyedProcess", spec, element_type(target, output_type))

    def window(self, window_assigner: WindowAssigner[T_co, W]) -> WindowedStream[K_co, T_co, W]:
        """Groups the records of each key into the windows of `window_assigner`.

        Raises `InvalidProgramError` unless the argument is a WindowAssigner.

            windows = orders.key_by(lambda order: order.customer).window(TumblingEventTimeWindows.of(Time.minutes(5)))
            windows.reduce(lambda a, b: a if a.price > b.price else b)
        """
        from millstream.datastream.data_stream.windowed_stream import WindowedStream

        return WindowedStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream[K_co, T_co, Any]:
        """Groups the records of each key into windows of `size` records; with a slide, one every `slide` records.

        For example:

            visits.key_by("user").count_window(10).sum("seconds")
        """
        from millstream.datastream.window import CountSlidingWindowAssigner, CountTumblingWindowAssigner

        tumbling = CountTumblingWindowAssigner.of(size) if slide == 0 else CountSlidingWindowAssigner.of(size, slide)
        return self.window(tumbling)

    def interval_join(self, other_stream: KeyedStream[Any, OTHER]) -> IntervalJoin[T_co, OTHER]:
        """Joins this stream with another keyed stream, `other_stream`, by event time.

        Each pair of records with the same key and timestamps within the bounds is joined. Raises `InvalidProgramError`
        for a stream without keys or of another environment.

            orders.interval_join(payments).between(Time.minutes(0), Time.minutes(10)).process(Match())
        """
        from millstream.datastream.data_stream.interval_join import IntervalJoin

        other = self._joined("interval_join", other_stream)
        if not isinstance(other, KeyedStream):
            raise InvalidProgramError("interval_join: the other stream has no keys; call key_by on it")
        return IntervalJoin(self, other)

    @overload  # type: ignore[override]  # as in PyFlink, the results have the key
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: None = None
    ) -> CloseableIterator[Row]: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, *, limit: int) -> list[Row]: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None, limit: int) -> list[Row]: ...

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator[Row] | list[Row]:
        """Runs the job and returns rows of two fields, as in PyFlink: the key of each record, and the record.

        `job_execution_name` and `limit` are those of `DataStream.execute_and_collect`.

            with orders.key_by("user").execute_and_collect() as results:
                print(list(results))
        """
        keyed = self._origin.map(WithKey(self._key_selector), type_with_key(self._key_type, self._type))
        origin = self._origin.transformation
        if isinstance(origin, OperatorTransformation) and origin.parallelism is not None:
            keyed.set_parallelism(origin.parallelism)
        if limit is None:
            return keyed.execute_and_collect(job_execution_name)
        return keyed.execute_and_collect(job_execution_name, limit)

    def windowed(self, name: str, spec: OperatorSpec, record_type: TypeInformation[OUT]) -> DataStream[OUT]:
        """Adds an operator over windows with this `name`, `spec` and `record_type`; called by windowed streams."""
        return super()._then(name, spec, record_type)

    def _sink_function_spec(self, function: SinkFunction[Any]) -> SinkFunctionSpec:
        return SinkFunctionSpec(function, self._key_selector, self._key_type)

    def _reduce(self, name: str, function: Any) -> DataStream[T_co]:
        spec = ReduceSpec(function, self._key_selector, self._key_type, self._type)
        return self._then(name, spec, self._type)

    def to_be_united(self) -> DataStream[T_co]:
        """Returns the output of an operator of PyFlink's name: the stream after a union has no keys."""
        return super()._then("_keyed_stream_values_operator", FilterSpec(_any), self._type)

    def _then(self, name: str, spec: OperatorSpec, record_type: TypeInformation[OUT]) -> DataStream[OUT]:
        return super()._then(name, with_keys(spec, self._key_selector, self._key_type), record_type)

    def _partitioned(self, partitioner: Partitioner) -> NoReturn:
        raise InvalidProgramError("a keyed stream is partitioned by its key; its partitioning cannot be overridden")


def _any(record: Any) -> bool:
    return True
