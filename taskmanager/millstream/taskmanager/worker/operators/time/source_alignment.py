"""A source whose event time keeps together with that of others: it reports its progress, and waits when it is ahead.

Of one source in one subtask, on its task's thread. How far the source may go comes back from the job manager, where the
group is kept; until it does, nothing holds the source back. Waiting ends when a higher limit comes, or none.
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
    """How far the source is, and how far it may be."""

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
        """Whether the source has to wait."""
        return self._paused_since != 0

    @property
    def _drift_ms(self) -> int:
        slowest = self.limit - self.alignment.max_drift_ms
        known = self.limit < MAX_TIMESTAMP and self._watermark > MIN_TIMESTAMP and slowest > MIN_TIMESTAMP
        return self._watermark - slowest if known else 0

    @property
    def next(self) -> float | None:
        """When to look again."""
        return self._rhythm.next

    def came_to(self, watermark: int) -> None:
        """The source's event time, whenever that may have moved."""
        self._watermark = watermark
        self._settle()

    def limited(self, limit: int) -> None:
        """How far the source may go, from now on."""
        self.limit = limit
        self._settle()

    def look(self, now: float, is_idle: bool) -> None:
        """Reports the progress of the source, when the interval has passed; an idle one is not waited for."""
        if self._rhythm.is_due(now):
            self._report(self.alignment, MAX_TIMESTAMP if is_idle else self._watermark)

    def ended(self) -> None:
        """A source that has come to its end is not waited for."""
        self._report(self.alignment, MAX_TIMESTAMP)

    def told(self) -> AlignmentStatus:
        """For people."""
        return AlignmentStatus(self.alignment.group, self.limit, self._drift_ms, self._paused_since)

    def _settle(self) -> None:
        if self._watermark <= self.limit:
            self._paused_since = 0
        elif not self.is_paused:
            self._paused_since = max(1, self._clock.now_ms())
