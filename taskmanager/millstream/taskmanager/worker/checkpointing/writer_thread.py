"""Writes the files of a task's checkpoint on another thread, and reports the result as a mail.

A worker provides `CheckpointServices` to its tasks. Code on the writer's thread owns the captured state that it was
given, and accesses nothing else of the task; its result is sent to the worker's loop as a `SnapshotWritten`, also if it
failed.
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
    """A mail: a snapshot was written or failed. Exactly one of `written` and `error` is set.

    `final` is the error if retrying is useless.
    """

    attempt_id: str
    barrier: Barrier
    ack: CheckpointAck
    written: WrittenSnapshot | None = None
    error: str = ""
    final: UnrecoverableError | None = None


class CheckpointServices(Struct, frozen=True):
    """What a worker provides to its tasks for checkpoints. `submit` runs a function on another thread."""

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
        """Deletes files of an aborted snapshot; what cannot be deleted is removed with the snapshot's folder."""
        if files:
            self.submit(partial(self._delete, location, files))

    def _delete(self, location: str, files: tuple[str, ...]) -> None:
        try:
            self.storages.at(location).delete_files(files)
        except SnapshotError as error:
            log.warning("could not delete files of an aborted checkpoint: %s", error)


def write_states(
    captured: CapturedTask, target: SnapshotTarget, ack: CheckpointAck, began: float, services: CheckpointServices
) -> None:
    """Runs on the writer's thread: writes the states that a task captured."""
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
    """Runs on the writer's thread: writes the recorded in-flight data of a checkpoint, after its states."""
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
    """Converts to milliseconds, as in the statistics of checkpoints."""
    return max(0, round(seconds * 1000))


def summary(error: BaseException) -> str:
    """A task's error in one line, with the operator that raised it."""
    if isinstance(error, OperatorError) and error.__cause__ is not None:
        return f"{error.operator_name}: {one_line(error.__cause__)}"
    return encodable(" ".join(str(error).splitlines())) if isinstance(error, MillstreamError) else one_line(error)
