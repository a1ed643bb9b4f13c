"""The checkpoints of one task: from the trigger or the first barrier to the acknowledgement, and their outcome.

Owned by the worker's loop. The capture and the barrier behind it happen between two elements; files are written on
another thread of the worker, whose result arrives as a mail. A checkpoint that cannot be taken is declined, and the
task continues.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from millstream.core.jobs.barriers import StopMode
from millstream.core.jobs.failure_kinds import DeclineReason
from millstream.core.jobs.failures import TaskFailure
from millstream.core.messages.checkpoints import CheckpointAck, CheckpointDecline, CommitFailed, InputsEnded
from millstream.core.records.batches import Barrier
from millstream.core.snapshot.storage.storage import FileTarget, location_of
from millstream.core.snapshot.storage.uri_files import plain_uri
from millstream.taskmanager.worker.checkpointing.alignment import (
    COORDINATOR,
    Abandon,
    Action,
    AllDelivered,
    BarrierAligner,
    Block,
    TakeSnapshot,
    Unblock,
)
from millstream.taskmanager.worker.checkpointing.capture import CapturedTask, capture_chain
from millstream.taskmanager.worker.checkpointing.checkpoint_records import (
    Arrival,
    CheckpointRecord,
    CheckpointRecords,
    Stage,
)
from millstream.taskmanager.worker.checkpointing.task_commits import TaskCommits
from millstream.taskmanager.worker.checkpointing.unaligned import InFlightRecords
from millstream.taskmanager.worker.checkpointing.writer_thread import (
    CheckpointServices,
    SnapshotWritten,
    millis,
    summary,
    write_caught,
    write_states,
)
from millstream.taskmanager.worker.checkpointing.writing import SnapshotTarget
from millstream.taskmanager.worker.failures import describe_failure
from millstream.taskmanager.worker.interruption import TaskInterrupted
from millstream.taskmanager.worker.tasks.task_life import Phase

if TYPE_CHECKING:
    from millstream.taskmanager.worker.tasks.task import Task

log = logging.getLogger(__name__)


class TaskCheckpoints:
    """The checkpoints of one task; without cost until the first checkpoint."""

    def __init__(self, task: Task, services: CheckpointServices) -> None:
        self._task = task
        self._services = services
        self.copies = services.copies.of(task.deployment.vertex_id, task.deployment.subtask)
        self._aligner: BarrierAligner | None = None
        self.records = CheckpointRecords()
        """What is known of each checkpoint."""
        self._last_channel = COORDINATOR  # of the last barrier or end
        self._coordinator_ahead_ms = 0
        self._in_flight = InFlightRecords(task)
        self.commits = TaskCommits(task.life, self._commit_failed)
        self._newest = 0
        self._draining: tuple[Barrier, frozenset[int]] | None = None
        self.alignment_seconds = 0.0
        """The duration of the last checkpoint's alignment, from the first barrier to the last."""
        self.start_delay_ms = 0
        """From the trigger of the last checkpoint to its first barrier."""
        self.state_sizes: dict[tuple[str, str], int] = {}
        """The bytes of each state in the last completed snapshot, by operator id and name."""

    @property
    def is_writing(self) -> bool:
        """Whether snapshots are being written: the task must not end before they are acknowledged."""
        return self.records.is_writing

    @property
    def awaits_results(self) -> bool:
        """Whether a savepoint that drains the job waits for results of operators: the task takes no input meanwhile."""
        return self._draining is not None

    def go_on(self) -> bool:
        """Takes that savepoint, if the results have arrived; returns whether they have."""
        if self._draining is None or not self._task.finish_operators():
            return False
        (barrier, recorded), self._draining = self._draining, None
        self._snapshot(barrier, recorded)
        return True

    def trigger(self, barrier: Barrier) -> None:
        """Triggered by the coordinator: for a source, a task that has ended, or one whose producers all have."""
        if barrier.checkpoint_id <= self._newest or self._task.had_finished:
            return
        self._note_arrival(barrier)
        if self._task.life.phase is Phase.ENDED or not self._task.gates:
            self._snapshot(barrier)
        else:
            self._apply(self._alignment().received(COORDINATOR, barrier))

    def arrived(self, channel_id: int, barrier: Barrier) -> None:
        """A barrier was received on a channel."""
        self._note_arrival(barrier)
        self._last_channel = channel_id
        self._apply(self._alignment().received(channel_id, barrier))

    def barriers_due(self, now: float) -> float | None:
        """Handles barriers that wait behind records, here and in the outputs; returns when to call this again."""
        announced = [barrier for gate in self._task.gates for barrier in gate.take_announced()]
        for barrier in announced:
            self._note_arrival(barrier)
            self._apply(self._alignment().announced(barrier))
        aligner, in_flight, now_ms = self._aligner, self._in_flight, int(now * 1000) + self._coordinator_ahead_ms
        if not in_flight.is_under_way and (aligner is None or not aligner.is_aligning):
            return now if announced else None
        if aligner is not None:
            for number in in_flight.in_vain():
                self._apply(aligner.aborted(number))
                self._give_up(number)
                self._decline(number, DeclineReason.SUBSUMED, "a barrier of a newer checkpoint came first")
            for channel_id, number in in_flight.delivered():
                self._apply(aligner.delivered(channel_id, number))
            self._apply(aligner.tick(now_ms))
        in_flight.tick(now_ms)
        self._settle()
        timeouts = (in_flight.next_timeout, None if aligner is None else aligner.next_timeout)
        due = min((at for at in timeouts if at is not None), default=None)
        if announced:
            return now
        return None if due is None else now + max(0, due - now_ms) / 1000

    def channel_ended(self, channel_id: int) -> None:
        """The end of the input was received on a channel."""
        self._last_channel = channel_id
        if self._aligner is not None:
            self._apply(self._aligner.ended(channel_id))

    def input_ended(self) -> None:
        """The task has emitted its end, and waits for a checkpoint that includes it."""
        if not self._task.had_finished:
            self._services.send(InputsEnded(self._services.allocation_id, self._task.attempt_id))

    def completed(self, checkpoint_id: int) -> None:
        """The checkpoint is durable: commits it."""
        self.records.completed(checkpoint_id)
        if self.copies is not None:
            self._services.submit(partial(self.copies.completed, checkpoint_id))
        operators = self._task.chain.operators
        for operator in operators:
            if operator.keyed_state is not None:
                operator.keyed_state.confirm(checkpoint_id)
        self.commits.completed(checkpoint_id, operators)

    def _commit_failed(self, checkpoint_id: int, failure: Exception) -> None:
        """Reported, so that the notification is repeated."""
        log.warning("failed to commit checkpoint %d of %s: %s", checkpoint_id, self._task.deployment.task_name, failure)
        allocation_id, attempt_id = self._services.allocation_id, self._task.attempt_id
        self._services.send(CommitFailed(allocation_id, attempt_id, checkpoint_id, summary(failure)))

    def aborted(self, checkpoint_id: int) -> None:
        """The checkpoint was aborted: nothing of it is kept, and a task that it was to stop continues."""
        self._task.life.aborted(checkpoint_id)
        if self._draining is not None and self._draining[0].checkpoint_id == checkpoint_id:
            self._draining = None
        if self._task.gates:
            self._apply(self._alignment().aborted(checkpoint_id))
        self._give_up(checkpoint_id)
        location, files = self.records.aborted(checkpoint_id)
        self._discard(checkpoint_id, location, files)
        for operator in self._task.chain.operators:
            operator.notify_checkpoint_aborted(checkpoint_id)

    def written(self, mail: SnapshotWritten) -> None:
        """The snapshot was written: acknowledges or declines, unless the checkpoint was aborted meanwhile.

        A checkpoint that includes in-flight records is not acknowledged before the last of them is written.
        """
        number = mail.barrier.checkpoint_id
        record = self.records.get(number)
        assert record is not None, "it is being written"
        given_up = record.stage is Stage.GIVEN_UP
        if number in self._in_flight and mail.written is not None:
            record.hold(mail)
            self._settle()
            return
        self._in_flight.drop(number)
        if mail.written is None:
            self.records.not_written(record)
            self._discard(number)
            if not given_up:
                failure = self._described(mail.final) if mail.final is not None else None
                self._decline(number, DeclineReason.NOT_WRITTEN, mail.error, failure)
        elif given_up:
            self.records.settle(record)
            self._discard(number, mail.barrier.location, mail.written.new_files)
        else:
            if self.copies is not None and not mail.barrier.is_savepoint:
                self.copies.written(number, mail.barrier.location, mail.written.files())
            self.state_sizes = {
                (operator.operator_id, state.name): sum(file.size for file in state.files)
                for operator in mail.written.operators
                for state in operator.states
            }
            self.records.acknowledged(record, mail.barrier.location, mail.written.new_files, mail.written.layout)
            self._services.send(mail.ack)

    def _discard(self, checkpoint_id: int, location: str = "", files: tuple[str, ...] = ()) -> None:
        self._services.discard(location, files)
        if self.copies is not None:
            self._services.submit(partial(self.copies.given_up, checkpoint_id))

    def release(self) -> None:
        """The task has ended: releases what is being written."""
        for record in self.records:
            if record.captured is not None:
                record.captured.release()
            if record.held is not None and record.held.written is not None:
                self._services.discard(record.held.barrier.location, record.held.written.new_files)
                record.held = None

    def _alignment(self) -> BarrierAligner:
        if self._aligner is None:
            gates = [(gate, c.channel_id) for gate in self._task.gates for c in gate.channels if not c.ended]
            overtakable = [channel_id for gate, channel_id in gates if gate.overtakable]
            self._aligner = BarrierAligner([channel_id for _, channel_id in gates], overtakable)
        return self._aligner

    def _apply(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Block(channel_id):
                    self._set_blocked(True, channel_id)
                case Unblock():
                    self._set_blocked(False)
                case TakeSnapshot(barrier, recorded):
                    self._snapshot(barrier, recorded)
                case AllDelivered(number):
                    self._in_flight.inputs_delivered(number)
                case Abandon(number, reason):
                    self.records.abandoned(number)
                    if reason != "aborted":
                        self._give_up(number)
                        self._decline(number, DeclineReason.SUBSUMED, reason)

    def _set_blocked(self, blocked: bool, channel_id: int | None = None) -> None:
        for gate in self._task.gates:
            for channel in gate.channels:
                if channel_id is None or channel.channel_id == channel_id:
                    channel.blocked = blocked

    def _awaited(self, barrier: Barrier, waited: bool) -> str:
        """The task whose barrier, or end, arrived last; empty if no barrier waited for another."""
        channels = [channel for gate in self._task.gates for channel in gate.channels]
        if not waited or barrier.unaligned or len(channels) < 2:
            return ""
        return next((channel.name for channel in channels if channel.channel_id == self._last_channel), "")

    def _note_arrival(self, barrier: Barrier) -> None:
        if self.records.get(barrier.checkpoint_id) is None:
            clock = self._services.clock
            at, delay = clock.monotonic(), max(0, clock.now_ms() - barrier.timestamp)
            self.records.arrived(barrier.checkpoint_id, Arrival(at, delay, self._bytes_in()))
            # This is the only comparison of the wall clocks of two machines; from here on, the monotonic clock is used.
            self._coordinator_ahead_ms = barrier.timestamp + delay - int(at * 1000)

    def _bytes_in(self) -> int:
        return sum(gate.bytes_in for gate in self._task.gates)

    def _give_up(self, number: int) -> None:
        self._in_flight.drop(number)
        record = self.records.get(number)
        if record is not None and record.is_writing and record.stage is not Stage.GIVEN_UP:
            held = record.give_up()
            if held is not None:
                self.written(held)

    def _settle(self) -> None:
        """Writes the recorded in-flight data of checkpoints that are complete, and whose states are written."""
        settled = self._in_flight.settled()
        for record in [r for r in self.records if r.stage is Stage.HELD and r.number in settled]:
            mail, target = record.go_on()
            caught = self._in_flight.take(record.number)
            if caught.operators:
                self._services.submit(partial(write_caught, caught, target, mail, self._services))
            else:
                self.written(mail)

    def _snapshot(self, barrier: Barrier, recorded: frozenset[int] = frozenset()) -> None:
        services, number = self._services, barrier.checkpoint_id
        self._newest = max(self._newest, number)
        if barrier.stop is StopMode.DRAIN and not self._task.finish_operators():
            self._draining = (barrier, recorded)
            return
        began = services.clock.monotonic()
        record = self.records.taken(number)
        arrival = record.arrival
        self.alignment_seconds, self.start_delay_ms = began - arrival.at, arrival.start_delay_ms
        ack = CheckpointAck(
            services.allocation_id, self._task.attempt_id, number,
            alignment_ms=millis(began - arrival.at), start_delay_ms=arrival.start_delay_ms,
            processed_bytes=self._bytes_in() - arrival.bytes_in, unaligned=barrier.unaligned,
            ended=self._task.life.has_finished_operators, records=self._task.counts.records_taken,
            waited_for=self._awaited(barrier, began > arrival.at),
        )  # fmt: skip
        self._task.life.captured(number, barrier.stop)
        captured: CapturedTask | None = None
        try:
            target = self._target(barrier, record)
            captured = capture_chain(self._task.chain, barrier, target.shared)
        except TaskInterrupted:
            raise
        except BaseException as error:
            self.records.abandoned(number)
            self._decline(number, DeclineReason.RAISED, summary(error), self._described(error))
        try:
            if captured is not None:
                self._in_flight.record(barrier, recorded)
            self._in_flight.sent_on(number, self._task.emit_barrier(barrier))
        except BaseException:
            if captured is not None:
                captured.release()
            raise
        if captured is not None:
            ended = services.clock.monotonic()
            ack = replace(ack, sync_ms=millis(ended - began))
            record.write(captured, target)
            services.submit(partial(write_states, captured, target, ack, ended, services))

    def _target(self, barrier: Barrier, record: CheckpointRecord) -> SnapshotTarget:
        services = self._services
        full = barrier.full or not self.records.may_share
        storage: FileTarget = services.storages.at(barrier.location)
        barrier = replace(barrier, location=plain_uri(location_of(barrier.location)), full=full)
        if self.copies is not None and not barrier.is_savepoint:
            storage = self.copies.copying(storage, barrier.checkpoint_id)
        shared = (
            services.incremental
            and not barrier.is_savepoint
            and services.storages.shares_files(barrier.location, barrier.checkpoint_id)
        )
        if shared and barrier.full:
            record.is_full = True
        bases = self.records.bases(barrier.oldest_base)
        inline_below = services.storages.sizes.inline_below
        return SnapshotTarget(storage, barrier, self._task.deployment, shared, bases, inline_below)

    def _described(self, error: BaseException) -> TaskFailure:
        now_ms = self._services.clock.now_ms()
        return describe_failure(error, self._task.deployment, now_ms, self._task.counts.records_taken)

    def _decline(
        self, checkpoint_id: int, reason: DeclineReason, message: str, failure: TaskFailure | None = None
    ) -> None:
        log.info("declined checkpoint %d of %s: %s", checkpoint_id, self._task.deployment.task_name, message)
        allocation_id, attempt_id = self._services.allocation_id, self._task.attempt_id
        self._services.send(CheckpointDecline(allocation_id, attempt_id, checkpoint_id, reason, message, failure))
