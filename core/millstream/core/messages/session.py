"""What every session between two services exchanges beside its own messages."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.core.jobs.ids import LeaderEpoch


@dataclass(frozen=True, slots=True)
class Hello:
    """The first message of either side: whose epoch the one that was dialled leads under, as each of them knows it."""

    epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Sent by both sides every `heartbeat.interval`.

    One with a time is answered at once by one that echoes it: so its sender knows that it was there to the other at a
    time of its own clock.
    """

    time: float = 0.0
    echo: float = 0.0


@dataclass(frozen=True, slots=True)
class Empty:
    """Nothing to say."""


SessionSignal = Hello | Heartbeat
