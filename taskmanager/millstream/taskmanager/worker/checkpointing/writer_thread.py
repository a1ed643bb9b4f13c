"""The files of a task's checkpoint, written on another thread: the work there, and the mail that it ends with.

A worker hands its tasks `CheckpointServices`. What runs on the thread owns the captured state that it was given, and
touches nothing else of the task; its result goes to the worker's loop as a `SnapshotWritten`, also when it failed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from millstream.core.clock import Clock
from millstream.core.errors import MillstreamError, UnrecoverableError
from millstream.core.jobs.ids import AllocationId
from millstream.core.logs.tracebacks import encodable, one_line
from millstream.core.messages.checkpoints import CheckpointAck
from millstream.core.messages.task_manager import WorkerMessage
from millstream.core.records.batches import Barrier
from millstream.core.snapshot.errors import SnapshotError
from millstream.core.snapshot.metadata.operator_json import operators_to_json
from millstream.taskmanager.worker.checkpointing.capture import CapturedTask
from millstream.taskmanager.worker.checkpointing.local_copies import SlotCopies
from millstream.taskmanager.worker.checkpointing.storages import Storages
from millstream.taskmanager.worker.checkpointing.writing import SnapshotTarget, WrittenSnapshot, joined, write_snapshot
from millstream.taskmanager.worker.operators.base import OperatorError

log = logging.getLogger(__name__)


class SnapshotWritten(Struct, frozen=True):
    """A mail: the thread is done with a snapshot. Exactly one of `written` and `error` is set.

    `final` is the error when there is no use in trying again.
    """

    attempt_id: str
    barrier: Barrier
    ack: CheckpointAck
    written: WrittenSnapshot | None = None
    error: str = ""
    final: UnrecoverableError | None = None


class CheckpointServices(Struct, frozen=True):
    """What a worker gives its tasks for their checkpoints. `submit` runs something on another thread."""

    allocation_id: AllocationId
    clock: Clock
    storages: Storages
    incremental: bool
    submit: Callable[[Callable[[], None]], object]
    post: Callable[[SnapshotWritten], None]
    send: Callable[[WorkerMessage], None]
    takes_final: bool
    """Whether a bounded job ends with a last checkpoint."""
    copies: SlotCopies

    def discard(self, location: str, files: tuple[str, ...]) -> None:
        """Deletes files of a snapshot that will not be; what cannot be deleted goes with the snapshot's folder."""
        if files:
            self.submit(partial(self._delete, location, files))

    def _delete(self, location: str, files: tuple[str, ...]) -> None:
        try:
            self.storages.at(location).delete_files(files)
        except SnapshotError as error:
            log.warning("files of a checkpoint that was given up are left: %s", error)


def write_states(
    captured: CapturedTask, target: SnapshotTarget, ack: CheckpointAck, began: float, services: CheckpointServices
) -> None:
    """On the writer's thread: the states that a task captured."""
    try:
        written = write_snapshot(captured, target)
        ack = replace(
            ack,
            operators=operators_to_json(written.operators),
            bytes_written=written.bytes_written,
            async_ms=millis(services.clock.monotonic() - began),
        )
        mail = SnapshotWritten(ack.attempt_id, target.barrier, ack, written)
    except BaseException as error:
        mail = SnapshotWritten(ack.attempt_id, target.barrier, ack, error=summary(error), final=_final(error))
    finally:
        captured.release()
    services.post(mail)


def write_caught(
    caught: CapturedTask, target: SnapshotTarget, mail: SnapshotWritten, services: CheckpointServices
) -> None:
    """On the writer's thread: what a checkpoint caught, behind its states."""
    states = mail.written
    assert states is not None
    try:
        written = joined(states, write_snapshot(caught, target))
        ack = replace(
            mail.ack,
            operators=operators_to_json(written.operators),
            bytes_written=written.bytes_written,
            persisted_bytes=sum(state.size for operator in caught.operators for state in operator.in_flight),
            unaligned=True,
        )
        mail = replace(mail, ack=ack, written=written)
    except BaseException as error:
        services.discard(mail.barrier.location, states.new_files)
        mail = replace(mail, written=None, error=summary(error), final=_final(error))
    services.post(mail)


def _final(error: BaseException) -> UnrecoverableError | None:
    return error if isinstance(error, UnrecoverableError) else None


def millis(seconds: float) -> int:
    """As checkpoints are measured."""
    return max(0, round(seconds * 1000))


def summary(error: BaseException) -> str:
    """A task's error in one line, with the operator that it came from."""
    if isinstance(error, OperatorError) and error.__cause__ is not None:
        return f"{error.operator_name}: {one_line(error.__cause__)}"
    return encodable(" ".join(str(error).splitlines())) if isinstance(error, MillstreamError) else one_line(error)
