"""How a file sink writes row formats: text lines, JSON lines and CSV. Each batch is written in one call."""

from __future__ import annotations

import codecs
import io
from abc import ABC, abstractmethod
from typing import Any, BinaryIO

import msgspec

from millstream.common.serialization import Encoder
from millstream.core.batches import Batch, RowBatch
from millstream.core.conversion import VALUE_COLUMN, record_batch_to_rows, rows_to_record_batch
from millstream.core.row import Row
from millstream.core.types import PICKLED, TypeInformation
from millstream.datastream.connectors.errors import ConnectorError


class PartWriter(ABC):
    """Writes one part file into a stream that the sink opens and closes."""

    @abstractmethod
    def write(self, batch: Batch) -> None:
        """Writes or holds a batch."""

    def held_bytes(self) -> int:
        """About how much is held in memory."""
        return 0

    def state(self) -> Any:
        """What `PartFormat.open` needs to go on behind what is written so far, picklable."""
        return None

    def finish(self) -> None:  # noqa: B027  # a hook
        """Writes what is held and what ends the file."""

    def abandon(self) -> None:  # noqa: B027  # a hook
        """Releases what is held when the file will be removed; called while the stream is open, also after `finish`."""


class PartFormat(ABC):
    """Makes writers. Picklable."""

    resumable = True
    """Whether a part can be gone on with from what was written of it: else it ends with every checkpoint."""

    @abstractmethod
    def open(self, stream: BinaryIO, state: Any = None) -> PartWriter:
        """A writer for a new part file, or with a state for one that holds what was written up to there."""


def _as_rows(batch: Batch) -> list[Any]:
    if isinstance(batch, RowBatch):
        return batch.rows
    return record_batch_to_rows(batch.data, PICKLED)


def records_of(batch: Batch) -> list[Any]:
    """The records; of a batch with the single column `value`, those are the values."""
    rows = _as_rows(batch)
    if not isinstance(batch, RowBatch) and batch.data.schema.names == [VALUE_COLUMN]:
        return [row[0] for row in rows]
    return rows


class TextFormat(PartFormat):
    """A line for each record."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def open(self, stream: BinaryIO, state: Any = None) -> PartWriter:
        """Writes lines."""
        return _TextWriter(stream, self._encoder, state)


class _TextWriter(PartWriter):
    def __init__(self, stream: BinaryIO, encoder: Encoder, state: Any) -> None:
        self._stream = stream
        self._encoder = encoder
        self._incremental = codecs.getincrementalencoder(encoder.charset)()
        if state is not None:
            self._incremental.setstate(state)

    def state(self) -> Any:
        """Whether a byte order mark is written."""
        return self._incremental.getstate()

    def write(self, batch: Batch) -> None:
        """Lines."""
        try:
            self._stream.write(self._encoder.lines(records_of(batch), self._incremental.encode))
        except UnicodeEncodeError as error:
            charset = self._encoder.charset
            raise ConnectorError(f"file sink: {error.object!r:.200} cannot be written as {charset}") from error


class JsonLinesPartFormat(PartFormat):
    """A JSON value for each record: rows and dataclasses as objects, tuples and rows without names as arrays."""

    def open(self, stream: BinaryIO, state: Any = None) -> PartWriter:
        """Writes JSON."""
        return _JsonWriter(stream)


class _JsonWriter(PartWriter):
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._encoder = msgspec.json.Encoder(enc_hook=_json_value)

    def write(self, batch: Batch) -> None:
        """Lines of JSON."""
        rows = _as_rows(batch)
        try:
            self._stream.write(self._encoder.encode_lines(rows))
        except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
            raise ConnectorError(f"file sink: {_first_unwritable(self._encoder, rows)!r:.200}: {error}") from error


def _json_value(value: Any) -> Any:
    if isinstance(value, Row):
        return list(value.values) if value.get_fields_names() is None else value.as_dict()
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        return value.item()
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__qualname__} cannot be written as JSON; map it to plain values first")


def _first_unwritable(encoder: msgspec.json.Encoder, rows: list[Any]) -> Any:
    for row in rows:
        try:
            encoder.encode(row)
        except (TypeError, ValueError, OverflowError, msgspec.MsgspecError):
            return row
    return None


class CsvPartFormat(PartFormat):
    """Columns by the records' fields, with an optional header line in each part file."""

    def __init__(self, type: TypeInformation, header: bool, delimiter: str) -> None:
        self._type = type
        self._header = header
        self._delimiter = delimiter

    def open(self, stream: BinaryIO, state: Any = None) -> PartWriter:
        """Writes CSV."""
        return _CsvWriter(stream, self._type, self._header, self._delimiter, state)


class _CsvWriter(PartWriter):
    def __init__(
        self, stream: BinaryIO, type: TypeInformation, header: bool, delimiter: str, names: list[str] | None
    ) -> None:
        self._stream = stream
        self._type = type
        self._header = header
        self._delimiter = delimiter
        self._names = names

    def state(self) -> Any:
        """The columns, once the header is written."""
        return self._names

    def write(self, batch: Batch) -> None:
        """Lines of CSV; each batch must have the columns of the first."""
        import pyarrow as pa
        from pyarrow import csv

        if not len(batch):
            return
        data = rows_to_record_batch(batch.rows, self._type) if isinstance(batch, RowBatch) else batch.data
        names = data.schema.names
        if self._names is None:
            self._names = names
            if self._header:
                self._stream.write(self._delimiter.join(map(self._quoted, names)).encode() + b"\n")
        elif names != self._names:
            if set(names) != set(self._names):
                raise ConnectorError(
                    f"file sink: the CSV file has the columns {', '.join(self._names)}, but a batch has "
                    f"{', '.join(names)}; declare type_info=... or make all records alike"
                )
            data = data.select(self._names)
        block = io.BytesIO()
        try:
            csv.write_csv(data, block, csv.WriteOptions(include_header=False, delimiter=self._delimiter))
        except pa.ArrowException as error:
            raise ConnectorError(f"file sink: cannot write as CSV: {' '.join(str(error).split())}") from error
        self._stream.write(block.getbuffer())

    def _quoted(self, name: str) -> str:
        if any(character in name for character in (self._delimiter, '"', "\n", "\r")):
            return '"' + name.replace('"', '""') + '"'
        return name
