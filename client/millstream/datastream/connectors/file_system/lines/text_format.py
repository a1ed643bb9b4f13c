"""Text files: a record for each line, without its end."""

from __future__ import annotations

import io
from typing import Any

from millstream.core.overriding import override
from millstream.core.records.batches import RowBatch
from millstream.core.records.type_variables import T_co
from millstream.core.records.types import STRING, TypeInformation
from millstream.datastream.connectors.errors import ConnectorError, MalformedInputError
from millstream.datastream.connectors.file_system.compression import DAMAGE, open_bytes
from millstream.datastream.connectors.file_system.lines.charsets import MARK, MARKER, checked_charset
from millstream.datastream.connectors.file_system.lines.line_format import LineFormatReader
from millstream.datastream.connectors.file_system.lines.lines import checked_length, cut_lines
from millstream.datastream.connectors.file_system.paths import FoundFile
from millstream.datastream.connectors.file_system.splits import WHOLE, FileFormat, FileSplit, FormatReader
from millstream.datastream.connectors.malformed import LONGEST_LINE, LONGEST_RAW, DeadLetter

_PIECE = 1 << 16


class StreamFormat(FileFormat[T_co]):
    """Reads a file record by record: `StreamFormat[str]` reads text. The name is PyFlink's."""

    @staticmethod
    def text_line_format(
        charset_name: str = "UTF-8", *, charset: str | None = None, max_line_length: int = LONGEST_LINE
    ) -> StreamFormat[str]:
        r"""Returns the format of text files, one record a line; `\n` and `\r\n` end lines.

        `charset_name`, or `charset` for short, is the character set. A line of more bytes than `max_line_length` cannot
        be read.
        """
        return TextLineFormat(charset or charset_name, max_line_length)


class TextLineFormat(StreamFormat[str]):
    """Lines in any character set; files whose line ends are single bytes are cut into splits."""

    def __init__(self, charset: str = "UTF-8", max_line_length: int = LONGEST_LINE) -> None:
        self._longest = checked_length(max_line_length)
        self._charset, self._is_cuttable = checked_charset(charset)

    def cut(self, file: FoundFile, block_size: int) -> list[FileSplit]:
        """Byte ranges where the character set allows it."""
        if self._is_cuttable:
            return cut_lines(file, block_size)
        return [FileSplit(file.path, 0, WHOLE)] if file.size else []

    def open(self, split: FileSplit) -> FormatReader:
        """By bytes where the character set allows it."""
        if self._is_cuttable:
            return _ByteLines(split, self._charset, self._longest)
        return _DecodedLines(split, self._charset, self._longest)

    @override
    def produced_type(self) -> TypeInformation[str]:
        return STRING


class _ByteLines(LineFormatReader):
    """Cuts before it decodes: a batch is decoded in one call."""

    def __init__(self, split: FileSplit, charset: str, longest: int) -> None:
        super().__init__(split, longest)
        self._charset = charset
        self.marked = charset == "utf-8"

    @override
    def decode(self, lines: list[bytes]) -> list[Any]:
        text = b"\n".join(lines).decode(self._charset)
        rows = text.split("\n")
        return [row.removesuffix("\r") for row in rows] if "\r" in text else rows

    def reason(self, error: Exception) -> str | None:
        """What is wrong with the bytes."""
        return f"not valid {self._charset}: {error.reason}" if isinstance(error, UnicodeDecodeError) else None


class _DecodedLines(FormatReader):
    """Decodes before it cuts: for character sets such as UTF-16. The position is the number of lines read.

    Offsets of malformed lines count the bytes of the text before them in UTF-8: the file's own are not known.
    """

    def __init__(self, split: FileSplit, charset: str, longest: int) -> None:
        self._path = split.path
        self._charset = charset
        self._longest = longest
        self._file = io.TextIOWrapper(open_bytes(split.path), charset, MARK, newline="\n")
        self._position = self._offset = 0
        self._malformed: list[DeadLetter] = []
        self._first_malformed: tuple[int, int] | None = None  # its offset and line
        resume_at = split.position or 0
        try:
            while self._position < resume_at and self._take(min(65536, resume_at - self._position)):
                pass
        except ConnectorError:
            self._file.close()
            raise
        self._malformed.clear()
        self._first_malformed = None

    def _take(self, count: int) -> list[str]:
        """At most `count` lines, with an empty text in the place of one that cannot be read; none at the end."""
        lines: list[str] = []
        try:
            while len(lines) < count and (line := self._file.readline(self._longest + 1)):
                lines.append(self._checked(line, len(lines)))
        except (UnicodeError, *DAMAGE) as error:
            if not lines:
                raise MalformedInputError(self._path, f"not valid {self._charset}: {error}", self._offset) from error
        self._position += len(lines)
        return lines

    def _checked(self, line: str, taken: int) -> str:
        begins = self._offset
        raw = line.encode("utf-8", "surrogatepass")
        self._offset += len(raw)
        reason = f"not valid {self._charset}" if MARKER in line else ""
        if len(line) > self._longest:
            length, more = len(line), line
            while not more.endswith("\n") and (more := self._file.readline(_PIECE)):
                length += len(more)
                self._offset += len(more.encode("utf-8", "surrogatepass"))
            reason = f"a line of {length} characters, and max_line_length is {self._longest}"
        if not reason:
            return line
        shown = raw.removesuffix(b"\n")[:LONGEST_RAW]
        self._malformed.append(DeadLetter(self._path, begins, shown, reason))
        self._first_malformed = self._first_malformed or (begins, self._position + taken + 1)
        return ""

    @override
    def read(self, max_rows: int) -> RowBatch | None:
        lines = self._take(max_rows)
        if not lines:
            return None
        return RowBatch([line.removesuffix("\n").removesuffix("\r") for line in lines if line])

    def malformed(self) -> list[DeadLetter]:
        """Lines that are too long or cannot be decoded."""
        found, self._malformed = self._malformed, []
        return found

    def line_of(self, malformed: DeadLetter) -> int | None:
        """Returns the line number of the first malformed line of the file; None for others."""
        offset, line = self._first_malformed or (-1, 0)
        return line if offset == malformed.offset else None

    def position(self) -> int:
        """Returns the position as a number of lines."""
        return self._position

    @override
    def close(self) -> None:
        self._file.close()
