"""Files as sources and sinks, with PyFlink's names."""

from millstream.common.serialization import Encoder
from millstream.datastream.connectors.file_system.bulk_format import BulkFormat
from millstream.datastream.connectors.file_system.enumerating import FileEnumeratorProvider, FileSplitAssignerProvider
from millstream.datastream.connectors.file_system.lines.text_format import StreamFormat
from millstream.datastream.connectors.file_system.sink.buckets import BucketAssigner
from millstream.datastream.connectors.file_system.sink.compaction import FileCompactor, FileCompactStrategy
from millstream.datastream.connectors.file_system.sink.file_sink import FileSink, StreamingFileSink
from millstream.datastream.connectors.file_system.sink.rolling import (
    OutputFileConfig,
    OutputFileConfigBuilder,
    RollingPolicy,
)
from millstream.datastream.connectors.file_system.source import FileSource, FileSourceBuilder
from millstream.datastream.connectors.file_system.splits import FileFormat, FileSplit, FormatReader
from millstream.datastream.connectors.malformed import DEAD_LETTERS, DeadLetter, OnError

__all__ = [
    "DEAD_LETTERS",
    "BucketAssigner",
    "BulkFormat",
    "DeadLetter",
    "Encoder",
    "FileCompactStrategy",
    "FileCompactor",
    "FileEnumeratorProvider",
    "FileFormat",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplit",
    "FileSplitAssignerProvider",
    "FormatReader",
    "OnError",
    "OutputFileConfig",
    "OutputFileConfigBuilder",
    "RollingPolicy",
    "StreamFormat",
    "StreamingFileSink",
]
