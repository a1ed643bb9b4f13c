"""A part of a file, and the interface of the formats that cut and read them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic

from millstream.core.records.batches import Batch
from millstream.core.records.type_variables import T_co
from millstream.core.records.types import TypeInformation
from millstream.datastream.connectors.file_system.paths import FoundFile
from millstream.datastream.connectors.malformed import DeadLetter

WHOLE = -1


@dataclass(frozen=True, slots=True)
class FileSplit:
    """From `start` to before `end` of a file, in the format's own unit: bytes, or row groups.

    `end` is `WHOLE` when the end of the file is only known by reading. `position` is None before the first read, then
    where to continue: a byte offset or the number of rows already read, as the format defines.
    """

    path: str
    start: int
    end: int
    position: int | None = None

    @property
    def split_id(self) -> str:
        """The id of the split, which does not depend on the position."""
        return f"{self.path}:{self.start}"


class FormatReader(ABC):
    """Reads one split."""

    @abstractmethod
    def read(self, max_rows: int, /) -> Batch | None:
        """Returns the next batch of at most `max_rows` records, or None at the end of the split.

        The batch is empty when all that was read is malformed.
        """

    def malformed(self) -> list[DeadLetter]:
        """What the last `read` could not read and passed over; the position is behind it. Called once after each."""
        return []

    def line_of(self, malformed: DeadLetter, /) -> int | None:
        """Returns the number, from 1, of the line where `malformed` begins; None for a format without lines."""
        return None

    @abstractmethod
    def position(self) -> int:
        """Where a new reader has to proceed to neither lose nor repeat a record."""

    @abstractmethod
    def close(self) -> None:
        """Closes the file. May be called twice."""


class FileFormat(ABC, Generic[T_co]):
    """Cuts files into splits and reads them: `FileFormat[str]` reads text. It has to be picklable."""

    @abstractmethod
    def cut(self, file: FoundFile, block_size: int, /) -> list[FileSplit]:
        """Returns the splits of `file`, of about `block_size` bytes each; none for an empty file.

        It may read the file.
        """

    @abstractmethod
    def open(self, split: FileSplit, /) -> FormatReader:
        """Starts or resumes a split. Raises ConnectorError naming the file when it cannot.

        A MalformedInputError, here or while reading, means that the file exists and its content cannot be read.
        """

    def produces_columns(self) -> bool:
        """Returns whether its readers return Arrow batches."""
        return False

    @abstractmethod
    def produced_type(self) -> TypeInformation[T_co]:
        """Returns the type of the records."""
