"""The streams, each with what can be done with it, at PyFlink's path."""

from millstream.datastream.data_stream.all_windowed_stream import AllWindowedStream
from millstream.datastream.data_stream.broadcast_stream import BroadcastConnectedStream, BroadcastStream
from millstream.datastream.data_stream.cached_data_stream import CachedDataStream
from millstream.datastream.data_stream.connected_streams import ConnectedStreams
from millstream.datastream.data_stream.data_stream import DataStream
from millstream.datastream.data_stream.data_stream_sink import DataStreamSink
from millstream.datastream.data_stream.keyed_stream import KeyedStream
from millstream.datastream.data_stream.windowed_stream import WindowedStream
from millstream.datastream.execution.collecting import CloseableIterator

__all__ = [
    "AllWindowedStream",
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CachedDataStream",
    "CloseableIterator",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "KeyedStream",
    "WindowedStream",
]
