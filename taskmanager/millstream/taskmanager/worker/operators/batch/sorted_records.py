"""Sorts records, as many as fit on the disk.

Sorted runs are written to one unnamed file, which is removed with the task, and merged as they are read. Used on the
task's thread.
"""

from __future__ import annotations

import heapq
import pickle
import tempfile
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

from msgspec import Struct

from millstream.core.pickling import to_bytes

RUN = 100_000  # records in memory
_BLOCK = 1_000  # records read at once


class Place(NamedTuple):
    """The sort position of a record, and its stream. `number` is unique, so the record itself is never compared."""

    key_hash: int
    key_hash_here: int  # of this process: different keys that agree in both hashes are assumed not to exist
    timestamp: int
    number: int
    lane: int
    record: Any

    @property
    def key(self) -> tuple[int, int]:
        """Identifies the key of a record."""
        return self[:2]


class _Block(Struct, frozen=True):
    start: int
    length: int


class SortedRecords:
    """Add all, then read them once, then close."""

    def __init__(self, run: int = RUN) -> None:
        self._run = run
        self.count = 0
        """The number of records added."""
        self._recent: list[Place] = []
        self._runs: list[list[_Block]] = []
        self._file: IO[bytes] | None = None

    def add(self, places: list[Place]) -> None:
        """Adds records, in any order."""
        self.count += len(places)
        self._recent += places
        if len(self._recent) >= self._run:
            self._spill()

    def read(self) -> Iterator[Place]:
        """All records, in order."""
        recent, self._recent = sorted(self._recent), []
        return heapq.merge(*[self._read(blocks) for blocks in self._runs], recent) if self._runs else iter(recent)

    def close(self) -> None:
        """Releases the disk space."""
        self._recent = []
        if self._file is not None:
            self._file.close()
            self._file = None

    def _spill(self) -> None:
        run, self._recent = sorted(self._recent), []
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="millstream-batch-")  # noqa: SIM115  # `close` closes it
        blocks = []
        for start in range(0, len(run), _BLOCK):
            data = to_bytes([tuple(place) for place in run[start : start + _BLOCK]])
            blocks.append(_Block(self._file.tell(), len(data)))
            self._file.write(data)
        self._runs.append(blocks)

    def _read(self, blocks: list[_Block]) -> Iterator[Place]:
        for block in blocks:
            assert self._file is not None, "it is read before it is closed"
            self._file.seek(block.start)
            yield from [Place(*place) for place in pickle.loads(self._file.read(block.length))]
