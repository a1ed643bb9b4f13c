"""Stops a local cluster so that no process of it is left: politely first, then by force."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence

from millstream.cli.cluster.directory import ClusterDirectory
from millstream.core.errors import MillstreamError
from millstream.resourcemanager.process_records import ProcessRecord

_POLL = 0.05
_KILL_TIMEOUT = 10.0


def stop_cluster(cluster: ClusterDirectory, timeout: float) -> int:
    """Ends every member within the timeout, and returns how many there were. Raises when one cannot be killed."""
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


def stop_services(cluster: ClusterDirectory, names: Sequence[str], timeout: float) -> list[str]:
    """Ends single services, and returns which of them were running. Task managers are forgotten with that."""
    records = {name: record for name, record in cluster.services().items() if name in names}
    running = {name: record for name, record in records.items() if record.is_running()}

    def left() -> list[ProcessRecord]:
        return [record for record in running.values() if record.is_running()]

    for record in running.values():
        record.signal_group(signal.SIGTERM)
    _wait(left, timeout)
    for record in left():
        record.signal_group(signal.SIGKILL)
    _wait(left, _KILL_TIMEOUT)
    if left():
        raise MillstreamError(f"these processes cannot be killed: {', '.join(str(record.pid) for record in left())}")
    for name, record in records.items():
        if record.service == "taskmanager":
            (cluster.run / f"{name}.json").unlink(missing_ok=True)
    return list(running)


def _wait(members: Callable[[], list[ProcessRecord]], timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while members() and time.monotonic() < deadline:
        time.sleep(_POLL)
