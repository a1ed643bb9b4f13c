"""The state of the tasks of a slot, by what passes between them and their job manager. Pure.

The supervisor sees it all, in the order in which the tasks do: a source takes its snapshot when it receives the
command, so the splits that it was assigned before are part of the checkpoint, and those after it are not. So a new
leader of the job learns at once what runs here, also while a user's function blocks the worker.
"""

from __future__ import annotations

from typing import assert_never

from msgspec import Struct, field

from millstream.core.jobs.barriers import Barrier, StopMode
from millstream.core.jobs.details import Accumulator, TaskMetrics
from millstream.core.jobs.ids import AttemptId, VertexId
from millstream.core.jobs.states import ExecutionState
from millstream.core.messages.checkpoints import (
    CheckpointNotice,
    InputsEnded,
    TriggerCheckpoint,
)
from millstream.core.messages.deployment import CancelTasks, DeployTasks, TaskDeployment
from millstream.core.messages.sources import (
    Custom,
    EnumeratorEvent,
    NoMoreSplits,
    ReaderEvent,
    SplitRequest,
    Splits,
    WatermarkLimit,
)
from millstream.core.messages.takeover import NOT_CAPTURED, AssignedSplits, FoundReader, FoundSlot, FoundTask
from millstream.core.messages.task_manager import CollectFromTask, TaskUpdate, ToTasks, WorkerMessage, WorkerReady

_MUCH = 4 << 20  # bytes of splits that are kept of one reader; an offer of a slot has to be sent as one message


class _Reader(Struct):
    """What a source's reader was assigned since the latest completed checkpoint, and what it waits for."""

    since: list[bytes] = field(default_factory=list)
    captured: dict[int, list[bytes]] = field(default_factory=dict)
    size: int = 0
    forgotten: bool = False
    known_again: int | None = None  # once this checkpoint, or a later one, completes
    has_events: bool = False
    request: ReaderEvent | None = None

    def given(self, splits: bytes) -> None:
        self.request = None
        self.since.append(splits)
        self.size += len(splits)
        if self.size > _MUCH:
            self.since, self.captured, self.size = [], {}, 0
            self.forgotten, self.known_again = True, None

    def captures(self, checkpoint_id: int) -> None:
        if self.since:
            self.captured[checkpoint_id], self.since = self.since, []
        if self.forgotten and self.known_again is None:
            self.known_again = checkpoint_id

    def completed(self, checkpoint_id: int) -> None:
        self.captured = {number: given for number, given in self.captured.items() if number > checkpoint_id}
        self.size = sum(len(splits) for given in (*self.captured.values(), self.since) for splits in given)
        if self.known_again is not None and self.known_again <= checkpoint_id:
            self.forgotten, self.known_again = False, None

    def found(self) -> FoundReader:
        given = {**self.captured, **({NOT_CAPTURED: self.since} if self.since else {})}
        assigned = tuple(AssignedSplits(number, tuple(splits)) for number, splits in given.items())
        return FoundReader(assigned, not self.forgotten, self.has_events)


class _Task(Struct):
    """One attempt."""

    attempt_id: AttemptId
    vertex_id: VertexId
    subtask: int
    parallelism: int
    max_parallelism: int
    attempt: int
    highest_channel: int
    completed: int
    state: ExecutionState = ExecutionState.DEPLOYING
    accumulators: tuple[Accumulator, ...] = ()
    metrics: TaskMetrics | None = None
    inputs_ended: bool = False
    under_way: set[int] = field(default_factory=set)
    drained_by: int | None = None
    reader: _Reader | None = None

    @staticmethod
    def of(deployment: TaskDeployment) -> _Task:
        channels = [c.channel_id for gate in deployment.inputs for c in gate.channels]
        channels += [c.channel_id for partition in deployment.outputs for c in partition.channels]
        return _Task(
            deployment.attempt_id,
            deployment.vertex_id,
            deployment.subtask,
            deployment.parallelism,
            deployment.max_parallelism,
            deployment.attempt,
            max(channels, default=0),
            deployment.restored_checkpoint_id,
            reader=None if deployment.inputs else _Reader(),
        )

    def triggered(self, barrier: Barrier) -> None:
        if not barrier.is_savepoint or barrier.stop is not StopMode.NONE:  # there is no notice of the outcome of others
            self.under_way.add(barrier.checkpoint_id)
        if barrier.stop is StopMode.DRAIN:
            self.drained_by = barrier.checkpoint_id
        if self.reader is not None:
            self.reader.captures(barrier.checkpoint_id)

    def notified(self, notice: CheckpointNotice) -> None:
        number = notice.checkpoint_id
        if not notice.completed:
            self.under_way.discard(number)
            return
        self.completed = max(self.completed, number)
        self.under_way = {other for other in self.under_way if other > number}
        if self.drained_by is not None and self.drained_by <= number:
            self.drained_by = None
        if self.reader is not None:
            self.reader.completed(number)

    def found(self) -> FoundTask:
        return FoundTask(
            self.attempt_id,
            self.vertex_id,
            self.subtask,
            self.parallelism,
            self.max_parallelism,
            self.attempt,
            self.state,
            self.accumulators,
            self.metrics,
            self.highest_channel,
            self.inputs_ended,
            self.completed,
            tuple(sorted(self.under_way)),
            self.drained_by is not None,
            self.reader.found() if self.reader is not None else None,
        )


