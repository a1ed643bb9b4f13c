"""The arithmetic of tumbling and sliding windows and of their panes. Pure; times may be numbers or columns of them.

A pane is an interval of time that each window contains either completely or not at all: as long as the slide, or, if
the slide does not divide the size, two in each slide, since windows end between the starts of others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from millstream.core.records.batches import MIN_TIMESTAMP

if TYPE_CHECKING:
    import numpy.typing as npt


class PaneTimes(Struct, frozen=True):
    """Windows of one size, one starting at each slide."""

    size: int
    slide: int
    offset: int
    lateness: int

    @property
    def rest(self) -> int:
        """How long after the start of a window others end; 0: they end where it starts."""
        return self.size % self.slide

    @property
    def has_gaps(self) -> bool:
        """Whether there is time between windows."""
        return self.size < self.slide

    def pane_of(self, time: Any) -> Any:
        """The start of the pane of a time."""
        inside = (time - self.offset) % self.slide
        if not self.rest:
            return time - inside
        return time - inside + self.rest * (inside >= self.rest)

    def pane_ends(self, starts: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The ends of the panes with these starts."""
        import numpy as np

        if not self.rest:
            return starts + self.slide
        return starts + np.where((starts - self.offset) % self.slide == 0, self.rest, self.slide - self.rest)

    def last_start(self, time: Any) -> Any:
        """The start of the last window that contains a pane, or any time."""
        return time - (time - self.offset) % self.slide

    def first_start(self, time: int) -> int:
        """The start of the first window that contains a pane, or any time."""
        before = time - self.size
        return before + self.slide - (before - self.offset) % self.slide

    def first_end(self, pane: int, after: int) -> int:
        """The first end, after the given time, of a window that contains the pane or starts later."""
        following = after + 1 - self.size
        aligned = following + self.slide - (following - self.offset) % self.slide
        return max(self.first_start(pane), aligned) + self.size

    def unfired(self, panes: Iterable[int], watermark: int) -> tuple[int, int | None]:
        """How many windows that contain any of these panes, given in order, have not ended; the end of the first."""
        count, first, following = 0, None, MIN_TIMESTAMP
        for pane in panes:
            start, last = max(self.first_end(pane, watermark) - self.size, following), self.last_start(pane)
            if start <= last:
                count += (last - start) // self.slide + 1
                first = start + self.size if first is None else first
                following = last + self.slide
        return count, first

    def is_between(self, times: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Which times are in no window."""
        return (times - self.offset) % self.slide >= self.size

    def is_gone(self, pane: int, watermark: int) -> bool:
        """Whether no window needs the pane any more."""
        return bool(self.last_start(pane) + self.size - 1 + self.lateness <= watermark)

    def late(self, times: npt.NDArray[Any], watermark: int) -> npt.NDArray[Any] | None:
        """Which records arrive after all of their windows were removed; None: there are none."""
        gone = watermark - self.lateness + 1 - self.size  # a window that starts by then
        if not self.has_gaps and self.last_start(int(times.min())) > gone:
            return None
        late: npt.NDArray[Any] = self.last_start(times) <= gone
        if self.has_gaps:
            between = self.is_between(times)
            late = (late & ~between) | (between & (times + self.lateness <= watermark))
        return late if late.any() else None

    def fired(self, pane: int, watermark: int) -> list[int]:
        """The starts of the windows of a pane that have ended and were not removed."""
        starts = range(self.first_start(pane), pane + 1, self.slide)
        return [s for s in starts if s + self.size - 1 <= watermark < s + self.size - 1 + self.lateness]
