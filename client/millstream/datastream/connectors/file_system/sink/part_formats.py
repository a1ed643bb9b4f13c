"""How a file sink writes part files, and its plainest format, lines of text. Each batch is written in one call."""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from typing import Any, BinaryIO

from millstream.common.serialization import Encoder
from millstream.core.overriding import override
from millstream.core.records.batches import Batch, lines_of
from millstream.core.records.types import TypeInformation
from millstream.datastream.connectors.errors import ConnectorError


class PartWriter(ABC):
    """Writes one part file into a stream that the sink opens and closes."""

    @abstractmethod
    def write(self, batch: Batch, /) -> None:
        """Writes or holds a batch."""

    def held_bytes(self) -> int:
        """About how much is held in memory."""
        return 0

    def state(self) -> Any:
        """What `PartFormat.open` needs to continue behind what is written so far, picklable."""
        return None

    def finish(self) -> None:  # noqa: B027  # a hook
        """Writes what is held and what ends the file."""

    def abandon(self) -> None:  # noqa: B027  # a hook
        """Releases what is held when the file will be removed; called while the stream is open, also after `finish`."""


class PartFormat(ABC):
    """Makes writers. Picklable."""

    resumable = True
    """Whether a part can be continued with from what was written of it: else it ends with every checkpoint."""

    @property
    def joinable(self) -> bool:
        """Whether one file behind another is a file with the records of both."""
        return False

    def for_type(self, record_type: TypeInformation, /) -> PartFormat:
        """The format for records of this type."""
        return self

    @abstractmethod
    def open(self, stream: BinaryIO, state: Any = None, /) -> PartWriter:
        """A writer for a new part file, or with a state for one that holds what was written up to there."""


class TextFormat(PartFormat):
    """A line for each record."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    @property
    def joinable(self) -> bool:
        """Unless each file begins with a byte order mark."""
        return "".encode(self._encoder.charset) == b""

    def for_type(self, record_type: TypeInformation) -> TextFormat:
        """With an encoder that knows the type."""
        return TextFormat(self._encoder.for_type(record_type))

    @override
    def open(self, stream: BinaryIO, state: Any = None) -> PartWriter:
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

    @override
    def write(self, batch: Batch) -> None:
        try:
            self._stream.write(self._encoder.lines(lines_of(batch), self._incremental.encode))
        except UnicodeEncodeError as error:
            charset = self._encoder.charset
            raise ConnectorError(f"file sink: {error.object!r:.200} cannot be written as {charset}") from error
