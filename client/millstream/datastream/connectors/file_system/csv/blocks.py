"""A CSV file as blocks of whole records, in UTF-8, with the offset of each block."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from millstream.datastream.connectors.errors import ConnectorError, MalformedInputError
from millstream.datastream.connectors.file_system.compression import DAMAGE, is_compressed, open_bytes
from millstream.datastream.connectors.file_system.csv.records import CsvRecords
from millstream.datastream.connectors.file_system.lines.charsets import MARK
from millstream.datastream.connectors.file_system.lines.lines import salvaged
from millstream.datastream.connectors.malformed import LONGEST_RAW, DeadLetter


@dataclass(frozen=True, slots=True)
class Block:
    """Whole records; or nothing but the place of one that has no end, which counts as one record."""

    offset: int
    data: bytes
    malformed: DeadLetter | None = None


class CsvBlocks:
    """Reads blocks of about `size` bytes. Memory is bounded by that and the longest record.

    In a character set without ASCII's line ends, such as UTF-16, offsets count the bytes of the text in UTF-8.
    """

    def __init__(self, path: str, records: CsvRecords, size: int, longest: int, recode: str | None) -> None:
        self._path = path
        self._records = records
        self._size = size
        self._longest = longest
        self._recode = recode
        self._file = self._open()
        self._rest = b""
        self._offset = 0
        self._ended = False
        self._damage: MalformedInputError | None = None
        if self._fill():
            self._drop(len(codecs.BOM_UTF8) if self._rest.startswith(codecs.BOM_UTF8) else 0)

    def _open(self) -> BinaryIO:
        import pyarrow as pa

        try:
            opened = open_bytes(self._path) if is_compressed(self._path) else pa.input_stream(self._path)
        except OSError as error:
            raise ConnectorError(f"file source: {self._path}: {' '.join(str(error).split())}") from error
        return cast(BinaryIO, opened if self._recode is None else _Recoded(opened, self._recode))

    def next(self) -> Block | None:
        """The next block, or None at the end of the file."""
        while True:
            end = self._records.end(self._rest)
            if end:
                return self._taken(end)
            if len(self._rest) > self._longest:
                return self._without_end(f"more than max_line_length, {self._longest} bytes, without an end")
            if not self._fill():
                return self._last()

    def first_record(self) -> Block | None:
        """The record at the beginning alone, which `drop` passes over when it is a header."""
        while not (found := self._records.split(self._rest[: self._records.end(self._rest)])):
            if len(self._rest) > self._longest or not self._fill():
                found = self._records.split(self._rest)
                break
        if not found:
            return None
        begin, end = found[0]
        return Block(self._offset + begin, self._rest[begin:end])

    def drop(self, block: Block) -> None:
        """Moves the position to the end of `block`."""
        self._drop(block.offset + len(block.data) - self._offset)

    def _last(self) -> Block | None:
        """What is left behind the last record with an end."""
        if not self._rest:
            if self._damage is not None:
                raise self._damage
            return None
        if self._records.end(self._rest + b"\n") <= len(self._rest):
            return self._without_end("a quoted value is not closed before the end of the file")
        return self._taken(len(self._rest))

    def _without_end(self, reason: str) -> Block:
        """Passes over one line: where a quote is not closed, that costs no more than its line."""
        offset, kept, length = self._offset, self._rest[:LONGEST_RAW], 0
        while not (end := self._records.first_line_end(self._rest)) and not self._ended:
            keep = 1 if self._rest.endswith(b"\r") else 0
            length += len(self._rest) - keep
            self._drop(len(self._rest) - keep)
            self._fill()
        end = end or len(self._rest)
        self._drop(end)
        raw = kept[: length + end].rstrip(b"\r\n")
        return Block(offset, b"", DeadLetter(self._path, offset, raw, reason))

    def _taken(self, end: int) -> Block:
        block = Block(self._offset, self._rest[:end])
        self._drop(end)
        return block

    def _drop(self, count: int) -> None:
        self._rest = self._rest[count:]
        self._offset += count

    def _fill(self) -> bool:
        """Reads on, the more the longer the current record is; false at the end."""
        if self._ended:
            return False
        at = self._offset + len(self._rest)
        try:
            data = self._file.read(max(self._size, len(self._rest)))
        except _damages() as error:
            whole = self._rest + salvaged(self._open, at, _damages())
            left = whole.rpartition(b"\n")[2]
            self._rest, data = whole.removesuffix(left), b""
            begins = self._offset + len(self._rest)
            self._damage = MalformedInputError(self._path, " ".join(str(error).split()), begins, left[:LONGEST_RAW])
            self._damage.__cause__ = error
        self._rest += data
        self._ended = not data
        return bool(data)

    def line_number(self, offset: int) -> int:
        """The number, from 1, of the line at an offset. Reads the file up to it: for errors."""
        number = 1
        with self._open() as file:
            while offset > 0 and (data := file.read(self._size)):
                number += data.count(b"\n", 0, offset)
                offset -= len(data)
        return number

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def _damages() -> tuple[type[Exception], ...]:
    import pyarrow as pa

    return (pa.ArrowException, UnicodeError, *DAMAGE)


class _Recoded:
    """A file as UTF-8; what cannot be decoded becomes bytes that are none."""

    def __init__(self, file: Any, charset: str) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder(charset)(MARK)

    def read(self, size: int) -> bytes:
        """About a block of bytes; none at the end."""
        while data := self._file.read(size):
            if text := self._decoder.decode(data):
                return bytes(text.encode("utf-8", "surrogatepass"))
        return bytes(self._decoder.decode(b"", True).encode("utf-8", "surrogatepass"))

    read1 = read

    def __enter__(self) -> _Recoded:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
