"""What formats have in common that cut a file at its line ends and make records of lines."""

from __future__ import annotations

import codecs
from abc import abstractmethod
from typing import Any

from millstream.core.overriding import override
from millstream.core.records.batches import RowBatch
from millstream.datastream.connectors.file_system.lines.lines import LineReader
from millstream.datastream.connectors.file_system.splits import FileSplit, FormatReader
from millstream.datastream.connectors.malformed import DeadLetter


class LineFormatReader(FormatReader):
    """Reads lines as bytes; a subclass makes the records of many at once, and of one when many cannot be read.

    The position is a byte offset.
    """

    marked = True
    """Whether a UTF-8 byte order mark at the beginning of a file is none of its text."""

    def __init__(self, split: FileSplit, longest: int) -> None:
        self._lines = LineReader(split, longest=longest)
        self._malformed: list[DeadLetter] = []

    @abstractmethod
    def decode(self, lines: list[bytes]) -> list[Any]:
        """The records of all lines. Raises an error, which `reason` explains, if one cannot be read."""

    @abstractmethod
    def reason(self, error: Exception) -> str | None:
        """Why a line cannot be read; None for an error that has nothing to do with it."""

    def read(self, max_rows: int) -> RowBatch | None:
        """The records of the next lines."""
        offset = self._lines.position()
        lines = self._lines.take(max_rows)
        if not lines:
            too_long = self._lines.take_too_long()
            if too_long is None:
                return None
            self._malformed.append(too_long)
            return RowBatch([])
        if offset == 0 and self.marked and lines[0].startswith(codecs.BOM_UTF8):
            lines[0] = lines[0].removeprefix(codecs.BOM_UTF8)
            offset = len(codecs.BOM_UTF8)
        try:
            return RowBatch(self.decode(lines))
        except Exception as error:
            if self.reason(error) is None:
                raise
        return RowBatch(self._one_by_one(lines, offset))

    def _one_by_one(self, lines: list[bytes], offset: int) -> list[Any]:
        rows: list[Any] = []
        for line in lines:
            try:
                rows += self.decode([line])
            except Exception as error:
                reason = self.reason(error)
                if reason is None:
                    raise
                self._malformed.append(DeadLetter(self._lines.path, offset, line, reason))
            offset += len(line) + 1
        return rows

    def malformed(self) -> list[DeadLetter]:
        """Lines that are too long or cannot be decoded."""
        found, self._malformed = self._malformed, []
        return found

    def line_of(self, malformed: DeadLetter) -> int | None:
        """By counting the lines before it."""
        return self._lines.line_number(malformed.offset)

    def position(self) -> int:
        """A byte offset."""
        return self._lines.position()

    @override
    def close(self) -> None:
        self._lines.close()
