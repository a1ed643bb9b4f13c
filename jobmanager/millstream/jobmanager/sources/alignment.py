"""The watermark alignment groups of one job: sources whose subtasks advance together in event time. Pure.

Every reader of a group reports its watermark at its own interval, and receives the highest event time that it may
reach: the lowest watermark of the group plus its drift. A reader that is idle or has ended reports the maximum
watermark, so that it holds no other back. Readers whose attempts have ended are removed; after a restart, a group
consists of the readers that report.
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
    """The groups of one job. A reader is a source of a group in one subtask."""

    def __init__(self) -> None:
        self._watermarks: dict[_Reader, int] = {}

    def reported(self, place: Subtask, report: WatermarkReport) -> int:
        """Records a reader's watermark; returns the event time that it may reach."""
        self._watermarks[_Reader(place, report.group)] = report.watermark
        slowest = min(mark for reader, mark in self._watermarks.items() if reader.group == report.group)
        return min(slowest + report.max_drift_ms, MAX_TIMESTAMP)

    def forget(self, subtasks: Collection[Subtask]) -> None:
        """Removes the readers of these subtasks, whose attempts have ended."""
        for reader in [reader for reader in self._watermarks if reader.place in subtasks]:
            del self._watermarks[reader]
