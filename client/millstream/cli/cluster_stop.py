"""Stops a local cluster so that no process of it is left: politely first, then by force."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from millstream.cli.cluster_directory import ClusterDirectory
from millstream.core.errors import MillstreamError
from millstream.resourcemanager.process_records import ProcessRecord

_POLL = 0.05
_KILL_TIMEOUT = 10.0


def stop_cluster(cluster: ClusterDirectory, timeout: float) -> int:
    """Ends every member within the timeout, and answers how many there were. Raises when one cannot be killed."""
    members = cluster.members()
    for record in members:
        record.signal_group(signal.SIGTERM)
    _wait(cluster.members, timeout)
    deadline = time.monotonic() + _KILL_TIMEOUT
    while left := cluster.members():
        if time.monotonic() > deadline:
            pids = ", ".join(str(record.pid) for record in left)
            raise MillstreamError(f"these processes of the cluster in {cluster.root} cannot be killed: {pids}")
        for record in left:
            record.signal_group(signal.SIGKILL)
        _wait(cluster.members, _POLL)
    cluster.forget()
    return len(members)


def _wait(members: Callable[[], list[ProcessRecord]], timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while members() and time.monotonic() < deadline:
        time.sleep(_POLL)
