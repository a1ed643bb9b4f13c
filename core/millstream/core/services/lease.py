"""A lease: how long a service may act for a peer from which it receives no heartbeats. A pure state machine.

The dispatcher reports the jobs of a job manager as failed `heartbeat.timeout` after their session ended, and jobs that
are reported as failed must not run. So the job manager acts on a lease, which lasts for that time less a margin, from
the latest time of its own clock at which it is known to have been registered at the dispatcher. The dispatcher echoes
the times of heartbeats (`Session.confirmed_at`), so neither differences between clocks nor unread messages matter. Task
managers hold leases from job managers in the same way.

Once the lease no longer `holds`, nothing may be completed. Once it `is_over`, tasks have to be stopped. The two differ
only after this process itself was suspended: both ends may have been, which turns out a short time later.
"""

from __future__ import annotations

from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.services import HA_TYPE, HEARTBEAT_TIMEOUT, ZOOKEEPER_CLIENT_SESSION_TIMEOUT

_SHARE = 0.8  # of the time after which the other side acts: the rest is for stopping tasks
_PAUSE = 0.1  # of the duration: to receive a heartbeat of the peer after this process was suspended


def lease_seconds(configuration: Configuration) -> float:
    """Returns how long one side continues without the other, which considers it lost after `heartbeat.timeout`."""
    return _SHARE * configuration.get(HEARTBEAT_TIMEOUT)


def leaderless_seconds(configuration: Configuration) -> float:
    """Returns how long tasks continue without a job manager.

    With high availability another one becomes the leader of their job, which is not reported as failed until then: so
    they also wait until ZooKeeper has noticed the loss of the first one.
    """
    waits = configuration.get(HA_TYPE) == "zookeeper"
    notices = configuration.get(ZOOKEEPER_CLIENT_SESSION_TIMEOUT) if waits else 0.0
    return lease_seconds(configuration) + notices


class Lease:
    """The lease of one service. Times are readings of one monotonic clock; `is_over` is called at every beat."""

    def __init__(self, duration: float, beat: float, now: float) -> None:
        self.duration = duration
        self._beat = beat
        self._until = now + duration
        self._beat_at = now
        self._pause_until: float | None = None

    def renew(self, confirmed_at: float) -> None:
        """Renews the lease: at this past time the peer was alive and had this service registered."""
        if confirmed_at + self.duration > self._until:
            self._until = confirmed_at + self.duration
            self._pause_until = None

    def holds(self, now: float) -> bool:
        """Whether the peer cannot consider this service lost yet."""
        return now < self._until

    def is_over(self, now: float) -> bool:
        """Whether tasks have to be stopped. After a late beat, the peer gets a short additional time once."""
        late = now - self._beat_at - self._beat
        self._beat_at = now
        if late > self.duration * _PAUSE and self._pause_until is None:
            self._pause_until = now + self.duration * _PAUSE
        return now >= max(self._until, self._pause_until or 0.0)
