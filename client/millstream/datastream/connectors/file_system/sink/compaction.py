"""Compaction of small part files into large ones, before they become visible.

Finished parts of a bucket are gathered as hidden files over several checkpoints, until the strategy compacts them into
one part, which is committed like any other. Checkpoints contain the gathered parts.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from typing import BinaryIO

from millstream.core.errors import InvalidProgramError
from millstream.core.files.durable import sync
from millstream.datastream.connectors.file_system.transactions import (
    FileTransaction,
    GatheredPart,
    PendingFile,
    naming,
    remove,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FileCompactStrategy:
    """When parts are enough: after a number of checkpoints, or of bytes; whichever comes first."""

    checkpoints: int | None = None
    size_threshold: int | None = None
    threads: int = 1

    @staticmethod
    def builder() -> FileCompactStrategyBuilder:
        """Begins with nothing."""
        return FileCompactStrategyBuilder()

    def is_enough(self, checkpoints: int, size: int) -> bool:
        """Returns whether parts that were gathered over this many `checkpoints`, of `size` bytes, are compacted now."""
        return (self.checkpoints is not None and checkpoints >= self.checkpoints) or (
            self.size_threshold is not None and size >= self.size_threshold
        )


class FileCompactStrategyBuilder:
    """PyFlink's way to make a strategy."""

    def __init__(self) -> None:
        self._checkpoints: int | None = None
        self._size: int | None = None
        self._threads = 1

    def enable_compaction_on_checkpoint(self, num_checkpoints_before_compaction: int) -> FileCompactStrategyBuilder:
        """Compacts after this number of checkpoints."""
        self._checkpoints = _positive("num_checkpoints_before_compaction", num_checkpoints_before_compaction)
        return self

    def set_size_threshold(self, size_threshold: int) -> FileCompactStrategyBuilder:
        """Compacts when the parts have this number of bytes together."""
        self._size = _positive("size_threshold", size_threshold)
        return self

    def set_num_compact_threads(self, num_compact_threads: int) -> FileCompactStrategyBuilder:
        """How many buckets are seen to at a time."""
        self._threads = _positive("num_compact_threads", num_compact_threads)
        return self

    def build(self) -> FileCompactStrategy:
        """The strategy."""
        if self._checkpoints is None and self._size is None:
            raise InvalidProgramError(
                "a FileCompactStrategy needs enable_compaction_on_checkpoint(...) or set_size_threshold(...): else "
                "nothing would ever become visible"
            )
        return FileCompactStrategy(self._checkpoints, self._size, self._threads)


class _Way(Enum):
    CONCATENATE = "concatenate"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class FileCompactor:
    """How several parts become one."""

    way: _Way
    delimiter: bytes = b""

    @staticmethod
    def concat_file_compactor(file_delimiter: bytes | None = None) -> FileCompactor:
        """Returns a compactor that concatenates files, with the bytes `file_delimiter` between them if given."""
        return FileCompactor(_Way.CONCATENATE, file_delimiter or b"")

    @staticmethod
    def identical_file_compactor() -> FileCompactor:
        """Each stays as it is: they only become visible together."""
        return FileCompactor(_Way.KEEP)

    @property
    def joins(self) -> bool:
        """Whether parts become one, which not every format allows."""
        return self.way is _Way.CONCATENATE

    def write(self, parts: Sequence[GatheredPart], target: BinaryIO) -> None:
        """Writes the files `parts` to the file `target`, as one."""
        for number, part in enumerate(parts):
            if number:
                target.write(self.delimiter)
            with naming(part.hidden), open(part.hidden, "rb") as source:
                shutil.copyfileobj(source, target, 1 << 20)


@dataclass(frozen=True, slots=True)
class Compaction:
    """The configuration of a sink."""

    strategy: FileCompactStrategy
    compactor: FileCompactor


NewName = Callable[[str], tuple[str, str]]
"""A hidden and a visible name for a new part of a bucket."""


class GatheredParts:
    """The finished parts of one subtask that are not enough yet. Owned by the task's thread."""

    def __init__(self, compaction: Compaction, new_name: NewName) -> None:
        self._strategy = compaction.strategy
        self._compactor = compaction.compactor
        self._new_name = new_name
        self._parts: dict[str, list[GatheredPart]] = {}
        self._checkpoints: dict[str, int] = {}  # since the first of a bucket's parts came
        self._held: set[str] = set()  # hidden files that a checkpoint may hold

    def add(self, file: PendingFile, bucket: str) -> None:
        """A part was finished."""
        if file.held:
            self._held.add(file.hidden)
        with naming(file.hidden):
            size = os.path.getsize(file.hidden)
        self._parts.setdefault(bucket, []).append(GatheredPart(file.hidden, file.visible, bucket, size))

    def compact(self, transaction: FileTransaction, everything: bool) -> None:
        """At a checkpoint: puts into the transaction what has become enough, or everything."""
        buckets = []
        for bucket, parts in self._parts.items():
            self._checkpoints[bucket] = count = self._checkpoints.get(bucket, 0) + 1
            if everything or self._strategy.is_enough(count, sum(part.size for part in parts)):
                buckets.append(bucket)
        named = [(self._parts.pop(bucket), self._new_name(bucket)) for bucket in buckets]
        if not named:
            return
        for bucket in buckets:
            del self._checkpoints[bucket]
        with ThreadPoolExecutor(self._strategy.threads) as pool:
            for files, superseded in pool.map(lambda given: self._made(*given), named):
                transaction.files.extend(files)
                transaction.superseded.extend(superseded)

    def _made(self, parts: list[GatheredPart], name: tuple[str, str]) -> tuple[list[PendingFile], list[str]]:
        if not self._compactor.joins or len(parts) == 1:
            return [PendingFile(part.hidden, part.visible, part.hidden in self._held) for part in parts], []
        hidden, visible = name
        with naming(hidden), open(hidden, "xb") as target:
            self._compactor.write(parts, target)
            target.flush()
            os.fsync(target.fileno())
        return [PendingFile(hidden, visible)], [part.hidden for part in parts]

    def hold(self) -> list[GatheredPart]:
        """What a checkpoint holds of it."""
        parts = [part for gathered in self._parts.values() for part in gathered]
        self._held.update(part.hidden for part in parts)
        return parts

    def restore(self, states: Iterable[GatheredPart], is_own: Callable[[str], bool]) -> None:
        """Restores the parts in `states`; copies the parts of another job, which may continue with them too."""
        for part in states:
            if not os.path.exists(part.hidden):
                log.warning("%s is gone: it has become part of another since the restored checkpoint", part.hidden)
                continue
            if is_own(part.hidden):
                self._held.add(part.hidden)
            else:
                hidden, visible = self._new_name(part.bucket)
                with naming(hidden):
                    shutil.copyfile(part.hidden, hidden)
                    sync(hidden)
                part = GatheredPart(hidden, visible, part.bucket, part.size)  # the same records
            self._parts.setdefault(part.bucket, []).append(part)

    def drop(self) -> None:
        """Removes what no checkpoint may hold."""
        for parts in self._parts.values():
            for part in parts:
                if part.hidden not in self._held:
                    remove(part.hidden)


def _positive(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidProgramError(f"{name} is a whole number of at least 1, got {value!r}")
    return value
