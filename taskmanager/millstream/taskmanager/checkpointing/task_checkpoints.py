"""The checkpoints of one task: from the trigger or the first barrier to the acknowledgement, and what came of them.

Owned by the worker's loop. The capture and the barrier behind it happen between two elements; files are written on a
thread of the worker's, whose result comes back as a mail. A checkpoint that cannot be taken is declined, and the task
goes on. The reasons are those of the job manager's `CheckpointFailureReason`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from millstream.core.batches import Barrier
from millstream.core.clock import Clock
from millstream.core.snapshot.errors import SnapshotError
from millstream.core.snapshot.operator_json import operators_to_json
from millstream.core.snapshot.storage import location_of
from millstream.core.tracebacks import one_line
from millstream.proto import taskmanager_pb2 as pb
from millstream.taskmanager.checkpointing.alignment import (
    COORDINATOR,
    Abandon,
    Action,
    BarrierAligner,
    Block,
    TakeSnapshot,
    Unblock,
)
from millstream.taskmanager.checkpointing.capture import CapturedTask, capture_chain
from millstream.taskmanager.checkpointing.layout import TaskLayout
from millstream.taskmanager.checkpointing.storages import Storages
from millstream.taskmanager.checkpointing.writing import SnapshotTarget, WrittenSnapshot, write_snapshot
from millstream.taskmanager.operators.base import OperatorError

if TYPE_CHECKING:
    from millstream.taskmanager.task import Task

log = logging.getLogger(__name__)

_REMEMBERED = 64  # acknowledged checkpoints of which nothing was heard


@dataclass(frozen=True, slots=True)
class SnapshotWritten:
    """A mail: the thread is done with a snapshot. Exactly one of `written` and `error` is set."""

    attempt_id: str
    barrier: Barrier
    ack: pb.CheckpointAck
    written: WrittenSnapshot | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class CheckpointServices:
    """What a worker gives its tasks for their checkpoints. `submit` runs something on another thread."""

    allocation_id: str
    clock: Clock
    storages: Storages
    incremental: bool
    submit: Callable[[Callable[[], None]], object]
    post: Callable[[SnapshotWritten], None]
    send: Callable[[pb.WorkerMessage], None]

    def discard(self, location: str, files: tuple[str, ...]) -> None:
        """Deletes files of a snapshot that will not be; what cannot be deleted goes with the snapshot's folder."""
        if files:
            self.submit(partial(self._delete, location, files))

    def _delete(self, location: str, files: tuple[str, ...]) -> None:
        try:
            self.storages.at(location).delete_files(files)
        except SnapshotError as error:
            log.warning("files of a checkpoint that was given up are left: %s", error)


