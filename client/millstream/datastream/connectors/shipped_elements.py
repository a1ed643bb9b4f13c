"""The elements of a large collection in files beside the job graph, in pieces that are read one at a time.

A graph that held them would be copied from service to service as one message, and be in the memory of each: 300 MB of
strings took 48 s and 7 GB that way.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from millstream.core.environments.data_files import ORIGIN, DataFile
from millstream.core.jobs.ids import new_id
from millstream.core.pickling import to_bytes

INLINE = 1024 * 1024  # bytes that may stay in the graph
_FILE_SIZE = 64 * 1024 * 1024  # of a file, nearly: well below what the dispatcher takes
_PIECE_ROWS = 2048
_PIECE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Part:
    """A file of pieces: the index of the first element of each, and where it begins."""

    file: DataFile
    starts: tuple[int, ...]
    offsets: tuple[int, ...]


class ShippedElements:
    """What a job graph holds of the elements: how many there are, and where."""

    def __init__(self, count: int, parts: tuple[_Part, ...]) -> None:
        self._count = count
        self._parts = parts

    def __len__(self) -> int:
        return self._count

    def files(self) -> list[DataFile]:
        """To be shipped with the job."""
        return [part.file for part in self._parts]

    def open(self) -> ElementReader:
        """For one reader."""
        return ElementReader(self._count, self._parts)


class ElementReader:
    """Holds one file open and one piece decoded."""

    def __init__(self, count: int, parts: tuple[_Part, ...]) -> None:
        self._count = count
        self._parts = parts
        self._firsts = [part.starts[0] for part in parts]
        self._part: _Part | None = None
        self._file: BinaryIO | None = None
        self._piece: list[Any] = []
        self._start = 0

    def take(self, start: int, stop: int) -> list[Any]:
        """The elements from `start` on, to `stop` or to the end of a piece, at least one."""
        if not self._start <= start < self._start + len(self._piece):
            self._load(start)
        return self._piece[start - self._start : stop - self._start]

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()
            self._file = self._part = None
        self._piece = []

    def _load(self, index: int) -> None:
        part = self._parts[bisect_right(self._firsts, index) - 1]
        if part is not self._part or self._file is None:
            self.close()
            self._file, self._part = ORIGIN.open(part.file), part
        number = bisect_right(part.starts, index) - 1
        self._file.seek(part.offsets[number])
        self._piece = pickle.load(self._file)
        self._start = part.starts[number]


def ship(elements: list[Any], folder: Callable[[], Path]) -> ShippedElements | None:
    """Writes the elements to files in the folder; None when they are few enough to stay where they are."""
    kept: list[tuple[int, bytes]] = []
    writer = _Writer(folder)
    size = start = 0
    rows = 64
    while start < len(elements):
        piece = to_bytes(elements[start : start + rows])
        size += len(piece)
        kept.append((start, piece))
        if size > INLINE:
            for held in kept:
                writer.write(*held)
            kept.clear()
        start += rows
        rows = max(1, min(_PIECE_ROWS, rows * _PIECE_BYTES // max(len(piece), 1)))
    if size <= INLINE:
        return None
    return ShippedElements(len(elements), writer.finish())


class _Writer:
    def __init__(self, folder: Callable[[], Path]) -> None:
        self._folder = folder
        self._parts: list[_Part] = []
        self._starts: list[int] = []
        self._offsets: list[int] = []
        self._file: io.BufferedWriter | None = None
        self._digest = hashlib.sha256()
        self._size = 0

    def write(self, start: int, piece: bytes) -> None:
        """Appends a piece that begins with this element, in a new file when the last one is full."""
        if self._file is not None and self._size + len(piece) > _FILE_SIZE:
            self._end_file()
        if self._file is None:
            self._file = (self._folder() / new_id()).open("wb")
        self._starts.append(start)
        self._offsets.append(self._size)
        self._file.write(piece)
        self._digest.update(piece)
        self._size += len(piece)

    def finish(self) -> tuple[_Part, ...]:
        """All files."""
        if self._file is not None:
            self._end_file()
        return tuple(self._parts)

    def _end_file(self) -> None:
        assert self._file is not None, "only after a write"
        self._file.close()
        file = DataFile(self._digest.hexdigest(), self._file.name, self._size)
        self._parts.append(_Part(file, tuple(self._starts), tuple(self._offsets)))
        self._file, self._digest, self._size = None, hashlib.sha256(), 0
        self._starts, self._offsets = [], []
