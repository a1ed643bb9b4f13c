"""Event time of a task, derived from the watermarks of its channels, or of a source, from those of its splits. Pure.

The clock is the lowest watermark of the channels that are not idle, and never moves back. When all channels are idle,
the output is idle too, after the clock has advanced to the highest watermark that was held back. A channel may be
behind the clock, because it is new or was idle. A task continues without such a channel until it has caught up, since
its records are late already; a source waits for it (`waits`), since the progress of a new split is unknown.

Each event carries its time (`at`, in milliseconds), so that the metrics show which channel holds the clock back.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable

from msgspec import Struct

from millstream.core.jobs.progress import EventTime, StreamTime
from millstream.core.records.batches import MIN_TIMESTAMP, StreamSignal, Watermark, WatermarkStatus

_FEW = 4  # the number of slowest channels that are reported


class _Channel(Struct):
    timestamp: int = MIN_TIMESTAMP
    is_idle: bool = False
    counts: bool = True  # takes part in the minimum: neither idle nor, without `waits`, behind the clock
    moved_at: int = 0


class WatermarkValve:
    """Combines watermarks.

    Each method returns what is to be emitted, in order; with `waits`, channels behind the clock count.
    """

    def __init__(self, channels: Iterable[Hashable] = (), waits: bool = False, at: int = 0) -> None:
        self._channels: dict[Hashable, _Channel] = {channel: _Channel(moved_at=at) for channel in channels}
        self._waits = waits
        self.timestamp = MIN_TIMESTAMP
        """The current watermark."""
        self.is_idle = False

    def begun(self, channel: Hashable, at: int = 0) -> list[StreamSignal]:
        """Adds a channel whose watermark is unknown."""
        counts = self._waits or self.timestamp == MIN_TIMESTAMP
        self._channels.setdefault(channel, _Channel(counts=counts, moved_at=at))
        return self._wake()

    def watermark(self, channel: Hashable, timestamp: int, at: int = 0) -> list[StreamSignal]:
        """Updates the watermark of a channel; the watermark of an idle channel is ignored."""
        known = self._channels[channel]
        if known.is_idle or timestamp <= known.timestamp:
            return []
        known.timestamp, known.moved_at = timestamp, at
        if not known.counts:
            if timestamp < self.timestamp:
                return []
            known.counts = True
        return self._advance()

    def status(self, channel: Hashable, is_idle: bool, at: int = 0) -> list[StreamSignal]:
        """Sets a channel idle or active."""
        known = self._channels[channel]
        if known.is_idle == is_idle:
            return []
        known.is_idle, known.moved_at = is_idle, at
        known.counts = not is_idle and (self._waits or known.timestamp >= self.timestamp)
        return self._settle() if is_idle else [*self._wake(), *self._advance()]

    def ended(self, channel: Hashable) -> list[StreamSignal]:
        """Removes a channel that has ended."""
        if self._channels.pop(channel, None) is None or not self._channels:
            return []
        return self._settle()

    def emptied(self) -> list[StreamSignal]:
        """Becomes idle if there is no channel; called when there has been none for long.

        A new channel ends the idleness.
        """
        if self._channels or self.is_idle:
            return []
        self.is_idle = True
        return [WatermarkStatus(True)]

    def lowest(self, channels: Iterable[Hashable]) -> int:
        """The lowest watermark of some of the channels without the idle ones; without any, the clock."""
        known = [found for channel in channels if (found := self._channels.get(channel)) is not None]
        return min((found.timestamp for found in known if not found.is_idle), default=self.timestamp)

    def progress(self, describe: Callable[[Hashable, StreamTime], StreamTime]) -> EventTime:
        """Which channels hold the clock back; `describe` adds what is known elsewhere, such as the channel's name."""
        channels = self._channels
        awake = [channel for channel, known in channels.items() if not known.is_idle]
        slowest = heapq.nsmallest(_FEW, awake or channels, key=lambda channel: channels[channel].timestamp)
        return EventTime(
            self.timestamp,
            self.is_idle,
            len(channels),
            len(channels) - len(awake),
            max((channels[channel].timestamp for channel in awake), default=MIN_TIMESTAMP),
            tuple(describe(channel, _stream(channels[channel])) for channel in slowest),
        )

    def _wake(self) -> list[StreamSignal]:
        if not self.is_idle:
            return []
        self.is_idle = False
        return [WatermarkStatus(False)]

    def _settle(self) -> list[StreamSignal]:
        """Advances the clock, or becomes idle, after a channel has stopped counting."""
        if not all(known.is_idle for known in self._channels.values()):
            return self._advance()
        if self.is_idle:
            return []
        self.is_idle = True
        return [*self._move_to(max(known.timestamp for known in self._channels.values())), WatermarkStatus(True)]

    def _advance(self) -> list[StreamSignal]:
        lowest = min((known.timestamp for known in self._channels.values() if known.counts), default=MIN_TIMESTAMP)
        return self._move_to(lowest)

    def _move_to(self, timestamp: int) -> list[StreamSignal]:
        if timestamp <= self.timestamp:
            return []
        self.timestamp = timestamp
        return [Watermark(timestamp)]


def _stream(known: _Channel) -> StreamTime:
    return StreamTime("", known.timestamp, known.moved_at, idle=known.is_idle)
