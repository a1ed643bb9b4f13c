"""Files as sources and sinks, with PyFlink's names."""

from millstream.common.serialization import Encoder
from millstream.datastream.connectors.file_system.buckets import BucketAssigner
from millstream.datastream.connectors.file_system.rolling import (
    OutputFileConfig,
    OutputFileConfigBuilder,
    RollingPolicy,
)
from millstream.datastream.connectors.file_system.sink import FileSink
from millstream.datastream.connectors.file_system.source import FileSource
from millstream.datastream.connectors.file_system.splits import FileFormat, FileSplit, FormatReader
from millstream.datastream.connectors.file_system.text_format import StreamFormat

__all__ = [
    "BucketAssigner",
    "Encoder",
    "FileFormat",
    "FileSink",
    "FileSource",
    "FileSplit",
    "FormatReader",
    "OutputFileConfig",
    "OutputFileConfigBuilder",
    "RollingPolicy",
    "StreamFormat",
]
