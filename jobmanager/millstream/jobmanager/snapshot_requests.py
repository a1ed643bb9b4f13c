"""Snapshots and rescales that the dispatcher asks for: from its requests to events, and the results back.

A result is kept after it was sent, so that a request which comes again is answered again and does nothing else. While
there is no session with the dispatcher, results wait for the next one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from millstream.core.errors import MillstreamError
from millstream.core.messages.rescaling import RescaleResult
from millstream.core.messages.snapshots import SnapshotKind, SnapshotRequest, SnapshotResult
from millstream.jobmanager.checkpoints.events import CheckpointRequested, SavepointRequested
from millstream.jobmanager.checkpoints.model import SavepointFormat, TriggerId

_REMEMBERED = 256
R = TypeVar("R", SnapshotResult, RescaleResult)


def requested_event(request: SnapshotRequest) -> SavepointRequested | CheckpointRequested:
    """What the coordinator is told; an error when the request makes no sense."""
    trigger_id = TriggerId(request.trigger_id)
    if request.kind is SnapshotKind.CHECKPOINT:
        return CheckpointRequested(trigger_id, request.full)
    wanted = request.format or SavepointFormat.CANONICAL.value
    if wanted not in set(SavepointFormat):
        known = ", ".join(SavepointFormat)
        raise MillstreamError(f"'{wanted}' is no format of a savepoint: it is one of {known}")
    stop = request.kind is SnapshotKind.STOP
    directory = request.target_directory or None
    return SavepointRequested(trigger_id, directory, stop, stop and request.drain, SavepointFormat(wanted))


class RequestResults(Generic[R]):
    """Of one kind of request. Owned by the job manager's loop. `send` is the session's way out, while there is one."""

    def __init__(self) -> None:
        self._results: OrderedDict[str, R] = OrderedDict()
        self._unsent: list[R] = []
        self._send: Callable[[R], None] | None = None

    def connected(self, send: Callable[[R], None]) -> None:
        """There is a session: what waited for it is sent."""
        self._send = send
        unsent, self._unsent = self._unsent, []
        for result in unsent:
            send(result)

    def disconnected(self) -> None:
        """The session is gone."""
        self._send = None

    def add(self, result: R) -> None:
        """A request was answered."""
        self._results[result.trigger_id] = result
        if len(self._results) > _REMEMBERED:
            self._results.popitem(last=False)
        if self._send is None:
            self._unsent.append(result)
        else:
            self._send(result)

    def answer_again(self, trigger_id: str) -> bool:
        """Whether the request was answered before; then it is again."""
        result = self._results.get(trigger_id)
        if result is not None:
            self.add(result)
        return result is not None
