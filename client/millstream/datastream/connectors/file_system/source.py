"""The file source, over any file format: bounded, or looking for new files forever."""

from __future__ import annotations

import contextlib
import copy
import sys
from collections.abc import Sequence
from typing import Any, TypeVar, overload

from millstream.common.time import Interval, plain_milliseconds
from millstream.core.errors import InvalidProgramError
from millstream.core.overriding import override
from millstream.core.records.batches import Batch
from millstream.core.records.type_variables import T_co
from millstream.core.records.types import PICKLED, AnyType, TypeInformation
from millstream.datastream.connectors.base import (
    Boundedness,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from millstream.datastream.connectors.errors import ConnectorError, MalformedInputError
from millstream.datastream.connectors.file_system.bulk_format import BulkFormat
from millstream.datastream.connectors.file_system.csv.format import CsvFormat
from millstream.datastream.connectors.file_system.enumerating import FileEnumeratorProvider, FileSplitAssignerProvider
from millstream.datastream.connectors.file_system.lines.json_format import JsonLinesFormat
from millstream.datastream.connectors.file_system.lines.text_format import StreamFormat
from millstream.datastream.connectors.file_system.listing import ListingEnumerator
from millstream.datastream.connectors.file_system.monitoring import MonitoringEnumerator, MonitoringState
from millstream.datastream.connectors.file_system.parquet.format import ParquetFormat
from millstream.datastream.connectors.file_system.paths import FoundFile, PathLike, absolute, find_files
from millstream.datastream.connectors.file_system.splits import WHOLE, FileFormat, FileSplit, FormatReader
from millstream.datastream.connectors.malformed import (
    LONGEST_LINE,
    DeadLetter,
    ErrorHandling,
    MalformedCount,
    MalformedRecords,
    OnError,
)
from millstream.datastream.connectors.split_queue import OneSplitReader
from millstream.datastream.functions import OutputTag

RECORD = TypeVar("RECORD")

DEFAULT_BLOCK_SIZE = 64 * 1024 * 1024


class FileSource(Source[FileSplit, T_co]):
    """Reads files, directories (with their subdirectories; names that start with `.` or `_` are passed over) and globs.

    The factory methods return a source that is ready to use; `build()` is there for PyFlink's builder style and returns
    the source itself. Files are listed when the job starts, and again and again with `monitor_continuously`; later
    changes to a file are not noticed.
    """

    def __init__(
        self,
        file_format: FileFormat[T_co],
        *paths: PathLike,
        block_size: int = DEFAULT_BLOCK_SIZE,
        on_error: OnError | OutputTag | str = OnError.FAIL,
    ) -> None:
        if not paths:
            raise InvalidProgramError("a file source needs at least one path")
        self._format = file_format
        self._paths = [absolute(path) for path in paths]
        self._block_size = _checked_block_size(block_size)
        self._handling = ErrorHandling.of(on_error)
        self._interval: float | None = None

    @staticmethod
    def for_record_stream_format(
        stream_format: StreamFormat[RECORD], *paths: PathLike, on_error: OnError | OutputTag | str = OnError.FAIL
    ) -> FileSource[RECORD]:
        """Returns a source that reads files record by record, with a format such as `StreamFormat.text_line_format()`.

        `stream_format` is the format. `paths` are files, directories and globs. `on_error` is as in `for_json_lines`.

            source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "in")
        """
        return FileSource(stream_format, *paths, on_error=on_error)

    @overload
    @staticmethod
    def for_csv(
        *paths: PathLike,
        columns: Sequence[str] | None = None,
        types: TypeInformation[RECORD] | type[RECORD],
        header: bool = True,
        delimiter: str = ",",
        quote: str | None = '"',
        null_values: Sequence[str] | None = None,
        charset: str = "UTF-8",
        max_line_length: int = LONGEST_LINE,
        on_error: OnError | OutputTag | str = OnError.FAIL,
    ) -> FileSource[RECORD]: ...

    @overload
    @staticmethod
    def for_csv(
        *paths: PathLike,
        columns: Sequence[str] | None = None,
        types: AnyType,
        header: bool = True,
        delimiter: str = ",",
        quote: str | None = '"',
        null_values: Sequence[str] | None = None,
        charset: str = "UTF-8",
        max_line_length: int = LONGEST_LINE,
        on_error: OnError | OutputTag | str = OnError.FAIL,
    ) -> FileSource[object]: ...

    @overload
    @staticmethod
    def for_csv(
        *paths: PathLike,
        columns: Sequence[str] | None = None,
        types: object = None,
        header: bool = True,
        delimiter: str = ",",
        quote: str | None = '"',
        null_values: Sequence[str] | None = None,
        charset: str = "UTF-8",
        max_line_length: int = LONGEST_LINE,
        on_error: OnError | OutputTag | str = OnError.FAIL,
    ) -> FileSource[Any]: ...

    @staticmethod
    def for_csv(
        *paths: PathLike,
        columns: Sequence[str] | None = None,
        types: Any = None,
        header: bool = True,
        delimiter: str = ",",
        quote: str | None = '"',
        null_values: Sequence[str] | None = None,
        charset: str = "UTF-8",
        max_line_length: int = LONGEST_LINE,
        on_error: OnError | OutputTag | str = OnError.FAIL,
    ) -> FileSource[Any]:
        """Returns a source that reads CSV files as batches of columns.

        `paths` are files, directories and globs. With a `header`, `columns` selects columns; without one, it names all
        of them (f0, f1, ... when it is not given). `types` maps columns to types, or is a row, tuple or dataclass type
        with the columns, in their order, as its fields. `delimiter` separates columns, `quote` encloses text, and
        `charset` is the character set. A value that is one of `null_values` and not quoted is None; by default an empty
        one, unless it is in a `str` field of a dataclass. `max_line_length` and `on_error` are as in `for_json_lines`.

            source = FileSource.for_csv("orders.csv", types=Order)
        """
        csv = CsvFormat(columns, types, header, delimiter, quote, null_values, charset, max_line_length=max_line_length)
        return FileSource(csv, *paths, on_error=on_error)

    @overload
    @staticmethod
    def for_json_lines(
        *paths: PathLike,
        type_info: TypeInformation[RECORD] | type[RECORD],
        max_line_length: int = LONGEST_LINE,
        on_error: OnError | OutputTag | str = OnError.FAIL,
    ) -> FileSource[RECORD]: ...

    @overload
    @staticmethod
    def for_json_lines(
        *paths: PathLike,
        type_info: AnyType,
        max_line_length: int = LONGEST_LINE,
        on_error: OnError | OutputTag | str = OnError.FAIL,
    ) -> FileSource[object]: ...

    @overload
    @staticmethod
    def for_json_lines(
        *paths: PathLike,
        type_info: object = PICKLED,
        max_line_length: int = LONGEST_LINE,
        on_error: OnError | OutputTag | str = OnError.FAIL,
    ) -> FileSource[Any]: ...

    @staticmethod
    def for_json_lines(
        *paths: PathLike,
        type_info: Any = PICKLED,
        max_line_length: int = LONGEST_LINE,
        on_error: OnError | OutputTag | str = OnError.FAIL,
    ) -> FileSource[Any]:
        """Returns a source that reads JSON lines: dicts and lists, or records of a declared type.

        `paths` are files, directories and globs. `type_info` is the type of the records: a dataclass, a type hint or
        `Types....`. A line of more bytes than `max_line_length` is malformed. `on_error` decides what happens to
        malformed records: `fail`, `skip`, `dead-letter` or the OutputTag of a side output.

            FileSource.for_json_lines("events/*.jsonl", type_info=Event, on_error="dead-letter")
        """
        return FileSource(JsonLinesFormat(type_info, max_line_length), *paths, on_error=on_error)

    @overload
    @staticmethod
    def for_parquet(
        *paths: PathLike,
        columns: Sequence[str] | None = None,
        type_info: TypeInformation[RECORD] | type[RECORD],
        on_error: OnError | OutputTag | str = OnError.FAIL,
    ) -> FileSource[RECORD]: ...

    @overload
    @staticmethod
    def for_parquet(
        *paths: PathLike,
        columns: Sequence[str] | None = None,
        type_info: AnyType,
        on_error: OnError | OutputTag | str = OnError.FAIL,
    ) -> FileSource[object]: ...

    @overload
    @staticmethod
    def for_parquet(
        *paths: PathLike,
        columns: Sequence[str] | None = None,
        type_info: object = PICKLED,
        on_error: OnError | OutputTag | str = OnError.FAIL,
    ) -> FileSource[Any]: ...

    @staticmethod
    def for_parquet(
        *paths: PathLike,
        columns: Sequence[str] | None = None,
        type_info: Any = PICKLED,
        on_error: OnError | OutputTag | str = OnError.FAIL,
    ) -> FileSource[Any]:
        """Returns a source that reads Parquet files as batches of columns.

        `paths` are files, directories and globs. `columns` selects columns; without it, all are read. `type_info` is
        the type of the records, and `on_error` as in `for_json_lines`.

            source = FileSource.for_parquet("s3://bucket/orders", columns=["id", "price"])
        """
        return FileSource(ParquetFormat(columns, type_info), *paths, on_error=on_error)

    @staticmethod
    def for_bulk_file_format(
        bulk_format: BulkFormat[RECORD], *paths: PathLike, on_error: OnError | OutputTag | str = OnError.FAIL
    ) -> FileSource[RECORD]:
        """Returns a source that reads files with a bulk format, such as `ParquetColumnarRowInputFormat`.

        `bulk_format` is the format. `paths` are files, directories and globs. `on_error` is as in `for_json_lines`.

            source = FileSource.for_bulk_file_format(AvroInputFormat(schema), "in")
        """
        return FileSource(bulk_format, *paths, on_error=on_error)

    def with_block_size(self, block_size: int) -> FileSource[T_co]:
        """Returns a source that cuts files into splits of about `block_size` bytes, where the format can be cut.

        For example:

            source = source.with_block_size(16 << 20)
        """
        return self._with(_block_size=_checked_block_size(block_size))

    def monitor_continuously(self, discovery_interval: Interval) -> FileSource[T_co]:
        """Returns an unbounded source that lists its paths every `discovery_interval` and reads each new file once.

        The interval is in milliseconds, or a duration above 0.

            source = FileSource.for_csv("orders", types=Order).monitor_continuously(Duration.of_seconds(10))
        """
        return self._with(_interval=_checked_interval(discovery_interval))

    def process_static_file_set(self) -> FileSource[T_co]:
        """Returns a source that reads the files that exist when the job starts, and ends: the default.

        For example:

            source = source.process_static_file_set()
        """
        return self._with(_interval=None)

    def set_file_enumerator(self, file_enumerator: FileEnumeratorProvider) -> FileSource[T_co]:
        """Returns a source that cuts files into splits, or reads each in one piece, as `file_enumerator` defines.

        For example:

            source = source.set_file_enumerator(FileEnumeratorProvider.default_non_splittable_file_enumerator())
        """
        return self._with(_block_size=DEFAULT_BLOCK_SIZE if file_enumerator.splits_files else sys.maxsize)

    def set_split_assigner(self, split_assigner: FileSplitAssignerProvider) -> FileSource[T_co]:
        """Returns this source, for any `split_assigner`: all task managers see the same paths.

        Raises `InvalidProgramError` unless it is a FileSplitAssignerProvider.

        For example:

            source = source.set_split_assigner(FileSplitAssignerProvider.locality_aware_split_assigner())
        """
        if not isinstance(split_assigner, FileSplitAssignerProvider):
            raise InvalidProgramError(f"expected a FileSplitAssignerProvider, got {split_assigner!r}")
        return self

    def _with(self, **changed: Any) -> FileSource[T_co]:
        other = copy.copy(self)
        vars(other).update(changed)
        return other

    def build(self) -> FileSource[T_co]:
        """Returns the source itself.

        For example:

            source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "in").build()
        """
        return self

    def get_boundedness(self) -> Boundedness:
        """It ends, unless it looks for new files."""
        return Boundedness.BOUNDED if self._interval is None else Boundedness.CONTINUOUS_UNBOUNDED

    def _discover(self) -> list[FileSplit]:
        return [split for file in find_files(self._paths) for split in self._cut(file)]

    def _list(self) -> list[FoundFile]:
        return find_files(self._paths, may_be_none=True)

    def _cut(self, file: FoundFile) -> list[FileSplit]:
        try:
            return self._format.cut(file, self._block_size)
        except MalformedInputError:
            if self._handling.on_error is OnError.FAIL:
                raise
            return [FileSplit(file.path, 0, WHOLE)]  # its reader will meet the same, and count it

    @override
    def create_enumerator(self, context: SplitEnumeratorContext[FileSplit]) -> SplitEnumerator[FileSplit]:
        if self._interval is None:
            return ListingEnumerator(context, tuple(self._paths), self._discover)
        return MonitoringEnumerator(context, self._list, self._cut, self._interval)

    @override
    def restore_enumerator(self, context: SplitEnumeratorContext[FileSplit], state: Any) -> SplitEnumerator[FileSplit]:
        if state is None:
            return self.create_enumerator(context)
        if self._interval is None:
            return ListingEnumerator(context, tuple(self._paths), self._discover, state)
        if not isinstance(state, MonitoringState):
            raise ConnectorError(
                "file source: the snapshot is of a source that did not monitor its files, so it does not record "
                "which of them were read; start without it, or without monitor_continuously"
            )
        return MonitoringEnumerator(context, self._list, self._cut, self._interval, state)

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader[FileSplit]:
        return _FileReader(context, self._format, self._handling)

    def side_outputs(self) -> tuple[OutputTag, ...]:
        """Dead letters, with `on_error='dead-letter'`."""
        return self._handling.side_outputs

    @override
    def produces_columns(self) -> bool:
        return self._format.produces_columns()

    def keeps_records(self) -> bool:
        """Every record is made again."""
        return False

    @override
    def get_produced_type(self) -> TypeInformation[T_co]:
        return self._format.produced_type()


FileSourceBuilder = FileSource
"""PyFlink's name for the result of the factory methods."""


def _checked_block_size(block_size: int) -> int:
    if block_size < 1:
        raise InvalidProgramError(f"a file source's block size must be at least 1 byte, got {block_size}")
    return block_size


def _checked_interval(interval: Interval) -> float:
    milliseconds = plain_milliseconds(interval)
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float) or milliseconds <= 0:
        raise InvalidProgramError(
            f"monitor_continuously: an interval is a duration, or milliseconds, above 0; got {interval!r}"
        )
    return milliseconds / 1000


