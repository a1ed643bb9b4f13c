r"""Lines of a part of a file, with exact ownership and positions.

A line belongs to the split that holds its first byte. It ends at `\n` or at the end of the file. Lines are read a chunk
of the file at a time; memory is bounded by the chunk and the longest line that is taken. Of a line that is longer only
the beginning is kept.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from typing import BinaryIO, cast

from millstream.core.errors import InvalidProgramError
from millstream.datastream.connectors.errors import ConnectorError, MalformedInputError
from millstream.datastream.connectors.file_system.compression import DAMAGE, is_compressed, open_bytes
from millstream.datastream.connectors.file_system.paths import FoundFile
from millstream.datastream.connectors.file_system.splits import WHOLE, FileSplit
from millstream.datastream.connectors.malformed import LONGEST_LINE, LONGEST_RAW, DeadLetter

CHUNK = 1 << 20
_BEYOND_THE_END = 1 << 16
_PIECE = 1 << 12


def checked_length(max_line_length: int) -> int:
    """An option of formats that cut lines."""
    if max_line_length < 1:
        raise InvalidProgramError(f"max_line_length must be at least 1 byte, got {max_line_length}")
    return max_line_length


def salvaged(reopen: Callable[[], BinaryIO], offset: int, damage: tuple[type[Exception], ...]) -> bytes:
    """What a damaged file still has behind an offset: a large read loses what comes right before the damage."""
    pieces: list[bytes] = []
    with reopen() as file, contextlib.suppress(*damage):
        while piece := file.read1(_PIECE):  # type: ignore[attr-defined]  # all files of ours have it
            pieces.append(piece[offset:])
            offset = max(0, offset - len(piece))
    return b"".join(pieces)


def line_number(path: str, offset: int) -> int:
    """The number, from 1, of the line that starts at an offset. Reads the file up to it: for errors."""
    number = 1
    with open_bytes(path) as file:
        while offset > 0 and (data := file.read(min(CHUNK, offset))):
            number += data.count(b"\n")
            offset -= len(data)
    return number


def cut_lines(file: FoundFile, block_size: int) -> list[FileSplit]:
    """Byte ranges of the block size; one split when the file is compressed."""
    if file.size == 0:
        return []
    if is_compressed(file.path):
        return [FileSplit(file.path, 0, WHOLE)]
    return [FileSplit(file.path, at, min(at + block_size, file.size)) for at in range(0, file.size, block_size)]


@dataclass(frozen=True, slots=True)
class _TooLong:
    letter: DeadLetter
    length: int


class LineReader:
    """The lines of a split as bytes. Positions are offsets in the uncompressed file."""

    def __init__(self, split: FileSplit, chunk: int = CHUNK, longest: int = LONGEST_LINE) -> None:
        self.path = split.path
        self._chunk = chunk
        self._longest = longest
        self._end = sys.maxsize if split.end == WHOLE else split.end
        self._file = open_bytes(split.path)
        self._lines: list[bytes | _TooLong] = []
        self._has_too_long = False
        self._next = 0
        self._rest = b""  # the beginning of a line
        self._ahead = b""  # read, and not yet cut into lines
        self._complete = False
        self._damage: MalformedInputError | None = None
        try:
            self._position = self._first_line(split) if split.position is None else split.position
            self._file.seek(self._position)
        except DAMAGE as error:
            self._file.close()
            raise self._failed(error, split.start) from error
        self._offset = self._position

    def _failed(self, error: Exception, offset: int, raw: bytes = b"") -> ConnectorError:
        reason = str(getattr(error, "strerror", None) or error)
        if not is_compressed(self.path):
            return ConnectorError(f"file source: {self.path}: {reason}")
        return MalformedInputError(self.path, reason, offset, raw[:LONGEST_RAW])

    def _first_line(self, split: FileSplit) -> int:
        if split.start == 0:
            return 0
        self._file.seek(split.start - 1)
        while (piece := self._file.readline(self._chunk)) and not piece.endswith(b"\n"):
            pass
        return self._file.tell()

    def take(self, count: int) -> list[bytes]:
        """At most `count` of the next lines without their ends; none at the end, or before one that is too long."""
        if self._next == len(self._lines):
            self._lines, self._next = self._fill(), 0
        taken = self._lines[self._next : self._next + count]
        if self._has_too_long:
            taken = list(takewhile(lambda line: not isinstance(line, _TooLong), taken))
        lines = cast(list[bytes], taken)
        self._next += len(lines)
        self._position += sum(map(len, lines)) + len(lines)
        return lines

    def take_too_long(self) -> DeadLetter | None:
        """The next line, when it is too long: when neither `take` nor this returns one, the split has ended."""
        if self._next == len(self._lines):
            return None
        found = self._lines[self._next]
        assert isinstance(found, _TooLong), "take returns lines while there are any"
        self._next += 1
        self._position += found.length + 1
        return found.letter

    def _fill(self) -> list[bytes | _TooLong]:
        """The lines that the next chunk completes."""
        start = self._offset - len(self._rest)
        self._has_too_long = False
        while not self._complete and start < self._end:
            data = self._read()
            self._offset += len(data)
            if not data:
                self._complete = True
                last, self._rest = self._rest, b""
                return self._limited([last], start) if last else []
            buffer = self._rest + data
            cut = buffer.rfind(b"\n")
            if cut < 0:
                self._rest = buffer
                if len(buffer) > self._longest:
                    return self._pass_over(start)
                continue
            self._rest = buffer[cut + 1 :]
            owned = buffer.find(b"\n", self._end - start - 1, cut) if start + cut >= self._end else -1
            if owned >= 0:
                cut, self._complete = owned, True
            lines = buffer[:cut].split(b"\n")
            return self._limited(lines, start) if len(buffer) > self._longest else cast(list[bytes | _TooLong], lines)
        self._complete = True
        return []

    def _read(self) -> bytes:
        if self._ahead:
            data, self._ahead = self._ahead, b""
            return data
        if self._damage is not None:
            raise self._damage
        ahead = max(self._end - self._offset, min(self._chunk, _BEYOND_THE_END))
        try:
            return self._file.read(max(min(self._chunk, ahead), len(self._rest)))
        except DAMAGE as error:
            left = salvaged(lambda: open_bytes(self.path), self._offset, DAMAGE)
            unfinished = (self._rest + left).rpartition(b"\n")[2]
            failure = self._failed(error, self._offset + len(left) - len(unfinished), unfinished)
            failure.__cause__ = error
            if not left:
                raise failure from error
            self._damage = cast(MalformedInputError, failure)
            return left

    def _limited(self, lines: list[bytes], offset: int) -> list[bytes | _TooLong]:
        """The lines, with a dead letter in the place of each that is too long."""
        limited: list[bytes | _TooLong] = []
        if max(map(len, lines)) <= self._longest:
            limited.extend(lines)
            return limited
        self._has_too_long = True
        for line in lines:
            limited.append(self._too_long(offset, line, len(line)) if len(line) > self._longest else line)
            offset += len(line) + 1
        return limited

    def _pass_over(self, start: int) -> list[bytes | _TooLong]:
        """Reads up to the end of a line that is too long, and keeps only its beginning."""
        kept, length = self._rest[:LONGEST_RAW], len(self._rest)
        self._rest = b""
        while data := self._read():
            self._offset += len(data)
            end = data.find(b"\n")
            if end >= 0:
                self._ahead = data[end + 1 :]
                self._offset -= len(self._ahead)
                length += end
                break
            length += len(data)
        else:
            self._complete = True
        self._has_too_long = True
        return [self._too_long(start, kept, length)]

    def _too_long(self, offset: int, line: bytes, length: int) -> _TooLong:
        reason = f"a line of {length} bytes, and max_line_length is {self._longest}"
        return _TooLong(DeadLetter(self.path, offset, line[:LONGEST_RAW], reason), length)

    def position(self) -> int:
        """The offset of the next line."""
        return self._position

    def line_number(self, offset: int) -> int:
        """The number, from 1, of the line that starts at an offset. Reads the file up to it: for errors."""
        return line_number(self.path, offset)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
