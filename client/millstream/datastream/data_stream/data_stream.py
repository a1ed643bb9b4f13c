"""`DataStream`: the operations on a stream, with PyFlink's names.

Every operation adds an operator or a virtual node to the program and returns the resulting stream; nothing runs before
the environment executes the job. Types are kept, declared (`output_type`) or taken from annotations; without any of
these, records are pickled.

Methods that take an `output_type` have four signatures for type checkers: without it, the type of the results is the
function's; with a type, it is that one, also where another one is expected (see `AnyType`); with any other hint, such
as `int | None`, it is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar, overload

from millstream.common.watermark_strategy import WatermarkStrategy
from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.plan.function_ends_plan import SinkFunctionSpec
from millstream.core.jobs.plan.plan import (
    BroadcastPartitioner,
    CollectSpec,
    CommittingWriterSpec,
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
from millstream.core.records.type_variables import T_co
from millstream.core.records.types import PICKLED, AnyType, TypeInformation
from millstream.core.row import Row
from millstream.datastream.adapters.batch_functions import map_batches_function_of
from millstream.datastream.adapters.computed import Computed
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
from millstream.datastream.connectors.global_commit import CommitterOf, GlobalCommitSink
from millstream.datastream.data_stream.data_stream_sink import CommittedSink, DataStreamSink
from millstream.datastream.data_stream.operator_settings import OperatorSettings, checked_buffer_timeout
from millstream.datastream.functions import (
    Context,
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapBatchesFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    SinkFunction,
)
from millstream.datastream.functions import Partitioner as PartitionerFunction
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
    from millstream.datastream.data_stream.all_windowed_stream import AllWindowedStream
    from millstream.datastream.data_stream.broadcast_stream import BroadcastConnectedStream, BroadcastStream
    from millstream.datastream.data_stream.cached_data_stream import CachedDataStream
    from millstream.datastream.data_stream.connected_streams import ConnectedStreams
    from millstream.datastream.data_stream.joined_streams import CoGroupedStreams, JoinedStreams
    from millstream.datastream.data_stream.keyed_stream import KeyedStream
    from millstream.datastream.execution.collecting import CloseableIterator
    from millstream.datastream.expressions import Expression, RowExpression
    from millstream.datastream.state import MapStateDescriptor
    from millstream.datastream.stream_execution_environment import StreamExecutionEnvironment
    from millstream.datastream.window import WindowAssigner


OUT = TypeVar("OUT")
KEY = TypeVar("KEY")
OTHER = TypeVar("OTHER")
VALUE = TypeVar("VALUE")
W = TypeVar("W")


class SupportsMapBatches(Protocol):
    """Any object with a method `map_batches`; `open(runtime_context)` and `close()` are called if it has them."""

    def map_batches(self, batch: Any, /) -> Any:
        """Returns a batch for a batch, or None."""


class DataStream(OperatorSettings, Generic[T_co]):
    """A stream of records: `DataStream[str]` is a stream of text.

    The environment's sources and the operations of other streams return streams. A stream can be read any number of
    times. Example:

        env = StreamExecutionEnvironment.get_execution_environment()
        lines = env.from_collection(["to be", "or not"])
        counts = lines.flat_map(str.split).map(lambda word: (word, 1)).key_by(lambda pair: pair[0]).sum(1)
        counts.print()
        env.execute("word count")
    """

    def __init__(
        self,
        environment: StreamExecutionEnvironment,
        transformation: Transformation,
        record_type: TypeInformation[T_co],
    ) -> None:
        super().__init__(transformation)
        self._environment = environment
        self._type = record_type

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """What only a keyed stream has is named with what to call first."""
            from millstream.datastream.data_stream.keyed_stream import KeyedStream

            message = f"'{type(self).__name__}' object has no attribute '{name}'"
            if not name.startswith("_") and hasattr(KeyedStream, name):
                message += f": only a keyed stream has it. Call key_by first: stream.key_by(...).{name}(...)"
                if name in ("window", "count_window"):
                    message += f"; for windows of all records, in one subtask, call {name}_all"
            raise AttributeError(message, name=name, obj=self)

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Returns the environment that the stream belongs to."""
        return self._environment

    def get_execution_config(self) -> ExecutionConfig:
        """Returns the settings of the environment."""
        return self._environment.get_config()

    def get_type(self) -> TypeInformation[T_co]:
        """Returns the type of the records."""
        return self._type

    @property
    def transformation(self) -> Transformation:
        """The node of the program that produces the stream."""
        return self._transformation

    def start_new_chain(self) -> Self:
        """Starts a new task at this operator: it is not chained to the operator before it.

        For example:

            lines.map(parsed).map(slow).start_new_chain()
        """
        self._operator("start_new_chain").chaining = ChainingStrategy.HEAD
        return self

    def set_buffer_timeout(self, timeout_millis: Any) -> Self:
        """Sets how long records wait in a buffer before it is sent: `timeout_millis`, milliseconds or a timedelta.

        0 sends every batch at once; -1 sends only full buffers. Raises `InvalidProgramError` for anything else.

            lines.map(len).set_buffer_timeout(100)
        """
        timeout = checked_buffer_timeout("set_buffer_timeout", timeout_millis)
        self._operator("set_buffer_timeout").buffer_timeout = timeout
        return self

    def force_non_parallel(self) -> Self:
        """Fixes the parallelism and the maximum parallelism of the operator at 1.

        For example:

            lines.map(numbered).force_non_parallel()
        """
        operator = self._operator("force_non_parallel")
        operator.parallelism = operator.max_parallelism = 1
        operator.non_parallel = True
        return self

    def cache(self) -> CachedDataStream[T_co]:
        """Returns a stream whose records are kept for later jobs of the program, by the first job that computes it.

        That job has to be a batch job. Raises `InvalidProgramError` unless the stream is the output of an operator or a
        side output.

            cached = lines.map(parsed).cache()
        """
        from millstream.datastream.data_stream.cached_data_stream import CachedDataStream

        origin = self._transformation
        if not isinstance(origin, OperatorTransformation | SideOutputTransformation):
            raise InvalidProgramError(
                "cache: what is kept are the records of an operator or of a side output, and this stream is only a way "
                "of reading others (a key_by, a partitioning or a union); call it on the stream before or after"
            )
        cache = self._environment.caches.add(origin, self._type, self._environment.numbers)
        return CachedDataStream(self._environment, cache, self._type)

    @overload
    def map(self, func: RowExpression) -> DataStream[Row]: ...

    @overload
    def map(self, func: Expression) -> DataStream[Any]: ...

    @overload
    def map(self, func: Callable[[T_co], OUT] | MapFunction[T_co, OUT]) -> DataStream[OUT]: ...

    @overload
    def map(
        self,
        func: Callable[[T_co], object] | MapFunction[T_co, object],
        output_type: TypeInformation[OUT] | type[OUT],
    ) -> DataStream[OUT]: ...

    @overload
    def map(
        self,
        func: Callable[[T_co], object] | MapFunction[T_co, object],
        output_type: AnyType,
    ) -> DataStream[object]: ...

    @overload
    def map(
        self, func: Callable[[T_co], object] | MapFunction[T_co, object], output_type: object
    ) -> DataStream[Any]: ...

    def map(self, func: Any, output_type: Any = None) -> DataStream[Any]:
        """Returns the stream of the results of a function that is called for each record: one result for each.

        `func` is a callable or a MapFunction, and `output_type` the type of the results: `Types.…`, a type hint or a
        dataclass; without it, the annotation of the function's result. Or `func` is an expression, or a `row` of some,
        which has its own type and is computed for whole batches (see `millstream.datastream.expressions`). Raises
        `InvalidProgramError` for a generator function, an async function, and a function that cannot be called with
        one argument; and for an expression that does not fit the columns of the stream.

            lines.map(len)
            lines.map(lambda line: (line, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
            orders.map(row(col("user"), (col("amount") * 2).alias("twice")))
        """
        if isinstance(func, Computed):
            from millstream.datastream.adapters.calculations import map_of

            if output_type is not None:
                raise InvalidProgramError("map: an expression has its own type; leave output_type out, or cast it")
            spec, kind = map_of(func, self._type)
            return self._then("Map", spec, kind)
        target = checked_callable("map", func, "map", 1)
        refuse_generator("map", target, "use flat_map for any number of results")
        return self._then("Map", MapSpec(func), result_type(target, output_type))

    @overload
    def flat_map(
        self, func: Callable[[T_co], Iterable[OUT] | None] | FlatMapFunction[T_co, OUT]
    ) -> DataStream[OUT]: ...

    @overload
    def flat_map(
        self,
        func: Callable[[T_co], Iterable[object] | None] | FlatMapFunction[T_co, object],
        output_type: TypeInformation[OUT] | type[OUT],
    ) -> DataStream[OUT]: ...

    @overload
    def flat_map(
        self,
        func: Callable[[T_co], Iterable[object] | None] | FlatMapFunction[T_co, object],
        output_type: AnyType,
    ) -> DataStream[object]: ...

    @overload
    def flat_map(
        self, func: Callable[[T_co], Iterable[object] | None] | FlatMapFunction[T_co, object], output_type: object
    ) -> DataStream[Any]: ...

    def flat_map(self, func: Any, output_type: Any = None) -> DataStream[Any]:
        """Returns the stream of the results of a function that has any number of results for each record.

        `func` is a callable or a FlatMapFunction that returns an iterable or is a generator, and `output_type` the type
        of one result. Raises `InvalidProgramError` for an async function, and for a function that cannot be called with
        one argument.

            lines.flat_map(lambda line: line.split())
        """
        target = checked_callable("flat_map", func, "flat_map", 1)
        return self._then("Flat Map", FlatMapSpec(func), element_type(target, output_type))

    def filter(self, func: Callable[[T_co], object] | FilterFunction[T_co] | Expression) -> DataStream[T_co]:
        """Returns the stream of the records for which a function returns true, or an expression is true.

        `func` is a callable, a FilterFunction, or an expression, which is computed for whole batches (see
        `millstream.datastream.expressions`). Raises `InvalidProgramError` for a generator function, an async function,
        and a function that cannot be called with one argument; and for an expression that is no condition or does not
        fit the columns of the stream.

            lines.filter(lambda line: not line.startswith("#"))
            orders.filter(col("amount") > 100)
        """
        if isinstance(func, Computed):
            from millstream.datastream.adapters.calculations import filter_of

            return self._then("Filter", filter_of(func, self._type), self._type)
        target = checked_callable("filter", func, "filter", 1)
        refuse_generator("filter", target, "a filter returns true or false")
        return self._then("Filter", FilterSpec(func), self._type)

    @overload
    def process(
        self,
        func: ProcessFunction[T_co, OUT]
        | Callable[[T_co, Context], Iterable[OUT | tuple[OutputTag[Any], Any]] | None],
    ) -> DataStream[OUT]: ...

    @overload
    def process(
        self,
        func: ProcessFunction[T_co, object] | Callable[[T_co, Context], Iterable[object] | None],
        output_type: TypeInformation[OUT] | type[OUT],
    ) -> DataStream[OUT]: ...

    @overload
    def process(
        self,
        func: ProcessFunction[T_co, object] | Callable[[T_co, Context], Iterable[object] | None],
        output_type: AnyType,
    ) -> DataStream[object]: ...

    @overload
    def process(
        self,
        func: ProcessFunction[T_co, object] | Callable[[T_co, Context], Iterable[object] | None],
        output_type: object,
    ) -> DataStream[Any]: ...

    def process(self, func: Any, output_type: Any = None) -> DataStream[Any]:
        """Returns the stream of the results of the general function, which also emits to side outputs.

        `func` is a ProcessFunction or a callable `(value, ctx)` that yields results, and `(tag, result)` for a side
        output; `output_type` is the type of one result. Raises `InvalidProgramError` for a KeyedProcessFunction, which
        needs a keyed stream, and for an async function.

            def parse(line, ctx):
                yield float(line) if line else (EMPTY, line)

            lines.process(parse, output_type=float).get_side_output(EMPTY)
        """
        if isinstance(func, KeyedProcessFunction):
            raise InvalidProgramError(
                f"process: {type(func).__qualname__} is a KeyedProcessFunction, which needs a keyed stream; call "
                "key_by first"
            )
        target = checked_callable("process", func, "process_element", 2)
        function = func if isinstance(func, ProcessFunction) else CallableProcessFunction(func)
        return self._then("Process", ProcessSpec(function), element_type(target, output_type))

    @overload
    def map_batches(
        self,
        func: Callable[[Any], Any] | MapBatchesFunction | SupportsMapBatches,
        output_type: None = None,
        batch_format: str | None = None,
    ) -> DataStream[Any]: ...

    @overload
    def map_batches(
        self,
        func: Callable[[Any], Any] | MapBatchesFunction | SupportsMapBatches,
        output_type: TypeInformation[OUT] | type[OUT],
        batch_format: str | None = None,
    ) -> DataStream[OUT]: ...

    @overload
    def map_batches(
        self,
        func: Callable[[Any], Any] | MapBatchesFunction | SupportsMapBatches,
        output_type: AnyType,
        batch_format: str | None = None,
    ) -> DataStream[object]: ...

    @overload
    def map_batches(
        self,
        func: Callable[[Any], Any] | MapBatchesFunction | SupportsMapBatches,
        output_type: object,
        batch_format: str | None = None,
    ) -> DataStream[Any]: ...

    def map_batches(self, func: Any, output_type: Any = None, batch_format: str | None = None) -> DataStream[Any]:
        """Returns the stream of the results of a function that is called with whole batches of records.

        `func` is a callable, a MapBatchesFunction, or an object with a method `map_batches`, whose `open` and `close`
        are called if it has them. It receives Arrow record batches or pandas data frames and returns the same kind, or
        None for no result. `batch_format` is `arrow` or `pandas`; without it, the annotation of the first parameter
        decides. `output_type` is the type of the rows of the results.

        Raises `InvalidProgramError` for a generator function, an async function and an unknown format.

            prices.map_batches(lambda batch: batch.assign(total=batch.price * batch.amount), batch_format="pandas")
        """
        function, target = map_batches_function_of(func)
        refuse_generator("map_batches", target, "a function over batches returns one batch")
        chosen = batch_format_of(target) if batch_format is None else batch_format
        if chosen not in ("arrow", "pandas"):
            raise InvalidProgramError(f"map_batches: the batch format is 'arrow' or 'pandas', not {batch_format!r}")
        kind = PICKLED if output_type is None else result_type(target, output_type)
        return self._then("Map Batches", MapBatchesSpec(function, chosen), kind)

    def project(self, *field_indexes: int | str) -> DataStream[Any]:
        """Returns the stream of some fields of each record: `field_indexes` are positions or names, in this order.

        Rows remain rows; all other records become tuples. Raises `InvalidProgramError` without a field, and for a field
        that the declared type does not have.

            orders.project("customer", "amount")
        """
        if not field_indexes:
            raise InvalidProgramError("project: name at least one field")
        fields = tuple(checked_field("project", field, self._type) for field in field_indexes)
        kind = projected_type(fields, self._type)
        return self._then("Projection", MapSpec(Projection(fields)), kind)

    @overload
    def key_by(
        self, key_selector: Callable[[T_co], KEY] | KeySelector[T_co, KEY], key_type: None = None
    ) -> KeyedStream[KEY, T_co]: ...

    @overload
    def key_by(
        self, key_selector: str | int | Sequence[str | int], key_type: None = None
    ) -> KeyedStream[Any, T_co]: ...

    @overload
    def key_by(
        self,
        key_selector: Callable[[T_co], object] | KeySelector[T_co, object] | str | int | Sequence[str | int],
        key_type: TypeInformation[KEY] | type[KEY],
    ) -> KeyedStream[KEY, T_co]: ...

    @overload
    def key_by(
        self,
        key_selector: Callable[[T_co], object] | KeySelector[T_co, object] | str | int | Sequence[str | int],
        key_type: AnyType,
    ) -> KeyedStream[object, T_co]: ...

    @overload
    def key_by(
        self,
        key_selector: Callable[[T_co], object] | KeySelector[T_co, object] | str | int | Sequence[str | int],
        key_type: object,
    ) -> KeyedStream[Any, T_co]: ...

    def key_by(self, key_selector: Any, key_type: Any = None) -> KeyedStream[Any, T_co]:
        """Returns the stream grouped by a key: records with equal keys are processed by the same subtask, in order.

        `key_selector` is a callable, a KeySelector, the name or position of a field, or a list of these; `key_type` is
        the type of the keys. Raises `InvalidProgramError` for an async function, a generator function, and a field that
        the declared type does not have.

            orders.key_by(lambda order: order.customer, key_type=Types.STRING())
        """
        from millstream.datastream.data_stream.keyed_stream import KeyedStream

        selector, kind = key_selector_of("key_by", key_selector, self._type, key_type)
        return KeyedStream(self, selector, kind)

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy[T_co]) -> DataStream[T_co]:
        """Returns the stream with the timestamps and watermarks of `watermark_strategy`.

        Raises `InvalidProgramError` for a strategy with watermark alignment, which belongs to a source.

            events.assign_timestamps_and_watermarks(
                WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
                .with_timestamp_assigner(lambda event, _: event.time)
            )
        """
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

    def window_all(self, window_assigner: WindowAssigner[T_co, W]) -> AllWindowedStream[T_co, W]:
        """Groups all records of the stream into the windows of `window_assigner`, in one subtask.

        `stream.key_by(...).window(...)` has windows for each key and runs in parallel. Raises `InvalidProgramError`
        unless the argument is a WindowAssigner.

            readings.window_all(TumblingEventTimeWindows.of(Time.minutes(1))).reduce(max)
        """
        from millstream.datastream.data_stream.all_windowed_stream import AllWindowedStream

        return AllWindowedStream(self.key_by(_no_key, int), window_assigner)

    def count_window_all(self, size: int, slide: int = 0) -> AllWindowedStream[T_co, Any]:
        """Groups all records into windows of `size` records, one every `slide` records if given, in one subtask.

        For example:

            numbers.count_window_all(100).reduce(lambda a, b: a + b)
        """
        from millstream.datastream.window import CountSlidingWindowAssigner, CountTumblingWindowAssigner

        tumbling = CountTumblingWindowAssigner.of(size) if slide == 0 else CountSlidingWindowAssigner.of(size, slide)
        return self.window_all(tumbling)

    def union(self, *streams: DataStream[OTHER]) -> DataStream[T_co | OTHER]:
        """Returns one stream of the records of this stream and the others.

        Keyed streams are partitioned by their keys first. Raises `InvalidProgramError` for streams of another
        environment, and for streams of different types. A stream without a declared type can be united with any other;
        then the result has no declared type either.

            lines.union(more_lines, yet_more_lines)
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

    def to_be_united(self) -> DataStream[T_co]:
        """Returns the stream that a union reads; called by unions."""
        return self

    @overload
    def connect(self, ds: DataStream[OTHER]) -> ConnectedStreams[T_co, OTHER]: ...

    @overload
    def connect(self, ds: BroadcastStream[OTHER]) -> BroadcastConnectedStream[T_co, OTHER]: ...

    def connect(
        self, ds: DataStream[Any] | BroadcastStream[Any]
    ) -> ConnectedStreams[T_co, Any] | BroadcastConnectedStream[T_co, Any]:
        """Returns this stream and the stream `ds`, of any type, as the two inputs of one operator.

        With a broadcast stream (`rules.broadcast(descriptor)`), the result takes a BroadcastProcessFunction. Raises
        `InvalidProgramError` for a stream of another environment.

            clicks.connect(purchases).key_by(lambda c: c.user, lambda p: p.user).process(Match())
        """
        from millstream.datastream.data_stream.broadcast_stream import BroadcastConnectedStream, BroadcastStream
        from millstream.datastream.data_stream.connected_streams import ConnectedStreams

        if not isinstance(ds, DataStream | BroadcastStream):
            raise InvalidProgramError(f"connect: expected a stream, got {ds!r}")
        other = ds.input_stream if isinstance(ds, BroadcastStream) else ds
        if other.get_execution_environment() is not self._environment:
            raise InvalidProgramError("connect: the streams belong to different environments")
        return BroadcastConnectedStream(self, ds) if isinstance(ds, BroadcastStream) else ConnectedStreams(self, ds)

    def join(self, other_stream: DataStream[OTHER]) -> JoinedStreams[T_co, OTHER]:
        """Joins this stream and `other_stream` in windows, pair by pair.

        The function is called with each pair of records with the same key and window. Raises `InvalidProgramError` for
        a stream of another environment.

            pairs = orders.join(payments).where(lambda o: o.id).equal_to(lambda p: p.order)
            windows = pairs.window(TumblingEventTimeWindows.of(Time.minutes(5)))
            windows.apply(lambda o, p: (o.id, p.amount))
        """
        from millstream.datastream.data_stream.joined_streams import JoinedStreams

        return JoinedStreams(self, self._joined("join", other_stream))

    def co_group(self, other_stream: DataStream[OTHER]) -> CoGroupedStreams[T_co, OTHER]:
        """Joins this stream and `other_stream` in windows, with all records of a key and window at once.

        The function is also called for a key that only one stream has. The calls that follow are those of `join`.
        Raises `InvalidProgramError` for a stream of another environment.

            groups = orders.co_group(payments).where(lambda o: o.id).equal_to(lambda p: p.order)
            windows = groups.window(TumblingEventTimeWindows.of(Time.minutes(5)))
            windows.apply(lambda os, ps: [(len(os), len(ps))])
        """
        from millstream.datastream.data_stream.joined_streams import CoGroupedStreams

        return CoGroupedStreams(self, self._joined("co_group", other_stream))

    def _joined(self, method: str, other: DataStream[OTHER]) -> DataStream[OTHER]:
        if not isinstance(other, DataStream):
            raise InvalidProgramError(f"{method}: expected a stream, got {other!r}")
        if other.get_execution_environment() is not self._environment:
            raise InvalidProgramError(f"{method}: the streams belong to different environments")
        return other

    def forward(self) -> DataStream[T_co]:
        """Sends the records of subtask i to subtask i of the next operator; both need the same parallelism.

        For example:

            lines.forward().map(len)
        """
        return self._partitioned(ForwardPartitioner())

    def rebalance(self) -> DataStream[T_co]:
        """Sends records in turn to all subtasks of the next operator.

        For example:

            lines.rebalance().map(slow)
        """
        return self._partitioned(RebalancePartitioner())

    def rescale(self) -> DataStream[T_co]:
        """Sends records in turn to some subtasks of the next operator: each subtask has a share of its own.

        For example:

            lines.rescale().map(slow)
        """
        return self._partitioned(RescalePartitioner())

    def shuffle(self) -> DataStream[T_co]:
        """Sends each record to a random subtask of the next operator.

        For example:

            lines.shuffle().map(slow)
        """
        return self._partitioned(ShufflePartitioner())

    @overload
    def broadcast(self) -> DataStream[T_co]: ...

    @overload
    def broadcast(
        self, state_descriptor: MapStateDescriptor[Any, Any], /, *more: MapStateDescriptor[Any, Any]
    ) -> BroadcastStream[T_co]: ...

    def broadcast(
        self, *broadcast_state_descriptors: MapStateDescriptor[Any, Any]
    ) -> DataStream[T_co] | BroadcastStream[T_co]:
        """Sends each record to every subtask of the next operator.

        With `broadcast_state_descriptors`, returns a stream to be connected to another one.

            events.connect(rules.broadcast(descriptor)).process(function)
        """
        everywhere = self._partitioned(BroadcastPartitioner())
        if not broadcast_state_descriptors:
            return everywhere
        from millstream.datastream.data_stream.broadcast_stream import BroadcastStream

        return BroadcastStream(everywhere, broadcast_state_descriptors)

    def global_(self) -> DataStream[T_co]:
        """Sends all records to the first subtask of the next operator.

        For example:

            lines.global_().map(numbered)
        """
        return self._partitioned(GlobalPartitioner())

    @overload
    def partition_custom(
        self,
        partitioner: PartitionerFunction[KEY],
        key_selector: Callable[[T_co], KEY] | KeySelector[T_co, KEY] | str | int | Sequence[str | int],
    ) -> DataStream[T_co]: ...

    @overload
    def partition_custom(
        self,
        partitioner: Callable[[Any, int], int],
        key_selector: Callable[[T_co], object] | KeySelector[T_co, object] | str | int | Sequence[str | int],
    ) -> DataStream[T_co]: ...

    def partition_custom(self, partitioner: Any, key_selector: Any) -> DataStream[T_co]:
        """Sends each record to the subtask whose number `partitioner(key, number_of_subtasks)` returns.

        `partitioner` is a callable or a Partitioner, and `key_selector` anything that `key_by` takes.

            orders.partition_custom(lambda customer, subtasks: hash(customer) % subtasks, "customer")
        """
        checked_callable("partition_custom", partitioner, "partition", 2)
        selector, _ = key_selector_of("partition_custom", key_selector, self._type)
        return self._partitioned(CustomPartitioner(partitioner, selector))

    def get_side_output(self, output_tag: OutputTag[OUT]) -> DataStream[OUT]:
        """Returns the stream of the records that this operator or source emits to the side output `output_tag`.

        Raises `InvalidProgramError` when the operator has no side outputs: only `process`, windows, joins and sources
        with `on_error='dead-letter'` have them.

            parsed = lines.process(Parse())
            invalid = parsed.get_side_output(INVALID)
        """
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

    def sink_to(self, sink: Sink[T_co]) -> DataStreamSink:
        """Writes every record to a sink, such as `FileSink` or `PrintSink`; returns the sink's settings.

        Raises `InvalidProgramError` unless the argument is a Sink.

            lines.sink_to(FileSink.for_row_format("out")).name("lines").uid("lines")
        """
        if not isinstance(sink, Sink):
            raise InvalidProgramError(f"sink_to: expected a Sink, got {type(sink).__qualname__}")
        sink = sink.for_type(self._type)
        transformer = sink.get_transformer() if isinstance(sink, SupportsPreprocessing) else None
        stream: DataStream[T_co] = self if transformer is None else transformer.apply(self)
        name = type(sink).__name__
        return stream._committed(name, sink) if isinstance(sink, GlobalCommitSink) else stream._sink(name, sink)

    def add_sink(self, sink_func: SinkFunction[T_co] | Callable[[T_co], object] | Sink[T_co]) -> DataStreamSink:
        """Calls `sink_func` for every record: a SinkFunction, or a callable `(value)`; a Sink is used as by `sink_to`.

        Raises `InvalidProgramError` for anything else, and for an async function.

            lines.add_sink(print)
        """
        if isinstance(sink_func, Sink):
            return self.sink_to(sink_func)
        function = sink_function_of(sink_func)
        return DataStreamSink(self._add("Unnamed", self._sink_function_spec(function), PICKLED))

    def _sink_function_spec(self, function: SinkFunction[Any]) -> SinkFunctionSpec:
        return SinkFunctionSpec(function)

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Prints every record to the standard output of its task, with `sink_identifier` before it if given.

        For example:

            counts.print("counts")
        """
        from millstream.datastream.connectors.print import PrintSink

        return self._sink("Print to Std. Out", PrintSink(sink_identifier).for_type(self._type))

    @overload
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: None = None
    ) -> CloseableIterator[T_co]: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, *, limit: int) -> list[T_co]: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None, limit: int) -> list[T_co]: ...

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator[T_co] | list[T_co]:
        """Runs the job and returns the records of this stream: an iterator, or a list of at most `limit` records.

        `job_execution_name` is the name of the job. Closing the iterator before its end cancels the job. Raises
        `InvalidProgramError` for a limit below 1, and when the program runs detached; the iterator raises
        `JobExecutionError` when the job fails.

            with lines.map(len).execute_and_collect() as lengths:
                for length in lengths:
                    print(length)
        """
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
            raise InvalidProgramError(f"execute_and_collect: a limit is a whole number of at least 1, not {limit!r}")
        operator = self._add("Collect", CollectSpec(), self._type)
        operator.parallelism, operator.non_parallel = 1, True
        results: CloseableIterator[T_co] = self._environment.collect_from(operator, job_execution_name)
        if limit is None:
            return results
        with results:
            return [record for record, _ in zip(results, range(limit), strict=False)]

    def _sink(self, name: str, sink: Sink[Any]) -> DataStreamSink:
        return DataStreamSink(self._add(name, SinkSpec(sink), PICKLED))

    def _committed(self, name: str, sink: GlobalCommitSink[Any, Any]) -> DataStreamSink:
        """The writers, and behind them one committer.

        On this exchange barriers do not overtake records: what writers emit before a barrier is in its checkpoint.
        """
        writer = self._add(name, CommittingWriterSpec(sink), PICKLED)
        committables = PartitionTransformation(writer, RescalePartitioner())
        committer = self._environment.add_operator(name, committables, SinkSpec(CommitterOf(sink)), PICKLED)
        committer.parallelism, committer.non_parallel = 1, True
        return CommittedSink(writer, committer)

    def _add(self, name: str, spec: OperatorSpec, record_type: TypeInformation) -> OperatorTransformation:
        return self._environment.add_operator(name, self._transformation, spec, record_type)

    def _then(self, name: str, spec: OperatorSpec, record_type: TypeInformation[OUT]) -> DataStream[OUT]:
        return DataStream(self._environment, self._add(name, spec, record_type), record_type)

    def _virtual(self, transformation: Transformation, record_type: TypeInformation[OUT]) -> DataStream[OUT]:
        return DataStream(self._environment, transformation, record_type)

    def _partitioned(self, partitioner: Partitioner) -> DataStream[T_co]:
        return self._virtual(PartitionTransformation(self._transformation, partitioner), self._type)


def _no_key(record: Any) -> int:
    """All records have the same key."""
    return 0