class _FileReader(OneSplitReader[FileSplit]):
    """Its state is its splits, and how many malformed records it has met."""

    def __init__(self, context: SourceReaderContext, file_format: FileFormat, handling: ErrorHandling) -> None:
        super().__init__(context)
        self._format = file_format
        self._split = FileSplit("", 0, 0)
        self._reader: FormatReader | None = None
        self._malformed = MalformedRecords(handling, context, self._place)

    @override
    def open_split(self, split: FileSplit) -> None:
        try:
            self._reader = self._format.open(split)
        except MalformedInputError as error:
            self._give_up(error)
        self._split = split

    def read(self, max_rows: int) -> Batch | None:
        """The format's next batch; what it cannot read is handled before."""
        if self._reader is None:
            return None
        try:
            batch = self._reader.read(max_rows)
        except MalformedInputError as error:
            self._malformed.handle(self._reader.malformed())
            self._give_up(error)
            return None
        self._malformed.handle(self._reader.malformed())
        return batch

    def _give_up(self, error: MalformedInputError) -> None:
        """What is left of a file is one malformed record."""
        if self._malformed.fails:
            raise error
        self._malformed.handle([DeadLetter(error.path, error.offset, error.raw, error.reason)])

    def _place(self, letter: DeadLetter) -> str:
        line = None
        if self._reader is not None:
            with contextlib.suppress(OSError, EOFError, ConnectorError):  # it is damaged, or gone
                line = self._reader.line_of(letter)
        return f"file source: {letter.source}" + ("" if line is None else f", line {line}")

    def current_split(self) -> FileSplit:
        """The split at the reader's position."""
        split = self._split
        position = self._reader.position() if self._reader else split.position
        return FileSplit(split.path, split.start, split.end, position)

    @override
    def close_split(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def add_splits(self, splits: list[Any]) -> None:
        """Queues them; a count goes to the count."""
        self._malformed.restore([split for split in splits if isinstance(split, MalformedCount)])
        files = [split for split in splits if not isinstance(split, MalformedCount)]
        if files:
            super().add_splits(files)

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """The splits with their positions, and the count."""
        return [*super().snapshot_state(checkpoint_id), *self._malformed.state()]

    @override
    def close(self) -> None:
        super().close()
        self._malformed.close()
