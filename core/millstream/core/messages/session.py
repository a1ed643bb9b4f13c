"""What every session between two services exchanges beside its own messages."""

from __future__ import annotations

from msgspec import Struct

from millstream.core.jobs.ids import LeaderEpoch


class Hello(Struct, frozen=True):
    """The first message of either side: whose epoch the one that was dialled leads under, as each of them knows it."""

    epoch: LeaderEpoch


class Heartbeat(Struct, frozen=True):
    """Sent by both sides every `heartbeat.interval`.

    One with a time is echoed at once: so its sender knows that it was there to the other at a
    time of its own clock.
    """

    time: float = 0.0
    echo: float = 0.0


class Empty(Struct, frozen=True):
    """Nothing to say."""


SessionSignal = Hello | Heartbeat
