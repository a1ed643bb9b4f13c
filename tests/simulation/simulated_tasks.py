"""The tasks of simulated slot workers: no records flow between them, only barriers and the ends of channels.

A task works for a while. It has ended when its producers have, too. If its job takes checkpoints, it then waits for one
that holds its end, as real tasks do; and tasks without consumers commit what they write in two phases (`ledger`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledger import Ledger, SinkState, Transaction
from simulated_disk import SimulatedDisk
from story import must
from world import World

from millstream.core.jobs.failure_kinds import FailureKind
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.states import ExecutionState
from millstream.core.messages import sources as src
from millstream.core.messages import task_manager as tm
from millstream.core.messages.checkpoints import (
    CheckpointAck,
    CheckpointDecline,
    CheckpointOptions,
    DeclineReason,
    InputsEnded,
)
from millstream.core.messages.deployment import TaskDeployment
from millstream.core.snapshot.metadata.operator_json import operators_from_json

if TYPE_CHECKING:
    from simulated_children import SimulatedWorker

Channel = tuple[str, int]
"""The address of the worker that consumes it, and its id: no other has both."""


class DataPlane:
    """Which task consumes which channel, and what came before it did; and what tasks write outside of it."""

    def __init__(self, world: World, disk: SimulatedDisk, ledger: Ledger, work: tuple[float, ...]) -> None:
        self.disk = disk
        self.ledger = ledger
        self.work = work
        self._world = world
        self._consumers: dict[Channel, SimulatedTask] = {}
        self._early: dict[Channel, list[CheckpointOptions | None]] = {}

    def register(self, channel: Channel, consumer: SimulatedTask) -> None:
        self._consumers[channel] = consumer
        for signal in self._early.pop(channel, []):
            consumer.received(channel, signal)

    def send(self, producer: SimulatedTask, channel: Channel, signal: CheckpointOptions | None) -> None:
        """A barrier, or the end of the channel."""
        producer.worker.later(0.01, self._arrived, channel, signal)

    def _arrived(self, channel: Channel, signal: CheckpointOptions | None) -> None:
        if channel in self._consumers:
            self._consumers[channel].received(channel, signal)
        else:
            self._early.setdefault(channel, []).append(signal)

    def lost(self, task: SimulatedTask) -> None:
        """With its worker; who consumes from it may notice, before anyone else has told."""
        for channel in task.outputs:
            consumer = self._consumers.get(channel)
            if consumer is not None and self._world.mishap(0.5):
                consumer.worker.later(0.05, consumer.fail, "PeerLostError: the connection broke", FailureKind.PEER_LOST)


class SimulatedTask:
    """One attempt."""

    def __init__(
        self, deployment: TaskDeployment, worker: SimulatedWorker, data_plane: DataPlane, checkpoints: bool
    ) -> None:
        self.state = ExecutionState.DEPLOYING
        self.worker = worker
        self.deployment = deployment
        self.outputs = [(c.consumer_address, c.channel_id) for p in deployment.outputs for c in p.channels]
        self._inputs = [(worker.process.name, c.channel_id) for gate in deployment.inputs for c in gate.channels]
        self._open = set(self._inputs)
        self._aligning: dict[CheckpointOptions, set[Channel]] = {}
        self._data_plane = data_plane
        self._checkpoints = checkpoints
        self._has_worked = False
        self._has_ended = False
        self._last_checkpoint = 0
        self._held_in = 0
        self._had_finished = False
        self._place = (deployment.vertex_id, deployment.subtask)
        self._sink = SinkState()

    def start(self) -> None:
        for channel in self._inputs:
            self._data_plane.register(channel, self)
        self.to(ExecutionState.INITIALIZING)
        try:
            self._restore()
        except FileNotFoundError as error:
            job_id = self.deployment.job_id
            is_current = self._data_plane.ledger.is_current(job_id, self._place, self.deployment.attempt)
            must(not is_current, f"job {job_id} restores from a deleted checkpoint: {error}", job_id)
            self.fail(f"FileNotFoundError: {error}")
            return
        self.worker.later(0.01, self._run)

    @property
    def _is_sink(self) -> bool:
        return self._checkpoints and not self.outputs

    def _restore(self) -> None:
        """Commits what the checkpoint holds; what came later in the dead attempts' transactions is never committed."""
        deployment = self.deployment
        number = deployment.restored_checkpoint_id
        if not number:
            return
        operators = operators_from_json(deployment.restore, "a restored task") if deployment.restore else ()
        self._had_finished = bool(operators) and all(operator.finished for operator in operators)
        stored = self._data_plane.disk.read_state(deployment.restore_location, self._place)
        if stored is None:  # it had finished, though not all of its vertex had
            stored = SinkState(has_ended=True)
        if self._is_sink:
            self._data_plane.ledger.commit(deployment.job_id, self._place, number, stored.pre_committed)
            self._sink = SinkState(stored.next_epoch, (), stored.has_ended)

    def to(self, state: ExecutionState, failure: TaskFailure | None = None) -> None:
        """Reports; nothing when it has ended."""
        if not self.state.is_terminal:
            self.state = state
            update = tm.TaskUpdate(self.worker.allocation_id, self.deployment.attempt_id, state, failure)
            self.worker.say(update)

    def fail(self, exception: str, kind: FailureKind = FailureKind.ORDINARY) -> None:
        self.to(ExecutionState.FAILED, TaskFailure(exception=exception, signature=exception, kind=kind))

    def no_more_splits(self) -> None:
        """A source begins to work then."""
        world, work = self.worker.world, self._data_plane.work
        mean = world.random.choice(work) if world.has_mishaps else work[0]
        self.worker.later(world.random.expovariate(1 / mean), self._worked)

    def _run(self) -> None:
        if self.state.is_terminal:
            return
        self.to(ExecutionState.RUNNING)
        deployment = self.deployment
        if self._had_finished:
            for channel in self.outputs:
                self._data_plane.send(self, channel, None)
            self.to(ExecutionState.FINISHED)
        elif deployment.task_name.startswith("source"):
            for kind in (src.Registered(), src.SplitRequest("host")):
                event = src.ReaderEvent(
                    deployment.job_id, deployment.vertex_id, deployment.subtask, kind, deployment.attempt_id
                )
                self.worker.say(event)
        else:
            self.no_more_splits()

    def _worked(self) -> None:
        self._has_worked = True
        self._end_if_over()

    def _end_if_over(self) -> None:
        if self._has_ended or self._open or not self._has_worked or self.state.is_terminal:
            return
        self._has_ended = True
        for channel in self.outputs:
            self._data_plane.send(self, channel, None)
        if self._checkpoints:
            self.worker.say(InputsEnded(self.worker.allocation_id, self.deployment.attempt_id))
        else:
            self.to(ExecutionState.FINISHED)

    # Checkpoints

    def received(self, channel: Channel, signal: CheckpointOptions | None) -> None:
        """A barrier, or the end of the channel."""
        if self.state.is_terminal or not self.worker.is_alive:
            return
        if signal is None:
            self._open.discard(channel)
            for options, seen in list(self._aligning.items()):
                self._align(options, seen)
            self._end_if_over()
        else:
            seen = self._aligning.setdefault(signal, set())
            seen.add(channel)
            self._align(signal, seen)

    def triggered(self, options: CheckpointOptions) -> None:
        """By the coordinator."""
        self._snapshot(options)

    def completed(self, checkpoint_id: int) -> None:
        """What it holds is committed. The task is finished when it holds its end."""
        if self.state.is_terminal:
            return
        if self._is_sink:
            held = [t for t in self._sink.pre_committed if t.checkpoint_id <= checkpoint_id]
            left = tuple(t for t in self._sink.pre_committed if t.checkpoint_id > checkpoint_id)
            self._data_plane.ledger.commit(self.deployment.job_id, self._place, checkpoint_id, held)
            self._sink = SinkState(self._sink.next_epoch, left, self._sink.has_ended)
        if self._held_in and checkpoint_id >= self._held_in:
            self.to(ExecutionState.FINISHED)

    def _align(self, options: CheckpointOptions, seen: set[Channel]) -> None:
        if self._open <= seen:
            self._snapshot(options)

    def _snapshot(self, options: CheckpointOptions) -> None:
        self._aligning.pop(options, None)
        number = options.checkpoint_id
        if number <= self._last_checkpoint or self.state is not ExecutionState.RUNNING:
            return
        self._last_checkpoint = number
        self._data_plane.ledger.takes(self.deployment.job_id, options)
        place = (self.worker.allocation_id, self.deployment.attempt_id)
        if self.worker.world.mishap(0.03):
            reason = DeclineReason.NOT_WRITTEN
            self.worker.say(CheckpointDecline(*place, number, reason, "no space left on device"))
            return
        if self._has_ended:
            self._held_in = self._held_in or number
        else:
            for channel in self.outputs:
                self._data_plane.send(self, channel, options)
        if self._is_sink and not self._sink.has_ended:
            self._pre_commit(number)
        ack = CheckpointAck(*place, number, ended=self._has_ended)
        self.worker.later(self.worker.world.up_to(0.2), self._written, options.location, self._sink, ack)

    def _pre_commit(self, number: int) -> None:
        """The epoch up to this barrier."""
        epoch = self._sink.next_epoch
        written = Transaction(epoch, self.deployment.attempt_id, number, self._has_ended)
        self._sink = SinkState(epoch + 1, (*self._sink.pre_committed, written), self._has_ended)

    def _written(self, location: str, state: SinkState, ack: CheckpointAck) -> None:
        self._data_plane.disk.write_state(location, self._place, state)
        self.worker.say(ack)
