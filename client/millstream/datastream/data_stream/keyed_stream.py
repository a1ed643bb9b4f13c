"""`KeyedStream`: a stream grouped by key, and the operations that keep something for each key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

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
from millstream.core.records.types import TypeInformation
from millstream.datastream.adapters.aggregations import Max, MaxBy, Min, MinBy, Sum, aggregated_field, summed_field
from millstream.datastream.adapters.keyed_adapters import with_keys
from millstream.datastream.adapters.keyed_records import WithKey, type_with_key
from millstream.datastream.adapters.process_functions import CallableKeyedProcessFunction
from millstream.datastream.adapters.signatures import checked_callable, element_type, refuse_generator
from millstream.datastream.data_stream.data_stream import DataStream
from millstream.datastream.functions import KeyedProcessFunction, ProcessFunction, SinkFunction
from millstream.datastream.graph.transformations import OperatorTransformation, PartitionTransformation

if TYPE_CHECKING:
    from millstream.datastream.data_stream.interval_join import IntervalJoin
    from millstream.datastream.data_stream.windowed_stream import WindowedStream
    from millstream.datastream.execution.collecting import CloseableIterator
    from millstream.datastream.window import WindowAssigner


class KeyedStream(DataStream):
    """Records of one key go to one subtask, in order."""

    def __init__(self, stream: DataStream, key_selector: KeySelector, key_type: TypeInformation) -> None:
        transformation = PartitionTransformation(stream.transformation, HashPartitioner(key_selector))
        super().__init__(stream.get_execution_environment(), transformation, stream.get_type())
        self._origin = stream
        self._key_selector = key_selector
        self._key_type = key_type

    def get_key_type(self) -> TypeInformation:
        """The type of the keys."""
        return self._key_type

    @property
    def key_selector(self) -> KeySelector:
        """How the key is taken from a record."""
        return self._key_selector

    @property
    def origin(self) -> DataStream:
        """The stream before it was keyed."""
        return self._origin

    def key_by(self, key_selector: Any, key_type: Any = None) -> KeyedStream:
        """Groups the stream by another key instead."""
        return self._origin.key_by(key_selector, key_type)

    def reduce(self, func: Any) -> DataStream:
        """Combines each record with the key's value so far, and emits the new value every time."""
        target = checked_callable("reduce", func, "reduce", 2)
        refuse_generator("reduce", target, "a reduce answers one value")
        return self._reduce("Keyed Reduce", func)

    def sum(self, position_to_sum: int | str = 0) -> DataStream:
        """Adds up a field, by position or name; 0 of plain numbers is the number itself."""
        return self._reduce("Keyed Aggregation", Sum(summed_field("sum", position_to_sum, self._type)))

    def min(self, position_to_min: int | str = 0) -> DataStream:
        """The smallest value of a field, in the key's first record."""
        return self._reduce("Keyed Aggregation", Min(aggregated_field("min", position_to_min, self._type)))

    def max(self, position_to_max: int | str = 0) -> DataStream:
        """The largest value of a field, in the key's first record."""
        return self._reduce("Keyed Aggregation", Max(aggregated_field("max", position_to_max, self._type)))

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream:
        """The record with the smallest value of a field; the first of several."""
        return self._reduce("Keyed Aggregation", MinBy(aggregated_field("min_by", position_to_min_by, self._type)))

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream:
        """The record with the largest value of a field; the first of several."""
        return self._reduce("Keyed Aggregation", MaxBy(aggregated_field("max_by", position_to_max_by, self._type)))

    def process(self, func: Any, output_type: Any = None) -> DataStream:
        """The general operator: a KeyedProcessFunction, or a callable `(value, ctx)`, that knows the current key."""
        if isinstance(func, ProcessFunction):
            return super().process(func, output_type)
        target = checked_callable("process", func, "process_element", 2)
        function = func if isinstance(func, KeyedProcessFunction) else CallableKeyedProcessFunction(func)
        spec = KeyedProcessSpec(function, self._key_selector, self._key_type)
        return self._then("KeyedProcess", spec, element_type(target, output_type))

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> WindowedStream:
        """Groups the records of each key into windows."""
        from millstream.datastream.data_stream.windowed_stream import WindowedStream

        return WindowedStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream:
        """Windows of so many records of each key; with a slide, one for each so many records."""
        from millstream.datastream.window import CountSlidingWindowAssigner, CountTumblingWindowAssigner

        tumbling = CountTumblingWindowAssigner.of(size) if slide == 0 else CountSlidingWindowAssigner.of(size, slide)
        return self.window(tumbling)

    def interval_join(self, other_stream: KeyedStream) -> IntervalJoin:
        """Joins this stream with another keyed one by event time: `.between(lower, upper).process(function)`."""
        from millstream.datastream.data_stream.interval_join import IntervalJoin

        other = self._joined("interval_join", other_stream)
        if not isinstance(other, KeyedStream):
            raise InvalidProgramError("interval_join: the other stream has no keys; call key_by on it")
        return IntervalJoin(self, other)

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator | list[Any]:
        """Runs the job and answers rows of two fields: each record's key, and the record."""
        keyed = self._origin.map(WithKey(self._key_selector), type_with_key(self._key_type, self._type))
        origin = self._origin.transformation
        if isinstance(origin, OperatorTransformation) and origin.parallelism is not None:
            keyed.set_parallelism(origin.parallelism)
        return keyed.execute_and_collect(job_execution_name, limit)

    def windowed(self, name: str, spec: OperatorSpec, record_type: TypeInformation) -> DataStream:
        """Adds an operator over windows; called by windowed streams."""
        return super()._then(name, spec, record_type)

    def _sink_function_spec(self, function: SinkFunction[Any]) -> SinkFunctionSpec:
        return SinkFunctionSpec(function, self._key_selector, self._key_type)

    def _reduce(self, name: str, function: Any) -> DataStream:
        spec = ReduceSpec(function, self._key_selector, self._key_type, self._type)
        return self._then(name, spec, self._type)

    def to_be_united(self) -> DataStream:
        """An operator of its own, as in PyFlink, by whose name too: what follows a union has no keys to go by."""
        return super()._then("_keyed_stream_values_operator", FilterSpec(_any), self._type)

    def _then(self, name: str, spec: OperatorSpec, record_type: TypeInformation) -> DataStream:
        return super()._then(name, with_keys(spec, self._key_selector, self._key_type), record_type)

    def _partitioned(self, partitioner: Partitioner) -> NoReturn:
        raise InvalidProgramError("a keyed stream is partitioned by its key; its partitioning cannot be overridden")


def _any(record: Any) -> bool:
    return True
