"""What every program needs, with PyFlink's names: types, rows, configuration, and what a job answers.

`JobClient` and what it answers belong to how jobs are executed (`millstream.datastream.execution.executor`), which lies
above this package; they are looked up by name when first asked for.
"""

from __future__ import annotations

import importlib
from typing import Any

from millstream.common.configuration import Configuration
from millstream.common.execution_config import ExecutionConfig
from millstream.common.restart_strategy import RestartStrategies
from millstream.common.serialization import (
    BulkWriter,
    BulkWriterFactory,
    ByteArraySchema,
    DeserializationSchema,
    Encoder,
    RowFieldExtractorSchema,
    SerializationSchema,
    SimpleStringSchema,
)
from millstream.common.serializer import TypeSerializer
from millstream.common.time import Duration, Time
from millstream.common.typeinfo import TypeInformation, Types
from millstream.common.watermark_strategy import (
    TimestampAssigner,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarkStrategy,
)
from millstream.core.errors import (
    ConfigurationError,
    InvalidProgramError,
    JobExecutionError,
    MillstreamError,
)
from millstream.core.jobs.states import JobStatus
from millstream.core.records.batches import Watermark
from millstream.core.row import Row, RowKind

__all__ = [
    "BulkWriter",
    "BulkWriterFactory",
    "ByteArraySchema",
    "Configuration",
    "ConfigurationError",
    "DeserializationSchema",
    "Duration",
    "Encoder",
    "ExecutionConfig",
    "InvalidProgramError",
    "JobClient",
    "JobExecutionError",
    "JobExecutionResult",
    "JobStatus",
    "MillstreamError",
    "RestartStrategies",
    "Row",
    "RowFieldExtractorSchema",
    "RowKind",
    "SavepointError",
    "SavepointFormatType",
    "SerializationSchema",
    "SimpleStringSchema",
    "Time",
    "TimestampAssigner",
    "TypeInformation",
    "TypeSerializer",
    "Types",
    "Watermark",
    "WatermarkGenerator",
    "WatermarkOutput",
    "WatermarkStrategy",
]

_EXECUTION = ("JobClient", "JobExecutionResult", "SavepointError", "SavepointFormatType")


def __getattr__(name: str) -> Any:
    if name in _EXECUTION:
        return getattr(importlib.import_module("millstream.datastream.execution.executor"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
