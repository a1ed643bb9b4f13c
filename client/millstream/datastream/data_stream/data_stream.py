"""`DataStream`: the operations on a stream, with PyFlink's names.

Every operation adds an operator or a virtual node to the program and answers the stream that it makes; nothing runs
before the environment executes the job. Types are kept, declared (`output_type`) or taken from annotations; without
any of these, records are pickled.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any, Self, overload

from millstream.common.watermark_strategy import WatermarkStrategy
from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.plan.function_ends_plan import SinkFunctionSpec
from millstream.core.jobs.plan.plan import (
    BroadcastPartitioner,
    CollectSpec,
    CustomPartitioner,
    FilterSpec,
    FlatMapSpec,
    ForwardPartitioner,
    GlobalPartitioner,
    MapBatchesSpec,
    MapSpec,
    OperatorSpec,
    Partitioner,
    ProcessSpec,
    RebalancePartitioner,
    RescalePartitioner,
    ShufflePartitioner,
    SinkSpec,
    SourceSpec,
    TimestampsSpec,
)
from millstream.core.records.types import PICKLED, TypeInformation
from millstream.datastream.adapters.fields import checked_field
from millstream.datastream.adapters.function_ends import sink_function_of
from millstream.datastream.adapters.key_selectors import key_selector_of
from millstream.datastream.adapters.process_functions import CallableProcessFunction
from millstream.datastream.adapters.projection import Projection, projected_type
from millstream.datastream.adapters.signatures import (
    batch_format_of,
    checked_callable,
    element_type,
    refuse_generator,
    result_type,
)
from millstream.datastream.adapters.united_types import may_be_united
from millstream.datastream.connectors.base import Sink, SupportsPreprocessing
from millstream.datastream.data_stream.data_stream_sink import DataStreamSink
from millstream.datastream.data_stream.operator_settings import OperatorSettings, checked_buffer_timeout
from millstream.datastream.functions import KeyedProcessFunction, OutputTag, ProcessFunction, SinkFunction
from millstream.datastream.graph.transformations import (
    ChainingStrategy,
    OperatorTransformation,
    PartitionTransformation,
    SideOutputTransformation,
    Transformation,
    UnionTransformation,
)

if TYPE_CHECKING:
    from millstream.common.execution_config import ExecutionConfig
    from millstream.datastream.data_stream.broadcast_stream import BroadcastConnectedStream, BroadcastStream
    from millstream.datastream.data_stream.cached_data_stream import CachedDataStream
    from millstream.datastream.data_stream.connected_streams import ConnectedStreams
    from millstream.datastream.data_stream.joined_streams import CoGroupedStreams, JoinedStreams
    from millstream.datastream.data_stream.keyed_stream import KeyedStream
    from millstream.datastream.data_stream.windowed_stream import AllWindowedStream
    from millstream.datastream.execution.collecting import CloseableIterator
    from millstream.datastream.state import MapStateDescriptor
    from millstream.datastream.stream_execution_environment import StreamExecutionEnvironment
    from millstream.datastream.window import WindowAssigner


class DataStream(OperatorSettings):
    """A stream of records. Made by an environment's sources and by operations on other streams."""

    def __init__(
        self, environment: StreamExecutionEnvironment, transformation: Transformation, record_type: TypeInformation
    ) -> None:
        super().__init__(transformation)
        self._environment = environment
        self._type = record_type

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """The environment that the stream belongs to."""
        return self._environment

    def get_execution_config(self) -> ExecutionConfig:
        """The settings of the environment."""
        return self._environment.get_config()

    def get_type(self) -> TypeInformation:
        """The type of the records."""
        return self._type

    @property
    def transformation(self) -> Transformation:
        """What the stream is made by."""
        return self._transformation

    def start_new_chain(self) -> Self:
        """Starts a task at this operator: it is not chained to what comes before."""
        self._operator("start_new_chain").chaining = ChainingStrategy.HEAD
        return self

    def set_buffer_timeout(self, timeout_millis: Any) -> Self:
        """How long its records wait for company: milliseconds or a timedelta; 0: not at all; -1: for a full buffer."""
        timeout = checked_buffer_timeout("set_buffer_timeout", timeout_millis)
        self._operator("set_buffer_timeout").buffer_timeout = timeout
        return self

    def force_non_parallel(self) -> Self:
        """Fixes the operator's parallelism, and its number of key groups, at 1."""
        operator = self._operator("force_non_parallel")
        operator.parallelism = operator.max_parallelism = 1
        operator.non_parallel = True
        return self

    def cache(self) -> CachedDataStream:
        """The stream for several jobs of the program: the first that makes it, a batch, keeps it for the others."""
        from millstream.datastream.data_stream.cached_data_stream import CachedDataStream

        origin = self._transformation
        if not isinstance(origin, OperatorTransformation | SideOutputTransformation):
            raise InvalidProgramError(
                "cache: what is kept are the records of an operator or of a side output, and this stream is only a way "
                "of reading others (a key_by, a partitioning or a union); call it on the stream before or after"
            )
        cache = self._environment.caches.add(origin, self._type, self._environment.numbers)
        return CachedDataStream(self._environment, cache, self._type)

    def map(self, func: Any, output_type: Any = None) -> DataStream:
        """One record out for each record in; `func` is a callable or a MapFunction."""
        target = checked_callable("map", func, "map", 1)
        refuse_generator("map", target, "use flat_map for any number of results")
        return self._then("Map", MapSpec(func), result_type(target, output_type))

    def flat_map(self, func: Any, output_type: Any = None) -> DataStream:
        """Any number of records out for each one in; `func` answers an iterable or is a generator."""
        target = checked_callable("flat_map", func, "flat_map", 1)
        return self._then("Flat Map", FlatMapSpec(func), element_type(target, output_type))

    def filter(self, func: Any) -> DataStream:
        """Keeps the records for which `func` answers true."""
        target = checked_callable("filter", func, "filter", 1)
        refuse_generator("filter", target, "a filter answers true or false")
        return self._then("Filter", FilterSpec(func), self._type)

    def process(self, func: Any, output_type: Any = None) -> DataStream:
        """The general operator: a ProcessFunction or a callable `(value, ctx)` that yields results and side outputs."""
        if isinstance(func, KeyedProcessFunction):
            raise InvalidProgramError(
                f"process: {type(func).__qualname__} is a KeyedProcessFunction, which needs a keyed stream; call "
                "key_by first"
            )
        target = checked_callable("process", func, "process_element", 2)
        function = func if isinstance(func, ProcessFunction) else CallableProcessFunction(func)
        return self._then("Process", ProcessSpec(function), element_type(target, output_type))

    def map_batches(self, func: Any, output_type: Any = None, batch_format: str | None = None) -> DataStream:
        """A function from Arrow record batches, or pandas data frames, to the same; None says that nothing follows.

        `batch_format` is `arrow` or `pandas`; without it, the annotation of the function's first parameter decides.
        """
        target = checked_callable("map_batches", func, "map_batches", 1)
        refuse_generator("map_batches", target, "a function over batches answers one batch")
        chosen = batch_format_of(target) if batch_format is None else batch_format
        if chosen not in ("arrow", "pandas"):
            raise InvalidProgramError(f"map_batches: the batch format is 'arrow' or 'pandas', not {batch_format!r}")
        kind = PICKLED if output_type is None else result_type(target, output_type)
        return self._then("Map Batches", MapBatchesSpec(func, chosen), kind)

    def project(self, *field_indexes: int | str) -> DataStream:
        """Keeps these fields, by position or name, in this order: as a row of rows, as a tuple of anything else."""
        if not field_indexes:
            raise InvalidProgramError("project: name at least one field")
        fields = tuple(checked_field("project", field, self._type) for field in field_indexes)
        kind = projected_type(fields, self._type)
        return self._then("Projection", MapSpec(Projection(fields)), kind)

    def key_by(self, key_selector: Any, key_type: Any = None) -> KeyedStream:
        """Groups the stream by a key: a callable, a KeySelector, a field's name or position, or a list of these."""
        from millstream.datastream.data_stream.keyed_stream import KeyedStream

        selector, kind = key_selector_of("key_by", key_selector, self._type, key_type)
        return KeyedStream(self, selector, kind)

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream:
        """From here on, event time is what this strategy makes of the records."""
        if not isinstance(watermark_strategy, WatermarkStrategy):
            raise InvalidProgramError(
                f"assign_timestamps_and_watermarks: expected a WatermarkStrategy, got {watermark_strategy!r}"
            )
        if watermark_strategy.alignment is not None:
            raise InvalidProgramError(
                "assign_timestamps_and_watermarks: only a source can wait for others; hand the strategy with "
                "with_watermark_alignment to from_source"
            )
        field = watermark_strategy.timestamp_field
        if field is not None:
            checked_field("with_timestamp_field", field, self._type)
        return self._then("Timestamps/Watermarks", TimestampsSpec(watermark_strategy), self._type)

    def window_all(self, window_assigner: WindowAssigner[Any, Any]) -> AllWindowedStream:
        """Groups all records into windows, in one subtask."""
        from millstream.datastream.data_stream.windowed_stream import AllWindowedStream

        return AllWindowedStream(self.key_by(_no_key, int), window_assigner)

    def count_window_all(self, size: int, slide: int = 0) -> AllWindowedStream:
        """Windows of so many records; with a slide, one for each so many records."""
        from millstream.datastream.window import CountSlidingWindowAssigner, CountTumblingWindowAssigner

        tumbling = CountTumblingWindowAssigner.of(size) if slide == 0 else CountSlidingWindowAssigner.of(size, slide)
        return self.window_all(tumbling)

    def union(self, *streams: DataStream) -> DataStream:
        """One stream of this one's and the others' records. Keyed streams are partitioned by their keys first.

        Raises InvalidProgramError for streams of different types. One without a declared type goes with any other: then
        the result has none either.
        """
        for stream in streams:
            if not isinstance(stream, DataStream):
                raise InvalidProgramError(f"union: expected streams, got {stream!r}")
            if stream.get_execution_environment() is not self._environment:
                raise InvalidProgramError("union: the streams belong to different environments")
        inputs = tuple(stream.to_be_united().transformation for stream in (self, *streams))
        kinds = [stream.get_type() for stream in (self, *streams)]
        for first, other in combinations(kinds, 2):
            if not may_be_united(first, other):
                raise InvalidProgramError(
                    f"union: the streams have different types, {first!r} and {other!r}: give them one type by a map "
                    "with its output_type, or declare one of them as Types.PICKLED_BYTE_ARRAY(), which is any type"
                )
        kind = self._type if all(kind == self._type for kind in kinds) else PICKLED
        return self._virtual(UnionTransformation(inputs), kind)

    def to_be_united(self) -> DataStream:
        """What of it a union takes; called by unions."""
        return self

    @overload
    def connect(self, ds: DataStream) -> ConnectedStreams: ...

    @overload
    def connect(self, ds: BroadcastStream) -> BroadcastConnectedStream: ...

    def connect(self, ds: DataStream | BroadcastStream) -> ConnectedStreams | BroadcastConnectedStream:
        """Makes this stream and another, of any type, the two inputs of one operator."""
        from millstream.datastream.data_stream.broadcast_stream import BroadcastConnectedStream, BroadcastStream
        from millstream.datastream.data_stream.connected_streams import ConnectedStreams

        if not isinstance(ds, DataStream | BroadcastStream):
            raise InvalidProgramError(f"connect: expected a stream, got {ds!r}")
        other = ds.input_stream if isinstance(ds, BroadcastStream) else ds
        if other.get_execution_environment() is not self._environment:
            raise InvalidProgramError("connect: the streams belong to different environments")
        return BroadcastConnectedStream(self, ds) if isinstance(ds, BroadcastStream) else ConnectedStreams(self, ds)

    def join(self, other_stream: DataStream) -> JoinedStreams:
        """Joins two streams in windows, pair by pair: `.where(key).equal_to(key).window(assigner).apply(f)`."""
        from millstream.datastream.data_stream.joined_streams import JoinedStreams

        return JoinedStreams(self, self._joined("join", other_stream))

    def co_group(self, other_stream: DataStream) -> CoGroupedStreams:
        """The same with all records of a key and window at once, also of those that only one stream has."""
        from millstream.datastream.data_stream.joined_streams import CoGroupedStreams

        return CoGroupedStreams(self, self._joined("co_group", other_stream))

    def _joined(self, method: str, other: DataStream) -> DataStream:
        if not isinstance(other, DataStream):
            raise InvalidProgramError(f"{method}: expected a stream, got {other!r}")
        if other.get_execution_environment() is not self._environment:
            raise InvalidProgramError(f"{method}: the streams belong to different environments")
        return other

    def forward(self) -> DataStream:
        """Subtask i to subtask i; both sides need the same parallelism."""
        return self._partitioned(ForwardPartitioner())

    def rebalance(self) -> DataStream:
        """Round robin over all subtasks of the next operator."""
        return self._partitioned(RebalancePartitioner())

    def rescale(self) -> DataStream:
        """Round robin over each subtask's own share of the next operator's subtasks."""
        return self._partitioned(RescalePartitioner())

    def shuffle(self) -> DataStream:
        """A random subtask of the next operator."""
        return self._partitioned(ShufflePartitioner())

    @overload
    def broadcast(self) -> DataStream: ...

    @overload
    def broadcast(self, state_descriptor: MapStateDescriptor, /, *more: MapStateDescriptor) -> BroadcastStream: ...

    def broadcast(self, *broadcast_state_descriptors: MapStateDescriptor) -> DataStream | BroadcastStream:
        """Every subtask of the next operator; with the descriptors of states that it fills, a stream to connect to."""
        everywhere = self._partitioned(BroadcastPartitioner())
        if not broadcast_state_descriptors:
            return everywhere
        from millstream.datastream.data_stream.broadcast_stream import BroadcastStream

        return BroadcastStream(everywhere, broadcast_state_descriptors)

    def global_(self) -> DataStream:
        """The first subtask of the next operator."""
        return self._partitioned(GlobalPartitioner())

    def partition_custom(self, partitioner: Any, key_selector: Any) -> DataStream:
        """The subtask that `partitioner(key, number of subtasks)` names; a callable or a Partitioner."""
        checked_callable("partition_custom", partitioner, "partition", 2)
        selector, _ = key_selector_of("partition_custom", key_selector, self._type)
        return self._partitioned(CustomPartitioner(partitioner, selector))

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """What this process function, or source, sends to a side output."""
        if not isinstance(output_tag, OutputTag):
            raise InvalidProgramError(f"get_side_output: expected an OutputTag, got {output_tag!r}")
        operator = self._operator("get_side_output")
        if isinstance(operator.spec, SourceSpec):
            if output_tag.tag_id not in {tag.tag_id for tag in operator.spec.source.side_outputs()}:
                raise InvalidProgramError(
                    f"get_side_output: '{operator.full_name}' sends nothing to the side output '{output_tag.tag_id}'; "
                    "on_error='dead-letter' makes a source send what it cannot read to DEAD_LETTERS"
                )
        elif not operator.spec.has_side_outputs:
            raise InvalidProgramError(
                f"get_side_output: '{operator.full_name}' has no side outputs, only process() has them, and sources "
                "with on_error='dead-letter'"
            )
        return self._virtual(SideOutputTransformation(operator, output_tag), output_tag.type)

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Sends every record to a sink."""
        if not isinstance(sink, Sink):
            raise InvalidProgramError(f"sink_to: expected a Sink, got {type(sink).__qualname__}")
        sink = sink.for_type(self._type)
        transformer = sink.get_transformer() if isinstance(sink, SupportsPreprocessing) else None
        stream: DataStream = self if transformer is None else transformer.apply(self)
        return stream._sink(type(sink).__name__, sink)

    def add_sink(self, sink_func: Any) -> DataStreamSink:
        """Calls a SinkFunction for every record, or a callable `(value)`; a Sink is taken as by `sink_to`."""
        if isinstance(sink_func, Sink):
            return self.sink_to(sink_func)
        function = sink_function_of(sink_func)
        return DataStreamSink(self._add("Unnamed", self._sink_function_spec(function), PICKLED))

    def _sink_function_spec(self, function: SinkFunction[Any]) -> SinkFunctionSpec:
        return SinkFunctionSpec(function)

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Prints every record to the standard output of the task that has it."""
        from millstream.datastream.connectors.print import PrintSink

        return self._sink("Print to Std. Out", PrintSink(sink_identifier).for_type(self._type))

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator | list[Any]:
        """Runs the job and answers this stream's records as they come: an iterator, or a list of at most `limit`."""
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
            raise InvalidProgramError(f"execute_and_collect: a limit is a whole number of at least 1, not {limit!r}")
        operator = self._add("Collect", CollectSpec(), self._type)
        operator.parallelism, operator.non_parallel = 1, True
        results = self._environment.collect_from(operator, job_execution_name)
        if limit is None:
            return results
        with results:
            return [record for record, _ in zip(results, range(limit), strict=False)]

    def _sink(self, name: str, sink: Sink) -> DataStreamSink:
        return DataStreamSink(self._add(name, SinkSpec(sink), PICKLED))

    def _add(self, name: str, spec: OperatorSpec, record_type: TypeInformation) -> OperatorTransformation:
        return self._environment.add_operator(name, self._transformation, spec, record_type)

    def _then(self, name: str, spec: OperatorSpec, record_type: TypeInformation) -> DataStream:
        return DataStream(self._environment, self._add(name, spec, record_type), record_type)

    def _virtual(self, transformation: Transformation, record_type: TypeInformation) -> DataStream:
        return DataStream(self._environment, transformation, record_type)

    def _partitioned(self, partitioner: Partitioner) -> DataStream:
        return self._virtual(PartitionTransformation(self._transformation, partitioner), self._type)


def _no_key(record: Any) -> int:
    """All records are of one key."""
    return 0
