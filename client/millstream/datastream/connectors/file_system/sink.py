"""The file sink: part files of text lines, JSON lines, CSV or Parquet in one directory.

A writer works on a hidden file, `.<prefix>-<subtask>-<number>.inprogress.<uuid>`, which gets its visible name when the
part is finished: when it is rolled, or at the end of the input. What a visible name shows is complete. A writer that is
closed without the end of its input removes its hidden file. A visible file is never overwritten.
"""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from typing import Any, BinaryIO

from millstream.core.batches import Batch
from millstream.core.clock import Clock, SystemClock
from millstream.core.conversion import arrow_schema
from millstream.core.errors import InvalidProgramError
from millstream.core.types import PICKLED, TypeInformation, from_hint
from millstream.datastream.connectors.base import Sink, SinkWriter
from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.connectors.file_system.parquet_part import ParquetPartFormat
from millstream.datastream.connectors.file_system.part_formats import (
    CsvPartFormat,
    Encoder,
    JsonLinesPartFormat,
    PartFormat,
    PartWriter,
    TextFormat,
)
from millstream.datastream.connectors.file_system.paths import PathLike, absolute
from millstream.datastream.connectors.file_system.rolling import OutputFileConfig, RollingPolicy
from millstream.datastream.functions import RuntimeContext

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES})


