"""The functions that users write, with PyFlink's names: rich functions, their context, metrics and accumulators.

Call order of a rich function in its task: `open` once before the first record, then its method for each record, then
`close` exactly once, also when the task failed or was cancelled. All calls come from the slot worker's one thread.
"""

from __future__ import annotations

from millstream.datastream.functions.accumulators import (
    Accumulator,
    DoubleCounter,
    Histogram,
    IntCounter,
    ListAccumulator,
)
from millstream.datastream.functions.async_functions import (
    AsyncFunction,
    AsyncFunctionDescriptor,
    AsyncRetryPredicate,
    AsyncRetryStrategy,
)
from millstream.datastream.functions.broadcast_functions import (
    BaseBroadcastProcessFunction,
    BroadcastContext,
    BroadcastProcessFunction,
    BroadcastTimerContext,
    KeyedBroadcastContext,
    KeyedBroadcastProcessFunction,
    KeyedReadOnlyBroadcastContext,
    KeyedStateFunction,
    ReadOnlyBroadcastContext,
)
from millstream.datastream.functions.checkpoint_listener import CheckpointListener
from millstream.datastream.functions.co_functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from millstream.datastream.functions.contexts import Context, KeyedContext, OnTimerContext
from millstream.datastream.functions.function import Function, RuntimeContext, TimedFunction
from millstream.datastream.functions.join_functions import (
    CoGroupFunction,
    FlatJoinFunction,
    JoinContext,
    JoinFunction,
    ProcessJoinFunction,
    TaggedUnion,
)
from millstream.datastream.functions.process_functions import KeyedProcessFunction, ProcessFunction
from millstream.datastream.functions.record_functions import (
    AggregateFunction,
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapBatchesFunction,
    MapFunction,
    Partitioner,
    ReduceFunction,
    as_callable,
)
from millstream.datastream.functions.sink_functions import SinkContext, SinkFunction
from millstream.datastream.functions.source_functions import ParallelSourceFunction, SourceContext, SourceFunction
from millstream.datastream.functions.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowContext,
    WindowFunction,
)
from millstream.datastream.output_tag import OutputTag
from millstream.metrics import Counter, MetricGroup

__all__ = [
    "Accumulator",
    "AggregateFunction",
    "AllWindowFunction",
    "AsyncFunction",
    "AsyncFunctionDescriptor",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BaseBroadcastProcessFunction",
    "BroadcastContext",
    "BroadcastProcessFunction",
    "BroadcastTimerContext",
    "CheckpointListener",
    "CoFlatMapFunction",
    "CoGroupFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "Context",
    "Counter",
    "DoubleCounter",
    "FilterFunction",
    "FlatJoinFunction",
    "FlatMapFunction",
    "Function",
    "Histogram",
    "IntCounter",
    "JoinContext",
    "JoinFunction",
    "KeySelector",
    "KeyedBroadcastContext",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedContext",
    "KeyedProcessFunction",
    "KeyedReadOnlyBroadcastContext",
    "KeyedStateFunction",
    "ListAccumulator",
    "MapBatchesFunction",
    "MapFunction",
    "MetricGroup",
    "OnTimerContext",
    "OutputTag",
    "ParallelSourceFunction",
    "Partitioner",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessJoinFunction",
    "ProcessWindowFunction",
    "ReadOnlyBroadcastContext",
    "ReduceFunction",
    "RuntimeContext",
    "SinkContext",
    "SinkFunction",
    "SourceContext",
    "SourceFunction",
    "TaggedUnion",
    "TimedFunction",
    "WindowContext",
    "WindowFunction",
    "as_callable",
]
