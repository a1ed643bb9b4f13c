"""Watermark alignment of a source: it reports its progress, and pauses when it is ahead of its group.

It belongs to one source in one subtask, on its task's thread. The job manager, which tracks the group, sends back how
far the source may read; until then nothing holds the source back. A pause ends when a higher limit arrives, or none.
"""

from __future__ import annotations

from collections.abc import Callable

from millstream.common.watermark_strategy import WatermarkAlignment
from millstream.core.clock import Clock
from millstream.core.jobs.progress import AlignmentStatus
from millstream.core.records.batches import MAX_TIMESTAMP, MIN_TIMESTAMP
from millstream.taskmanager.worker.operators.time.event_time import Rhythm

Report = Callable[[WatermarkAlignment, int], None]


class SourceAlignment:
    """How far the source is, and how far it may read."""

    def __init__(self, alignment: WatermarkAlignment, report: Report, clock: Clock) -> None:
        self.alignment = alignment
        self.limit = MAX_TIMESTAMP
        self._report = report
        self._clock = clock
        self._rhythm = Rhythm(alignment.update_interval_ms / 1000)
        self._watermark = MIN_TIMESTAMP
        self._paused_since = 0

    @property
    def is_paused(self) -> bool:
        """Whether the source is paused."""
        return self._paused_since != 0

    @property
    def _drift_ms(self) -> int:
        slowest = self.limit - self.alignment.max_drift_ms
        known = self.limit < MAX_TIMESTAMP and self._watermark > MIN_TIMESTAMP and slowest > MIN_TIMESTAMP
        return self._watermark - slowest if known else 0

    @property
    def next(self) -> float | None:
        """When to call `look` again."""
        return self._rhythm.next

    def came_to(self, watermark: int) -> None:
        """Updates the source's event time; called whenever it may have advanced."""
        self._watermark = watermark
        self._settle()

    def limited(self, limit: int) -> None:
        """Sets the limit up to which the source may read."""
        self.limit = limit
        self._settle()

    def look(self, now: float, is_idle: bool) -> None:
        """Reports the progress of the source at the interval; an idle source does not hold the group back."""
        if self._rhythm.is_due(now):
            self._report(self.alignment, MAX_TIMESTAMP if is_idle else self._watermark)

    def ended(self) -> None:
        """Reports that the source has ended, so that it does not hold the group back."""
        self._report(self.alignment, MAX_TIMESTAMP)

    def status(self) -> AlignmentStatus:
        """The status for users."""
        return AlignmentStatus(self.alignment.group, self.limit, self._drift_ms, self._paused_since)

    def _settle(self) -> None:
        if self._watermark <= self.limit:
            self._paused_since = 0
        elif not self.is_paused:
            self._paused_since = max(1, self._clock.now_ms())
