"""`DataStreamSink`: the end of a stream."""

from __future__ import annotations

from millstream.datastream.data_stream.operator_settings import OperatorSettings


class DataStreamSink(OperatorSettings):
    """The result of `sink_to` and `print`: sets the name, uid, parallelism and slot sharing group of the sink."""
