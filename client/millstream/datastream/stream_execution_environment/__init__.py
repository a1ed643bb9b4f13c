"""Where a program starts, and what can be set there, at PyFlink's path."""

from millstream.datastream.stream_execution_environment.stream_execution_environment import StreamExecutionEnvironment

__all__ = [
    "StreamExecutionEnvironment",
]