class FileSink(Sink):
    """Writes part files into a directory, which is made when it does not exist.

    The factory methods answer a sink that is ready to use; `with_...` answer a changed copy; `build()` is there for
    PyFlink's builder style and answers the sink itself.
    """

    def __init__(
        self,
        path: PathLike,
        part_format: PartFormat,
        config: OutputFileConfig,
        policy: RollingPolicy | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._directory = absolute(path)
        self._format = part_format
        self._config = config
        self._policy = policy or RollingPolicy.default_rolling_policy()
        self._clock = clock or SystemClock()

    @staticmethod
    def for_row_format(path: PathLike, encoder: Encoder | None = None) -> FileSink:
        """A line of text for each record."""
        return FileSink(path, TextFormat(encoder or Encoder.simple_string_encoder()), OutputFileConfig())

    @staticmethod
    def for_csv(path: PathLike, type_info: Any = PICKLED, *, header: bool = True, delimiter: str = ",") -> FileSink:
        """CSV; the columns are the fields of the declared type, else those of the first records."""
        if len(delimiter) != 1:
            raise InvalidProgramError(f"a CSV delimiter must be one character, got {delimiter!r}")
        part_format = CsvPartFormat(from_hint(type_info), header, delimiter)
        return FileSink(path, part_format, OutputFileConfig(part_suffix=".csv"))

    @staticmethod
    def for_json_lines(path: PathLike) -> FileSink:
        """A JSON value on a line for each record."""
        return FileSink(path, JsonLinesPartFormat(), OutputFileConfig(part_suffix=".jsonl"))

    @staticmethod
    def for_parquet(path: PathLike, schema: Any = None, *, compression: str = "snappy") -> FileSink:
        """Parquet; the schema is a pyarrow schema, a type (`Types....`, a dataclass), or that of the first records."""
        arrow, type_info = _parquet_schema(schema)
        part_format = ParquetPartFormat(arrow, type_info, compression)
        return FileSink(path, part_format, OutputFileConfig(part_suffix=".parquet"))

    def with_output_file_config(self, config: OutputFileConfig | str, suffix: str | None = None) -> FileSink:
        """With other names for part files: a configuration, or a prefix and a suffix."""
        if isinstance(config, str):
            config = OutputFileConfig(config, self._config.part_suffix if suffix is None else suffix)
        return FileSink(self._directory, self._format, config, self._policy, self._clock)

    def with_rolling_policy(self, policy: RollingPolicy) -> FileSink:
        """With other limits for part files."""
        return FileSink(self._directory, self._format, self._config, policy, self._clock)

    def with_clock(self, clock: Clock) -> FileSink:
        """With another clock for the rolling policy."""
        return FileSink(self._directory, self._format, self._config, self._policy, clock)

    def build(self) -> FileSink:
        """The sink itself."""
        return self

    def create_writer(self, context: RuntimeContext) -> SinkWriter:
        """Makes the directory."""
        try:
            os.makedirs(self._directory, exist_ok=True)
        except OSError as error:
            raise ConnectorError(f"file sink: cannot make the directory {self._directory}: {error.strerror}") from error
        subtask = context.get_index_of_this_subtask()
        return _FileWriter(self._directory, self._format, self._config, self._policy, subtask, self._clock)


def _parquet_schema(schema: Any) -> tuple[Any | None, TypeInformation]:
    if schema is None:
        return None, PICKLED
    type_info = from_hint(schema) if isinstance(schema, TypeInformation | type) else PICKLED
    if type_info != PICKLED:
        return arrow_schema(type_info), type_info
    if hasattr(schema, "names") and hasattr(schema, "field"):
        return schema, PICKLED
    raise InvalidProgramError(f"a Parquet schema must be a pyarrow schema or a type with fields, got {schema!r}")


class _Part:
    """The part file being written."""

    def __init__(self, path: str, number: int, part_format: PartFormat, now: float) -> None:
        self.path = path
        self.number = number
        self.opened = self.last_write = now
        self.stream: BinaryIO = open(path, "xb")  # noqa: SIM115  # closed by the writer
        self.writer: PartWriter = part_format.open(self.stream)


class _FileWriter(SinkWriter):
    def __init__(
        self,
        directory: str,
        part_format: PartFormat,
        config: OutputFileConfig,
        policy: RollingPolicy,
        subtask: int,
        clock: Clock,
    ) -> None:
        self._directory = directory
        self._format = part_format
        self._config = config
        self._policy = policy
        self._subtask = subtask
        self._clock = clock
        self._part: _Part | None = None
        taken = [config.part_number(name, subtask) for name in os.listdir(directory)]
        self._next_number = max((n for n in taken if n is not None), default=-1) + 1

    def write(self, batch: Batch) -> None:
        """Writes to the current part, and rolls it when the policy says so."""
        if not len(batch):
            return
        now = self._clock.monotonic()
        if self._part is not None and self._policy.is_over(self._part.opened, self._part.last_write, now):
            self._publish()
        part = self._part = self._part or self._open(now)
        with self._naming(part.path):
            part.writer.write(batch)
            part.last_write = now
            full = self._policy.is_full(part.stream.tell() + part.writer.held_bytes())
        if full:
            self._publish()

    def _open(self, now: float) -> _Part:
        number = self._next_number
        name = f".{self._config.part_prefix}-{self._subtask}-{number}.inprogress.{uuid.uuid4().hex}"
        path = os.path.join(self._directory, name)
        with self._naming(path):
            part = _Part(path, number, self._format, now)
        self._next_number += 1
        return part

    @contextlib.contextmanager
    def _naming(self, path: str) -> Any:
        try:
            yield
        except OSError as error:
            raise ConnectorError(f"file sink: {path}: {error.strerror or error}") from error

    def flush(self, end_of_input: bool) -> None:
        """At the end of the input, publishes the last part; else hands what is written to the operating system."""
        if self._part is None:
            return
        if end_of_input:
            self._publish()
        else:
            with self._naming(self._part.path):
                self._part.stream.flush()

    def _publish(self) -> None:
        """Finishes the current part and gives it its visible name."""
        part = self._part
        if part is None:
            return
        with self._naming(part.path):
            part.writer.finish()
            part.stream.flush()
            os.fsync(part.stream.fileno())
            part.stream.close()
            number = part.number
            while not _move(part.path, os.path.join(self._directory, self._config.part_name(self._subtask, number))):
                number = self._next_number
                self._next_number += 1
        self._part = None

    def close(self) -> None:
        """Removes the part that was not published."""
        part, self._part = self._part, None
        if part is None:
            return
        for release in (part.writer.abandon, part.stream.close, lambda: os.unlink(part.path)):
            with contextlib.suppress(OSError, ValueError):  # the file is thrown away: a full disk must not keep it
                release()


def _move(source: str, target: str) -> bool:
    """Renames without overwriting; false when the target exists."""
    try:
        os.link(source, target)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.exists(target):
            return False
        os.rename(source, target)
        return True
    os.unlink(source)
    return True
