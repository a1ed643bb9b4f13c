"""Records that are sorted before anyone sees them, as many as the disk holds.

Sorted runs are written to one file without a name, which is gone with the task, and merged as they are read. On the
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
_BLOCK = 1_000  # records that are read at once


class Place(NamedTuple):
    """Where a record belongs, and which stream it is of. `number` is never the same: the record is not compared."""

    key_hash: int
    key_hash_here: int  # of this process: two keys that are different and have both in common are not met
    timestamp: int
    number: int
    lane: int
    record: Any

    @property
    def key(self) -> tuple[int, int]:
        """The same for all records of a key, and for no others."""
        return self[:2]


class _Block(Struct, frozen=True):
    start: int
    length: int


class SortedRecords:
    """Add all, then read them once, then close."""

    def __init__(self, run: int = RUN) -> None:
        self._run = run
        self.count = 0
        """How many were added."""
        self._recent: list[Place] = []
        self._runs: list[list[_Block]] = []
        self._file: IO[bytes] | None = None

    def add(self, places: list[Place]) -> None:
        """In any order."""
        self.count += len(places)
        self._recent += places
        if len(self._recent) >= self._run:
            self._spill()

    def read(self) -> Iterator[Place]:
        """All of them, in their order."""
        recent, self._recent = sorted(self._recent), []
        return heapq.merge(*[self._read(blocks) for blocks in self._runs], recent) if self._runs else iter(recent)

    def close(self) -> None:
        """Gives back the disk's room."""
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
