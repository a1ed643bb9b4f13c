"""Whether a peer that sends heartbeats is still there: a pure machine, asked at every beat of this end.

A peer counts as lost when nothing was heard of it for the timeout. Time in which this end itself stood still (its
process was frozen, its machine slept or was overloaded) is no silence of the peer's: what the peer sent meanwhile
still waits to be read.
"""

from __future__ import annotations

from millstream.core.settings.configuration import Configuration


class Liveness:
    """What one end knows of its peer. All times are readings of one monotonic clock."""

    def __init__(self, configuration: Configuration, now: float) -> None:
        self.timeout = configuration.seconds("heartbeat.timeout")
        self.interval = min(configuration.seconds("heartbeat.interval"), self.timeout / 3)
        self._heard_at = now
        self._beat_at = now

    @property
    def heard_at(self) -> float:
        """When something came last; later by the time in which this end stood still since."""
        return self._heard_at

    def heard(self, now: float) -> None:
        """Something came from the peer."""
        self._heard_at = now

    @property
    def silence(self) -> float:
        """For how long nothing was heard, as of the last beat."""
        return self._beat_at - self._heard_at

    def is_lost(self, now: float) -> bool:
        """Called at every beat, which is due each `interval`: by how much it is late, this end stood still."""
        late = now - self._beat_at - self.interval
        self._beat_at = now
        if late > 0:
            self._heard_at = min(self._heard_at + late, now)
        return now - self._heard_at > self.timeout
