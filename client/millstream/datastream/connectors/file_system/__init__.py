"""Files as sources and sinks, with PyFlink's names."""

from millstream.common.serialization import Encoder
from millstream.datastream.connectors.file_system.buckets import BucketAssigner
from millstream.datastream.connectors.file_system.lines.text_format import StreamFormat
from millstream.datastream.connectors.file_system.rolling import (
    OutputFileConfig,
    OutputFileConfigBuilder,
    RollingPolicy,
)
from millstream.datastream.connectors.file_system.sink import FileSink
from millstream.datastream.connectors.file_system.source import FileSource
from millstream.datastream.connectors.file_system.splits import FileFormat, FileSplit, FormatReader
from millstream.datastream.connectors.malformed import DEAD_LETTERS, DeadLetter, OnError

__all__ = [
    "DEAD_LETTERS",
    "BucketAssigner",
    "DeadLetter",
    "Encoder",
    "FileFormat",
    "FileSink",
    "FileSource",
    "FileSplit",
    "FormatReader",
    "OnError",
    "OutputFileConfig",
    "OutputFileConfigBuilder",
    "RollingPolicy",
    "StreamFormat",
]
