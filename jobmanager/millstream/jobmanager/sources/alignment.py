"""The alignment groups of one job: sources that keep together in event time, over all their subtasks. Pure.

Every reader of a group says how far it is, at its own interval, and is answered how far it may go: the slowest of the
group, and its drift. One of which nobody has to wait, because it is idle or has ended, reports the highest watermark.
Readers whose attempts are over are forgotten: after a restart a group forms again, of those that report.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from millstream.core.messages.sources import WatermarkReport
from millstream.core.records.batches import MAX_TIMESTAMP
from millstream.jobmanager.failover.topology import Subtask


class _Reader(Struct, frozen=True):
    place: Subtask
    group: str


class AlignmentGroups:
    """Of one job. A reader is a source of a group in one subtask."""

    def __init__(self) -> None:
        self._watermarks: dict[_Reader, int] = {}

    def reported(self, place: Subtask, report: WatermarkReport) -> int:
        """A reader says how far it is; answers how far it may go."""
        self._watermarks[_Reader(place, report.group)] = report.watermark
        slowest = min(mark for reader, mark in self._watermarks.items() if reader.group == report.group)
        return min(slowest + report.max_drift_ms, MAX_TIMESTAMP)

    def forget(self, subtasks: Collection[Subtask]) -> None:
        """These run no more, or will be other attempts when they do."""
        for reader in [reader for reader in self._watermarks if reader.place in subtasks]:
            del self._watermarks[reader]
