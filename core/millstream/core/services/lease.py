"""How long a service may act for another that it does not hear from: a pure machine.

The dispatcher reports the jobs of a job manager as failed `heartbeat.timeout` after their session ended, and what is
reported as failed must not run. So the job manager acts on a lease: it lasts for the same time less a margin, counted
from the latest moment of its own clock of which it knows that the dispatcher had it registered then. The dispatcher
echoes the times of heartbeats (`Session.confirmed_at`), so neither two clocks nor messages that waited to be read
matter. Task managers count in the same way for job managers.

After the lease `holds` no longer, nothing may be completed. When it `is_over`, what runs has to be stopped. The two
differ only after this process itself stood still: it may be that both ends did, and a short time shows.
"""

from __future__ import annotations

from millstream.core.settings.configuration import Configuration

_SHARE = 0.8  # of the time after which the other side acts: the rest is for stopping what runs
_PAUSE = 0.1  # of the duration: to hear from the peer after a standstill


def lease_seconds(configuration: Configuration) -> float:
    """How long one side continues without the other, which gives it up after `heartbeat.timeout`."""
    return _SHARE * configuration.seconds("heartbeat.timeout")


def leaderless_seconds(configuration: Configuration) -> float:
    """How long tasks continue without a job manager.

    With high availability another one comes to lead their job, and nobody reports it as failed meanwhile: so they also
    wait until ZooKeeper has noticed that the first one is gone.
    """
    waits = configuration.string("high-availability.type") == "zookeeper"
    notices = configuration.seconds("high-availability.zookeeper.client.session-timeout") if waits else 0.0
    return lease_seconds(configuration) + notices


class Lease:
    """One service's. All times are readings of one monotonic clock; `is_over` is asked at every beat."""

    def __init__(self, duration: float, beat: float, now: float) -> None:
        self.duration = duration
        self._beat = beat
        self._until = now + duration
        self._beat_at = now
        self._pause_until: float | None = None

    def renew(self, confirmed_at: float) -> None:
        """At this time, in the past, the peer was there and counted on this service."""
        if confirmed_at + self.duration > self._until:
            self._until = confirmed_at + self.duration
            self._pause_until = None

    def holds(self, now: float) -> bool:
        """Whether the peer cannot have given this service up yet."""
        return now < self._until

    def is_over(self, now: float) -> bool:
        """Called at every beat; after a beat that comes late, once, the peer gets a short time to be heard."""
        late = now - self._beat_at - self._beat
        self._beat_at = now
        if late > self.duration * _PAUSE and self._pause_until is None:
            self._pause_until = now + self.duration * _PAUSE
        return now >= max(self._until, self._pause_until or 0.0)
