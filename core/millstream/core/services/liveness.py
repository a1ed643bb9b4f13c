"""Decides whether a peer that sends heartbeats is alive: a pure state machine, called at every beat of this end.

A peer is lost when nothing was received from it for the timeout. Time in which this end itself was suspended (its
process was frozen, its machine slept or was overloaded) does not count: messages that the peer sent in that time are
still unread.
"""

from __future__ import annotations

from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.services import HEARTBEAT_INTERVAL, HEARTBEAT_TIMEOUT


class Liveness:
    """The liveness of one peer. All times are readings of one monotonic clock."""

    def __init__(self, configuration: Configuration, now: float) -> None:
        self.timeout = configuration.get(HEARTBEAT_TIMEOUT)
        self.interval = min(configuration.get(HEARTBEAT_INTERVAL), self.timeout / 3)
        self._heard_at = now
        self._beat_at = now

    @property
    def heard_at(self) -> float:
        """When a message was last received, plus the time in which this end was suspended since."""
        return self._heard_at

    def heard(self, now: float) -> None:
        """Records a message from the peer."""
        self._heard_at = now

    @property
    def silence(self) -> float:
        """For how long nothing was received, as of the last beat."""
        return self._beat_at - self._heard_at

    def is_lost(self, now: float) -> bool:
        """Whether the peer is lost. Called each `interval`: for the time a call is late, this end was suspended."""
        late = now - self._beat_at - self.interval
        self._beat_at = now
        if late > 0:
            self._heard_at = min(self._heard_at + late, now)
        return now - self._heard_at > self.timeout
