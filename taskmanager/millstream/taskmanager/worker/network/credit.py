"""Credit, as two pure machines: the receiver that grants it and the sender that spends it.

A credit guarantees room for one buffer at the receiver. Each channel has `exclusive` buffers of its own; in addition,
the channels of one gate share a floating pool, assigned to those whose senders announced a backlog. Barriers with
priority need no credit, and are not counted here. Invariants: a sender never has more buffers in flight than credit; no
credit is granted while the buffers granted to or held for channels beyond their exclusive ones sum up to the pool or
more.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct


class CreditViolationError(Exception):
    """A sender sent without credit."""


class _Room(Struct):
    promised: int = 0  # granted, not used yet
    queued: int = 0  # arrived, not consumed yet
    backlog: int = 0  # announced by the sender

    @property
    def held(self) -> int:
        return self.promised + self.queued


class CreditReceiver:
    """Grants credit for the remote channels of one gate. Each call returns the new grants as (channel, buffers)."""

    def __init__(self, channels: Sequence[int], exclusive: int, floating: int) -> None:
        self._exclusive = exclusive
        self._floating = floating
        self._rooms = {channel: _Room() for channel in channels}
        self._next = 0

    def start(self) -> list[tuple[int, int]]:
        """Grants the first credit: every channel's exclusive buffers."""
        return self._grant()

    def resize(self, floating: int) -> list[tuple[int, int]]:
        """Changes the size of the pool; granted credit stays granted."""
        self._floating = floating
        return self._grant()

    def arrived(self, channel: int, backlog: int) -> list[tuple[int, int]]:
        """A buffer arrived, with the number of those that wait behind it."""
        room = self._rooms[channel]
        if room.promised == 0:
            raise CreditViolationError(f"a buffer arrived on channel {channel} without credit")
        room.promised -= 1
        room.queued += 1
        room.backlog = backlog
        return self._grant()

    def announced(self, channel: int, backlog: int) -> list[tuple[int, int]]:
        """The sender announced how many buffers wait."""
        self._rooms[channel].backlog = backlog
        return self._grant()

    def consumed(self, channel: int) -> list[tuple[int, int]]:
        """The task took a buffer."""
        self._rooms[channel].queued -= 1
        return self._grant()

    def closed(self, channel: int) -> list[tuple[int, int]]:
        """The channel has ended; its buffers are released."""
        self._rooms.pop(channel, None)
        return self._grant()

    @property
    def capacity(self) -> int:
        """The number of buffers that fit."""
        return self._exclusive * len(self._rooms) + self._floating if self._rooms else 0

    @property
    def floating_in_use(self) -> int:
        """How many buffers of the pool are granted or held."""
        return sum(max(0, room.held - self._exclusive) for room in self._rooms.values())

    def _grant(self) -> list[tuple[int, int]]:
        grants: dict[int, int] = {}
        for channel, room in self._rooms.items():
            if room.held < self._exclusive:
                grants[channel] = self._exclusive - room.held
                room.promised = self._exclusive - room.queued
        free = self._floating - self.floating_in_use
        if free > 0:
            hungry = [c for c, room in self._rooms.items() if room.backlog > room.promised]
            while free > 0 and hungry:
                self._next += 1
                channel = hungry[self._next % len(hungry)]
                room = self._rooms[channel]
                room.promised += 1
                free -= 1
                grants[channel] = grants.get(channel, 0) + 1
                if room.backlog <= room.promised:
                    hungry.remove(channel)
        return list(grants.items())


class CreditSender:
    """Counts the credit of one channel on the sending side."""

    __slots__ = ("_announced", "credit")

    def __init__(self) -> None:
        self.credit = 0
        self._announced = 0

    def granted(self, buffers: int) -> None:
        """The receiver has granted credit."""
        self.credit += buffers

    def spend(self, backlog: int) -> None:
        """Uses one credit for a buffer that announces those behind it."""
        if self.credit == 0:
            raise CreditViolationError("sending without credit")
        self.credit -= 1
        self._announced = backlog

    def announcement(self, backlog: int) -> int | None:
        """The backlog to announce if the channel is blocked and the receiver does not know; None: nothing new."""
        if self.credit == 0 and backlog > 0 and self._announced == 0:
            self._announced = backlog
            return backlog
        return None
