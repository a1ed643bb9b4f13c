"""The messages that every session between two services exchanges in addition to its own."""

from __future__ import annotations

from msgspec import Struct

from millstream.core.jobs.ids import LeaderEpoch


class Hello(Struct, frozen=True):
    """The first message of either side: the epoch of the server's leadership, as each of them knows it."""

    epoch: LeaderEpoch


class Heartbeat(Struct, frozen=True):
    """Sent by both sides every `heartbeat.interval`.

    A heartbeat with a time is echoed at once, so that its sender knows a time of its own clock at which the peer was
    connected.
    """

    time: float = 0.0
    echo: float = 0.0


class Empty(Struct, frozen=True):
    """An empty message."""


SessionSignal = Hello | Heartbeat
