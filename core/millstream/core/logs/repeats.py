"""Which of many equal events are reported: the first, then ever fewer, with how many there were. Pure.

A job that restarts forever, or a peer that cannot be reached, repeats one message a thousand times, and hides what
else happened. It is reported the first three times, the 10th, the 100th and so on, and once in an hour, so that
the end of the log shows that it still continues.
"""

from __future__ import annotations

from millstream.core.logs.failure_texts import ordinal

_HOUR = 3600.0
ALL_TOLD = 3
"""As many as come in a row are all reported."""


class Repeats:
    """Of one thing that may happen again and again, such as the restarts of a job.

    Events are equal when their texts are, and when they come `within` so many seconds of each other.
    """

    def __init__(self, within: float = _HOUR) -> None:
        self._within = within
        self._what = ""
        self._told_at = self._came_at = 0.0
        self.count = 0
        """How often the last one came in a row."""
        self.untold = 0
        """How many of those were not reported, since the last that was."""

    def is_told(self, what: str, now: float, count: int | None = None) -> bool:
        """Whether this one is. `count` is how often it came in a row, where the caller counts; `now` in seconds."""
        is_new = what != self._what or now - self._came_at >= self._within
        self._came_at = now
        self.count = count if count is not None else 1 if is_new else self.count + 1
        self._what = what
        if is_new or is_told_at(self.count) or now - self._told_at >= _HOUR:
            self._told_at = now
            return True
        self.untold += 1
        return False

    @property
    def times(self) -> str:
        """How often it came, to be put into a line; empty for the first time."""
        return f" ({ordinal(self.count)} time)" if self.count > 1 else ""

    def take_untold(self) -> int:
        """How many were not reported since the last that was; called when one is reported."""
        untold, self.untold = self.untold, 0
        return untold


def is_told_at(count: int) -> bool:
    """Whether the one that came so often in a row is reported, however long ago the last was."""
    return count <= ALL_TOLD or str(count).rstrip("0") == "1"
