"""`DataStreamSink`: the end of a stream."""

from __future__ import annotations

from millstream.datastream.data_stream.operator_settings import OperatorSettings


class DataStreamSink(OperatorSettings):
    """What `sink_to` and `print` answer: the sink's name, uid, parallelism and place can be set on it."""
