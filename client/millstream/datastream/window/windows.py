"""Windows: the groups that a stream's records are put into. They are values, and namespaces of keyed state.

A window is made for each record and each window that it belongs to, and looked up by its value. So those here are
msgspec structs: made in a quarter of the time that a named tuple takes, hashed and compared in C, ordered, immutable,
and invisible to the garbage collector, however many are open.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from millstream.core.records.batches import MAX_TIMESTAMP

if TYPE_CHECKING:
    from millstream.datastream.window.assigner import MergingWindowAssigner


class Window:
    """Base of all windows. One's own kinds must be hashable and equal by value, and should be ordered."""

    __slots__ = ()

    def max_timestamp(self) -> int:
        """The last timestamp that still belongs to the window: with it, the window is complete."""
        raise NotImplementedError(f"{type(self).__qualname__} has no end: it needs max_timestamp()")


class TimeWindow(Window, msgspec.Struct, frozen=True, order=True, gc=False):
    """The time from `start`, which belongs to it, up to `end`, which does not; both in milliseconds."""

    start: int
    end: int

    def max_timestamp(self) -> int:
        """One millisecond before the end."""
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Whether the two have time in common, or one begins where the other ends."""
        return self.start <= other.end and other.start <= self.end

    def cover(self, other: TimeWindow) -> TimeWindow:
        """Returns the smallest window that covers this one and `other`."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """Returns the start of the window of `timestamp`, for windows of `window_size` that begin at `offset`."""
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow], callback: MergingWindowAssigner.MergeCallback[TimeWindow]) -> None:
        """Calls `callback.merge` for each group of two or more of `windows` that overlap or touch, with their cover.

        The groups, and the windows of each, are in the order of time.
        """
        group: list[TimeWindow] = []
        start = end = 0
        for window in sorted(set(windows)):
            if group and window.start <= end:
                group.append(window)
                end = max(end, window.end)
                continue
            if len(group) > 1:
                callback.merge(group, TimeWindow(start, end))
            group, start, end = [window], window.start, window.end
        if len(group) > 1:
            callback.merge(group, TimeWindow(start, end))


class CountWindow(Window, msgspec.Struct, frozen=True, order=True, gc=False):
    """A window of a number of records of a key; windows have numbers from 0."""

    id: int

    def max_timestamp(self) -> int:
        """The end of time: no timestamp completes it."""
        return MAX_TIMESTAMP


class GlobalWindow(Window, msgspec.Struct, frozen=True, order=True, gc=False):
    """The one window of all records, which time never completes."""

    @staticmethod
    def get() -> GlobalWindow:
        """The window."""
        return _GLOBAL_WINDOW

    def max_timestamp(self) -> int:
        """The end of time."""
        return MAX_TIMESTAMP

    def __repr__(self) -> str:
        return "GlobalWindow"

    def __reduce__(self) -> tuple[Any, ...]:
        return GlobalWindow.get, ()


_GLOBAL_WINDOW = GlobalWindow()
