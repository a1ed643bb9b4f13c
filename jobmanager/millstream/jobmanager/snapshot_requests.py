"""Snapshots and rescales that the dispatcher requests: converts requests to events, and sends the results.

Results are kept after they were sent: a repeated request returns the same result and has no other effect.
While there is no session with the dispatcher, results wait for the next one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from millstream.core.errors import MillstreamError
from millstream.core.messages.rescaling import RescaleResult
from millstream.core.messages.snapshots import SnapshotRequest, SnapshotRequestKind, SnapshotResult
from millstream.jobmanager.checkpoints.events import CheckpointRequested, SavepointRequested
from millstream.jobmanager.checkpoints.model import SavepointFormat, TriggerId

_REMEMBERED = 256
R = TypeVar("R", SnapshotResult, RescaleResult)


def requested_event(request: SnapshotRequest) -> SavepointRequested | CheckpointRequested:
    """Converts a request to an event of the coordinator; raises MillstreamError when it is not valid."""
    trigger_id = TriggerId(request.trigger_id)
    if request.kind is SnapshotRequestKind.CHECKPOINT:
        return CheckpointRequested(trigger_id, request.full)
    wanted = request.format or SavepointFormat.CANONICAL.value
    if wanted not in set(SavepointFormat):
        known = ", ".join(SavepointFormat)
        raise MillstreamError(f"'{wanted}' is not a format of savepoints, which are {known}")
    stop = request.kind is SnapshotRequestKind.STOP
    directory = request.target_directory or None
    return SavepointRequested(trigger_id, directory, stop, stop and request.drain, SavepointFormat(wanted))


class RequestResults(Generic[R]):
    """The results of one kind of request. Owned by the job manager's loop. `send` belongs to the current session."""

    def __init__(self) -> None:
        self._results: OrderedDict[str, R] = OrderedDict()
        self._unsent: list[R] = []
        self._send: Callable[[R], None] | None = None

    def connected(self, send: Callable[[R], None]) -> None:
        """Sends the results that waited for a session."""
        self._send = send
        unsent, self._unsent = self._unsent, []
        for result in unsent:
            send(result)

    def disconnected(self) -> None:
        """Records that the session was lost."""
        self._send = None

    def add(self, result: R) -> None:
        """Sends a result, or keeps it for the next session."""
        self._results[result.trigger_id] = result
        if len(self._results) > _REMEMBERED:
            self._results.popitem(last=False)
        if self._send is None:
            self._unsent.append(result)
        else:
            self._send(result)

    def resend(self, trigger_id: str) -> bool:
        """Sends the result of a repeated request again; returns false when there is none yet."""
        result = self._results.get(trigger_id)
        if result is not None:
            self.add(result)
        return result is not None