class SlotTasks:
    """Of one slot worker: the latest attempt of each subtask, as long as the worker lives."""

    def __init__(self) -> None:
        self.data_address = ""
        """Where the worker listens for others; empty until it is ready."""
        self._tasks: dict[AttemptId, _Task] = {}

    def found(self) -> FoundSlot | None:
        """For a new leader of the job; None when nothing was ever deployed."""
        tasks = tuple(task.found() for task in self._tasks.values())
        return FoundSlot(self.data_address, tasks) if tasks else None

    def open_requests(self) -> list[ReaderEvent]:
        """The requests for splits that have had no response."""
        readers = [task.reader for task in self._tasks.values() if task.reader is not None]
        return [reader.request for reader in readers if reader.request is not None]

    def sent(self, command: ToTasks) -> None:
        """A command of the job manager to the tasks."""
        match command:
            case DeployTasks(tasks=deployments):
                for deployment in deployments:
                    self._deployed(deployment)
            case CancelTasks(attempt_ids=attempts):
                for task in self._of(attempts):
                    if not task.state.is_terminal:
                        task.state = ExecutionState.CANCELING
            case EnumeratorEvent():
                self._from_enumerator(command)
            case TriggerCheckpoint(_, attempts, barrier):
                for task in self._of(attempts):
                    task.triggered(barrier)
            case CheckpointNotice(attempt_ids=attempts):
                for task in self._of(attempts):
                    task.notified(command)
            case CollectFromTask() | WatermarkLimit():
                pass
            case _:
                assert_never(command)

    def received(self, message: WorkerMessage) -> None:
        """A message of the tasks, or of their worker."""
        match message:
            case WorkerReady(_, data_address):
                self.data_address = data_address
            case TaskUpdate(attempt_id=attempt_id):
                for task in self._of((attempt_id,)):
                    task.state = message.state
                    task.accumulators, task.metrics = message.accumulators, message.metrics
            case ReaderEvent():
                self._from_reader(message)
            case InputsEnded(attempt_id=attempt_id):
                for task in self._of((attempt_id,)):
                    task.inputs_ended = True
            case _:
                pass  # of no consequence for the state of a task

    def _deployed(self, deployment: TaskDeployment) -> None:
        place = (deployment.vertex_id, deployment.subtask)
        self._tasks = {a: task for a, task in self._tasks.items() if (task.vertex_id, task.subtask) != place}
        self._tasks[deployment.attempt_id] = _Task.of(deployment)

    def _from_reader(self, event: ReaderEvent) -> None:
        for task in self._of((event.attempt_id,)):
            match task.reader, event.kind:
                case _Reader() as reader, SplitRequest():
                    reader.request = event
                case _Reader() as reader, Custom():
                    reader.has_events = True

    def _from_enumerator(self, event: EnumeratorEvent) -> None:
        for task in self._of((event.attempt_id,)):
            if task.reader is None:
                continue
            match event.kind:
                case Splits(splits):
                    task.reader.given(splits)
                case NoMoreSplits():
                    task.reader.request = None
                case Custom():
                    task.reader.has_events = True
                case _:
                    assert_never(event.kind)

    def _of(self, attempts: tuple[AttemptId, ...]) -> list[_Task]:
        return [self._tasks[attempt] for attempt in attempts if attempt in self._tasks]