class TaskCheckpoints:
    """Made with its task; costs nothing until the first checkpoint."""

    def __init__(self, task: Task, services: CheckpointServices) -> None:
        self._task = task
        self._services = services
        self._aligner: BarrierAligner | None = None
        self._aligning_since: dict[int, float] = {}
        self._writing: dict[int, CapturedTask] = {}
        self._given_up: set[int] = set()
        self._acknowledged: dict[int, tuple[str, tuple[str, ...]]] = {}
        self._layouts: dict[int, TaskLayout] = {}
        self._full_under_way: set[int] = set()
        self._newest = 0

    @property
    def is_writing(self) -> bool:
        """Whether snapshots are being written: the task must not end before they are acknowledged."""
        return bool(self._writing)

    def trigger(self, barrier: Barrier) -> None:
        """The coordinator asks: a source, or a task whose producers have all finished."""
        if barrier.checkpoint_id <= self._newest:
            return
        if self._task.is_ending or not self._task.gates:
            self._snapshot(barrier)
        else:
            self._apply(self._alignment().received(COORDINATOR, barrier))

    def arrived(self, channel_id: int, barrier: Barrier) -> None:
        """A channel delivered a barrier."""
        self._aligning_since.setdefault(barrier.checkpoint_id, self._services.clock.monotonic())
        self._apply(self._alignment().received(channel_id, barrier))

    def channel_ended(self, channel_id: int) -> None:
        """A channel delivered its end."""
        if self._aligner is not None:
            self._apply(self._aligner.ended(channel_id))

    def completed(self, checkpoint_id: int) -> None:
        """The checkpoint is durable."""
        self._acknowledged.pop(checkpoint_id, None)
        self._full_under_way.discard(checkpoint_id)
        if checkpoint_id in self._layouts:
            self._layouts = {number: known for number, known in self._layouts.items() if number >= checkpoint_id}
        for operator in self._task.chain.operators:
            if operator.keyed_state is not None:
                operator.keyed_state.confirm(checkpoint_id)
            operator.notify_checkpoint_complete(checkpoint_id)

    def aborted(self, checkpoint_id: int) -> None:
        """The checkpoint was given up: nothing of it is kept."""
        self._full_under_way.discard(checkpoint_id)
        self._layouts.pop(checkpoint_id, None)
        self._apply(self._alignment().aborted(checkpoint_id))
        if checkpoint_id in self._writing:
            self._given_up.add(checkpoint_id)
            self._writing[checkpoint_id].release()
        location, files = self._acknowledged.pop(checkpoint_id, ("", ()))
        self._services.discard(location, files)
        for operator in self._task.chain.operators:
            operator.notify_checkpoint_aborted(checkpoint_id)

    def written(self, mail: SnapshotWritten) -> None:
        """The thread is done: acknowledges or declines, unless the checkpoint was given up meanwhile."""
        number = mail.barrier.checkpoint_id
        del self._writing[number]
        given_up = number in self._given_up
        self._given_up.discard(number)
        if mail.written is None:
            self._full_under_way.discard(number)
            if not given_up:
                self._decline(number, "CHECKPOINT_ASYNC_EXCEPTION", mail.error)
        elif given_up:
            self._services.discard(mail.barrier.location, mail.written.new_files)
        else:
            self._layouts[number] = mail.written.layout
            self._acknowledged[number] = (mail.barrier.location, mail.written.new_files)
            while len(self._acknowledged) > _REMEMBERED:
                del self._acknowledged[min(self._acknowledged)]
            self._services.send(pb.WorkerMessage(checkpoint_ack=mail.ack))

    def release(self) -> None:
        """The task is over: lets go of what is being written."""
        for captured in self._writing.values():
            captured.release()

    def _alignment(self) -> BarrierAligner:
        if self._aligner is None:
            channels = [c.channel_id for gate in self._task.gates for c in gate.channels if not c.ended]
            self._aligner = BarrierAligner(channels)
        return self._aligner

    def _apply(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Block(channel_id):
                    self._set_blocked(True, channel_id)
                case Unblock():
                    self._set_blocked(False)
                case TakeSnapshot(barrier):
                    self._snapshot(barrier)
                case Abandon(number, reason):
                    self._aligning_since.pop(number, None)
                    if reason != "aborted":
                        self._decline(number, "CHECKPOINT_DECLINED_SUBSUMED", reason)

    def _set_blocked(self, blocked: bool, channel_id: int | None = None) -> None:
        for gate in self._task.gates:
            for channel in gate.channels:
                if channel_id is None or channel.channel_id == channel_id:
                    channel.blocked = blocked

    def _snapshot(self, barrier: Barrier) -> None:
        services, number = self._services, barrier.checkpoint_id
        self._newest = max(self._newest, number)
        began = services.clock.monotonic()
        ack = pb.CheckpointAck(
            allocation_id=services.allocation_id, attempt_id=self._task.attempt_id, checkpoint_id=number,
            alignment_ms=_millis(began - self._aligning_since.pop(number, began)),
        )  # fmt: skip
        for overtaken in [known for known in self._aligning_since if known < number]:
            del self._aligning_since[overtaken]
        captured: CapturedTask | None = None
        try:
            target = self._target(barrier)
            captured = capture_chain(self._task.chain, barrier, target.shared)
        except Exception as error:
            self._decline(number, "CHECKPOINT_DECLINED", _told(error))
        try:
            self._task.emit_barrier(barrier)
        except BaseException:
            if captured is not None:
                captured.release()
            raise
        if captured is not None:
            ended = services.clock.monotonic()
            ack.sync_ms = _millis(ended - began)
            self._writing[number] = captured
            services.submit(partial(_write, captured, target, ack, ended, services))

    def _target(self, barrier: Barrier) -> SnapshotTarget:
        services = self._services
        barrier = Barrier(
            barrier.checkpoint_id, barrier.timestamp, barrier.is_savepoint, location_of(barrier.location),
            barrier.aligned, barrier.full or bool(self._full_under_way),
        )  # fmt: skip
        storage = services.storages.at(barrier.location)
        shared = (
            services.incremental
            and not barrier.is_savepoint
            and services.storages.shares_files(barrier.location, barrier.checkpoint_id)
        )
        if shared and barrier.full:
            # Once it completes, the files of its predecessors may go: nothing that starts before may refer to them.
            self._full_under_way.add(barrier.checkpoint_id)
        return SnapshotTarget(storage, barrier, self._task.deployment, shared, dict(self._layouts))

    def _decline(self, checkpoint_id: int, reason: str, message: str) -> None:
        log.info("%s declines checkpoint %d: %s", self._task.deployment.task_name, checkpoint_id, message)
        decline = pb.CheckpointDecline(
            allocation_id=self._services.allocation_id, attempt_id=self._task.attempt_id, checkpoint_id=checkpoint_id,
            reason=reason, message=message,
        )  # fmt: skip
        self._services.send(pb.WorkerMessage(checkpoint_decline=decline))


def _write(
    captured: CapturedTask, target: SnapshotTarget, ack: pb.CheckpointAck, began: float, services: CheckpointServices
) -> None:
    """On the writer's thread."""
    try:
        written = write_snapshot(captured, target)
        ack.operators = operators_to_json(written.operators)
        ack.bytes_written = written.bytes_written
        ack.async_ms = _millis(services.clock.monotonic() - began)
        mail = SnapshotWritten(ack.attempt_id, target.barrier, ack, written)
    except Exception as error:
        mail = SnapshotWritten(ack.attempt_id, target.barrier, ack, error=_told(error))
    finally:
        captured.release()
    services.post(mail)


def _millis(seconds: float) -> int:
    return max(0, round(seconds * 1000))


def _told(error: BaseException) -> str:
    if isinstance(error, OperatorError) and error.__cause__ is not None:
        return f"{error.operator_name}: {one_line(error.__cause__)}"
    return one_line(error)
