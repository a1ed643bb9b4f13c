"""Event time of a task, made of the watermarks of its channels, or of a source, made of those of its splits. Pure.

The clock is the lowest watermark over the channels that are not idle, and never goes back. When all channels are idle,
so is the whole; whatever the others held back until then is let go first. A channel that comes behind the clock, as it
wakes up or is new, is a different matter for the two: a task continues without it until it has caught up, since the
records that it brings are late already; a source waits for it, since it is unknown what its splits will bring.

Each event comes with its time (`at`, in milliseconds), for users who need what holds it back.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable

from msgspec import Struct

from millstream.core.jobs.progress import EventTime, StreamTime
from millstream.core.records.batches import MIN_TIMESTAMP, StreamSignal, Watermark, WatermarkStatus

_FEW = 4  # channels that are named as the slowest


class _Channel(Struct):
    timestamp: int = MIN_TIMESTAMP
    is_idle: bool = False
    counts: bool = True  # not idle, and not behind the clock if that continues without it
    moved_at: int = 0


class WatermarkValve:
    """Each method returns what is to be sent on, in order. With `waits`, the clock waits for what comes behind it."""

    def __init__(self, channels: Iterable[Hashable] = (), waits: bool = False, at: int = 0) -> None:
        self._channels: dict[Hashable, _Channel] = {channel: _Channel(moved_at=at) for channel in channels}
        self._waits = waits
        self.timestamp = MIN_TIMESTAMP
        """The clock."""
        self.is_idle = False

    def begun(self, channel: Hashable, at: int = 0) -> list[StreamSignal]:
        """A new channel, of which no watermark is known."""
        counts = self._waits or self.timestamp == MIN_TIMESTAMP
        self._channels.setdefault(channel, _Channel(counts=counts, moved_at=at))
        return self._wake()

    def watermark(self, channel: Hashable, timestamp: int, at: int = 0) -> list[StreamSignal]:
        """A channel's watermark; one of an idle channel is ignored."""
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
        """A channel becomes idle, or wakes up."""
        known = self._channels[channel]
        if known.is_idle == is_idle:
            return []
        known.is_idle, known.moved_at = is_idle, at
        known.counts = not is_idle and (self._waits or known.timestamp >= self.timestamp)
        return self._settle() if is_idle else [*self._wake(), *self._advance()]

    def ended(self, channel: Hashable) -> list[StreamSignal]:
        """Nothing more comes on a channel, so it is not waited for."""
        if self._channels.pop(channel, None) is None or not self._channels:
            return []
        return self._settle()

    def emptied(self) -> list[StreamSignal]:
        """There has been no channel for so long that none is waited for; a new one is waited for again."""
        if self._channels or self.is_idle:
            return []
        self.is_idle = True
        return [WatermarkStatus(True)]

    def told(self, describe: Callable[[Hashable, StreamTime], StreamTime]) -> EventTime:
        """What holds the clock back; `describe` adds to a channel what is known elsewhere, such as its name."""
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
        """After a channel stopped counting."""
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
