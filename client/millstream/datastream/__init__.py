"""The DataStream API, with PyFlink's names."""

from __future__ import annotations

from millstream.datastream.collecting import CloseableIterator
from millstream.datastream.data_stream import DataStream
from millstream.datastream.data_stream_sink import DataStreamSink
from millstream.datastream.functions import (
    Accumulator,
    Counter,
    DoubleCounter,
    FilterFunction,
    FlatMapFunction,
    Function,
    Histogram,
    IntCounter,
    KeyedProcessFunction,
    KeySelector,
    ListAccumulator,
    MapFunction,
    MetricGroup,
    OutputTag,
    Partitioner,
    ProcessFunction,
    ReduceFunction,
    RuntimeContext,
)
from millstream.datastream.keyed_stream import KeyedStream
from millstream.datastream.runtime_execution_mode import RuntimeExecutionMode
from millstream.datastream.stream_execution_environment import StreamExecutionEnvironment

__all__ = [
    "Accumulator",
    "CloseableIterator",
    "Counter",
    "DataStream",
    "DataStreamSink",
    "DoubleCounter",
    "FilterFunction",
    "FlatMapFunction",
    "Function",
    "Histogram",
    "IntCounter",
    "KeySelector",
    "KeyedProcessFunction",
    "KeyedStream",
    "ListAccumulator",
    "MapFunction",
    "MetricGroup",
    "OutputTag",
    "Partitioner",
    "ProcessFunction",
    "ReduceFunction",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "StreamExecutionEnvironment",
]
