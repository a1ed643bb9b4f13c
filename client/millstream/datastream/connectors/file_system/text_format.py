"""Text files: a record for each line, without its end."""

from __future__ import annotations

import codecs
import io
from itertools import islice

from millstream.core.batches import RowBatch
from millstream.core.errors import InvalidProgramError
from millstream.core.types import STRING, TypeInformation
from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.connectors.file_system.lines import LineReader, cut_lines, open_bytes
from millstream.datastream.connectors.file_system.paths import FoundFile
from millstream.datastream.connectors.file_system.splits import WHOLE, FileFormat, FileSplit, FormatReader


class StreamFormat(FileFormat):
    """PyFlink's name for the formats that read a file record by record."""

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8", *, charset: str | None = None) -> StreamFormat:
        r"""Lines of text; `\n` and `\r\n` end them."""
        return TextLineFormat(charset or charset_name)


class TextLineFormat(StreamFormat):
    """Lines in any character set; files whose line ends are single bytes are cut into splits."""

    def __init__(self, charset: str = "UTF-8") -> None:
        try:
            self._charset = codecs.lookup(charset).name
            self._is_cuttable = "\r\n".encode(self._charset) == b"\r\n"
        except (LookupError, TypeError, UnicodeError):
            raise InvalidProgramError(f"unknown character set '{charset}'; write it like 'UTF-8'") from None

    def cut(self, file: FoundFile, block_size: int) -> list[FileSplit]:
        """Byte ranges where the character set allows it."""
        if self._is_cuttable:
            return cut_lines(file, block_size)
        return [FileSplit(file.path, 0, WHOLE)] if file.size else []

    def open(self, split: FileSplit) -> FormatReader:
        """By bytes where the character set allows it."""
        if self._is_cuttable:
            return _ByteLines(split, self._charset)
        return _DecodedLines(split, self._charset)

    def produced_type(self) -> TypeInformation:
        """Text."""
        return STRING


class _ByteLines(FormatReader):
    """Cuts before it decodes: a batch is decoded in one call."""

    def __init__(self, split: FileSplit, charset: str) -> None:
        self._lines = LineReader(split)
        self._charset = charset

    def read(self, max_rows: int) -> RowBatch | None:
        """The next lines."""
        before = self._lines.position()
        lines = self._lines.take(max_rows)
        if not lines:
            return None
        try:
            text = b"\n".join(lines).decode(self._charset)
        except UnicodeDecodeError as error:
            number = self._lines.line_number(before + error.start)
            raise ConnectorError(
                f"file source: {self._lines.path}, line {number}: not valid {self._charset}: {error.reason}"
            ) from error
        rows = text.split("\n")
        return RowBatch([row.removesuffix("\r") for row in rows] if "\r" in text else rows)

    def position(self) -> int:
        """A byte offset."""
        return self._lines.position()

    def close(self) -> None:
        """Closes the file."""
        self._lines.close()


class _DecodedLines(FormatReader):
    """Decodes before it cuts: for character sets such as UTF-16. The position is the number of lines read."""

    def __init__(self, split: FileSplit, charset: str) -> None:
        self._path = split.path
        self._charset = charset
        self._file = io.TextIOWrapper(open_bytes(split.path), charset, newline="\n")
        self._position = 0
        resume_at = split.position or 0
        try:
            while self._position < resume_at and self._take(min(65536, resume_at - self._position)):
                pass
        except ConnectorError:
            self._file.close()
            raise

    def _take(self, count: int) -> list[str]:
        lines: list[str] = []
        try:
            lines.extend(islice(self._file, count))
        except (UnicodeError, OSError, EOFError) as error:
            number = self._position + len(lines) + 1
            raise ConnectorError(
                f"file source: {self._path}, line {number}: not valid {self._charset}: {error}"
            ) from error
        self._position += len(lines)
        return lines

    def read(self, max_rows: int) -> RowBatch | None:
        """The next lines."""
        lines = self._take(max_rows)
        return RowBatch([line.removesuffix("\n").removesuffix("\r") for line in lines]) if lines else None

    def position(self) -> int:
        """A number of lines."""
        return self._position

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
