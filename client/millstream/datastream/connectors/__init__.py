"""Where records come from and go to, with PyFlink's names.

PyFlink has the sources and sinks of files and numbers here, too. They are loaded when a program uses one: workers
load this package for its base classes.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from millstream.datastream.connectors.base import DeliveryGuarantee, Sink, Source

if TYPE_CHECKING:
    from millstream.datastream.connectors.file_system import (
        BucketAssigner,
        FileEnumeratorProvider,
        FileSink,
        FileSource,
        FileSourceBuilder,
        FileSplitAssignerProvider,
        OutputFileConfig,
        RollingPolicy,
        StreamFormat,
        StreamingFileSink,
    )
    from millstream.datastream.connectors.number_seq import NumberSequenceSource
else:

    def __getattr__(name: str) -> object:
        if name == "NumberSequenceSource":
            return import_module(f"{__name__}.number_seq").NumberSequenceSource
        if name in __all__:
            return getattr(import_module(f"{__name__}.file_system"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "BucketAssigner",
    "DeliveryGuarantee",
    "FileEnumeratorProvider",
    "FileSink",
    "FileSource",
    "FileSourceBuilder",
    "FileSplitAssignerProvider",
    "NumberSequenceSource",
    "OutputFileConfig",
    "RollingPolicy",
    "Sink",
    "Source",
    "StreamFormat",
    "StreamingFileSink",
]
