r"""Lines of a part of a file, with exact ownership and positions.

A line belongs to the split that holds its first byte. It ends at `\n` or at the end of the file. Lines are read a chunk
of the file at a time; memory is bounded by the chunk and the longest line.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from typing import BinaryIO, cast

from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.connectors.file_system.paths import FoundFile
from millstream.datastream.connectors.file_system.splits import WHOLE, FileSplit

CHUNK = 1 << 20
_BEYOND_THE_END = 1 << 16


def is_compressed(path: str) -> bool:
    """Whether the file is read through gzip, by its name."""
    return path.endswith((".gz", ".gzip"))


def open_bytes(path: str) -> BinaryIO:
    """The file's uncompressed bytes."""
    try:
        return cast(BinaryIO, gzip.open(path, "rb")) if is_compressed(path) else open(path, "rb")
    except OSError as error:
        raise ConnectorError(f"file source: {path}: {error.strerror or error}") from error


def cut_lines(file: FoundFile, block_size: int) -> list[FileSplit]:
    """Byte ranges of the block size; one split when the file is compressed."""
    if file.size == 0:
        return []
    if is_compressed(file.path):
        return [FileSplit(file.path, 0, WHOLE)]
    return [FileSplit(file.path, at, min(at + block_size, file.size)) for at in range(0, file.size, block_size)]


class LineReader:
    """The lines of a split as bytes. Positions are offsets in the uncompressed file."""

    def __init__(self, split: FileSplit, chunk: int = CHUNK) -> None:
        self.path = split.path
        self._chunk = chunk
        self._end = sys.maxsize if split.end == WHOLE else split.end
        self._file = open_bytes(split.path)
        self._lines: list[bytes] = []
        self._next = 0
        self._rest = b""
        self._complete = False
        try:
            self._position = self._first_line(split) if split.position is None else split.position
            self._file.seek(self._position)
        except (OSError, EOFError, zlib.error) as error:
            self._file.close()
            raise self._failed(error) from error
        self._offset = self._position

    def _failed(self, error: Exception) -> ConnectorError:
        return ConnectorError(f"file source: {self.path}: {getattr(error, 'strerror', None) or error}")

    def _first_line(self, split: FileSplit) -> int:
        if split.start == 0:
            return 0
        self._file.seek(split.start - 1)
        while (piece := self._file.readline(self._chunk)) and not piece.endswith(b"\n"):
            pass
        return self._file.tell()

    def take(self, count: int) -> list[bytes]:
        """At most `count` of the next lines without their ends; none at the end of the split."""
        if self._next == len(self._lines):
            self._lines, self._next = self._fill(), 0
        taken = self._lines[self._next : self._next + count]
        self._next += len(taken)
        self._position += sum(map(len, taken)) + len(taken)
        return taken

    def _fill(self) -> list[bytes]:
        """The lines that the next chunk completes."""
        start = self._offset - len(self._rest)
        while not self._complete and start < self._end:
            ahead = max(self._end - self._offset, min(self._chunk, _BEYOND_THE_END))
            try:
                data = self._file.read(max(min(self._chunk, ahead), len(self._rest)))
            except (OSError, EOFError, zlib.error) as error:
                raise self._failed(error) from error
            self._offset += len(data)
            if not data:
                self._complete = True
                last, self._rest = self._rest, b""
                return [last] if last else []
            buffer = self._rest + data
            cut = buffer.rfind(b"\n")
            if cut < 0:
                self._rest = buffer
                continue
            self._rest = buffer[cut + 1 :]
            owned = buffer.find(b"\n", self._end - start - 1, cut) if start + cut >= self._end else -1
            if owned >= 0:
                cut, self._complete = owned, True
            return buffer[:cut].split(b"\n")
        self._complete = True
        return []

    def position(self) -> int:
        """The offset of the next line."""
        return self._position

    def line_number(self, offset: int) -> int:
        """The number, from 1, of the line that starts at an offset. Reads the file up to it: for errors."""
        number = 1
        with open_bytes(self.path) as file:
            while offset > 0 and (data := file.read(min(CHUNK, offset))):
                number += data.count(b"\n")
                offset -= len(data)
        return number

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
