"""Detects errors that repeat at the same record, which a restart does not resolve. Pure.

Two failures are the same error when the same class was raised at the same place in code, in the same operator. The
subtask does not matter: after a restart, a record may reach another one. The record is the one that was reported, as
text. The message does not matter: it may differ each time, or be the same for different records.

Only an error at a record counts. An error without one (in `open`, `close`, the reads of a source, a flush, a commit,
checkpoint storage) and an outage (`FailureKind.OUTAGE`: a full disk, a refused connection, any write of a sink) may end
without a change of the program, however long that takes: the restart strategy alone decides about them.

An error counts once for each restart, however many subtasks raise it. Its count is reset when

- the job got past the record: a checkpoint completed after the restart, before which the subtask had processed as many
  records as there were between the checkpoint before the failure and the failure. A checkpoint alone is no evidence:
  several may complete before a slow source emits the record again;
- another error was raised in between. Other records that raise the same error do not reset the count, since which of
  several is processed first is a matter of chance.

A slot worker that exits or crashes by itself (`os._exit`, native code, no memory) while its tasks process records is an
error too, always the same one: its record is unknown, and corrupted memory ends a process in different ways. Its count
is reset when a checkpoint completed for which any subtask had processed records since the restart. That is progress:
the next restore point is nearer to the record. A checkpoint without new records is no progress. A worker that ends
while it starts or opens its tasks, and the process of the enumerators, process no record: they do not count.

What does not count does not reset a count either: outages, workers that were killed from outside, also by the kernel
for its lack of memory, lost peers, missing slots.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import assert_never

from msgspec import Struct

from millstream.core.jobs.failure_kinds import FailureKind
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.ids import VertexId
from millstream.core.settings.options.tasks import RESTART_SAME_ERROR_LIMIT
from millstream.jobmanager.failover.topology import Subtask

LIMIT_OPTION = RESTART_SAME_ERROR_LIMIT

_VARYING = re.compile(r"\bat 0x[0-9a-fA-F]+")
"""The part of a message that varies between attempts: the address of an object in memory."""
_Error = tuple[str, str, str]
_CRASH: _Error = ("", "", "")


class _Count(Struct, frozen=True):
    """How often an error was raised, and how many records after the restore point it was raised the last time.

    Without a subtask, any of them may have raised it, at its first record.
    """

    times: int
    subtask: Subtask | None
    distance: int


class RepeatedErrors:
    """Lives as long as the job. With a limit of 0 or less, errors are counted but never too many."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._error: _Error | None = None
        self._counts: dict[str, _Count] = {}
        self._counted: set[str] = set()
        self._restore_points: dict[Subtask, int] = {}

    def failed(self, failure: TaskFailure) -> int:
        """Counts a failure; returns how often in a row the same error was raised at the same record, or 0."""
        if not _is_countable(failure):
            return 0
        error, record = _error(failure), _place(failure)
        if error != self._error:
            self._error = error
            self._counts.clear()
            self._counted.clear()
        times = self.times(failure)
        if record not in self._counted:
            self._counted.add(record)
            self._counts[record] = self._count(times, failure)
        return times

    def times(self, failure: TaskFailure) -> int:
        """Returns what `failed` would return, without counting."""
        if not _is_countable(failure):
            return 0
        record = _place(failure)
        known = self._counts.get(record) if _error(failure) == self._error else None
        if known is None:
            return 1
        return known.times if record in self._counted else known.times + 1

    def is_too_many(self, failure: TaskFailure) -> bool:
        """Whether the job has to fail because of this failure."""
        return 0 < self.limit <= self.times(failure)

    def checkpoint_completed(self, records: Mapping[Subtask, int]) -> None:
        """Handles a completed checkpoint, given the number of records that each subtask had processed before it."""
        if self._counted:  # the checkpoint belongs to attempts that are being cancelled
            return
        self._restore_points.update(records)
        self._counts = {
            record: count for record, count in self._counts.items() if _furthest(count, records) < count.distance
        }

    def restarted(self, subtasks: Collection[Subtask]) -> None:
        """Resets the record counts of subtasks with new attempts, which count from the restore point."""
        self._counted.clear()
        for subtask in subtasks:
            self._restore_points.pop(subtask, None)

    def rescaled(self) -> None:
        """Handles a rescale: any of the new subtasks may process the record again."""
        self._restore_points.clear()
        self._counts = {record: _Count(c.times, None, c.distance) for record, c in self._counts.items()}

    def _count(self, times: int, failure: TaskFailure) -> _Count:
        if is_crash(failure) or not failure.vertex_id:
            return _Count(times, None, 1)
        subtask = Subtask(VertexId(failure.vertex_id), failure.subtask)
        restore_point = self._restore_points.get(subtask)
        if restore_point is None:
            return _Count(times, subtask, failure.records)
        # Directly after a checkpoint, as at the end of bounded input, the next one is no progress without a new record.
        return _Count(times, subtask, max(failure.records - restore_point, 1))


def is_crash(failure: TaskFailure) -> bool:
    """Whether the failure is that of a process that exited or crashed by itself."""
    return failure.kind is FailureKind.CRASHED


def _is_countable(failure: TaskFailure) -> bool:
    match failure.kind:
        case FailureKind.ORDINARY:
            return bool(failure.signature and failure.record)
        case FailureKind.CRASHED:
            return True
        case FailureKind.PEER_LOST | FailureKind.OUTAGE:
            return False
        case _:
            assert_never(failure.kind)


def _furthest(count: _Count, records: Mapping[Subtask, int]) -> int:
    if count.subtask is None:
        return max(records.values(), default=-1)
    return records.get(count.subtask, -1)


def _error(failure: TaskFailure) -> _Error:
    if is_crash(failure):
        return _CRASH
    return failure.signature, failure.vertex_id, failure.operator_name


def _place(failure: TaskFailure) -> str:
    if is_crash(failure):
        return ""
    return _VARYING.sub("", failure.record)
