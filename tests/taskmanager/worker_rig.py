"""A slot worker driven manually: one thread, a clock that stands still, real deployments, a source and a sink."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from waiting import DEADLINE

from millstream.core.clock import ManualClock
from millstream.core.jobs.ids import AllocationId, AttemptId, ChannelId, JobId, VertexId
from millstream.core.jobs.plan import plan
from millstream.core.jobs.state_kinds import StateKind
from millstream.core.messages.deployment import (
    CancelTasks,
    DeployTasks,
    InputChannel,
    InputGate,
    OutputChannel,
    ResultPartition,
    TaskDeployment,
)
from millstream.core.messages.results import CollectRequest, CollectResponse
from millstream.core.messages.sources import Custom, EnumeratorEvent, NoMoreSplits, Splits
from millstream.core.messages.task_manager import CollectFromTask, StartWorker, TaskUpdate, WorkerMessage
from millstream.core.pickling import to_bytes
from millstream.core.records import types as t
from millstream.core.records.batches import Batch, RowBatch
from millstream.core.records.conversion import record_batch_to_rows
from millstream.core.wire.pipes import WORKER_MESSAGE
from millstream.datastream.connectors.base import (
    Boundedness,
    PollStatus,
    Sink,
    SinkWriter,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from millstream.datastream.functions import RuntimeContext
from millstream.taskmanager.testing import DrivenWorker
from millstream.taskmanager.worker.network.inputs import LocalInputChannel
from millstream.taskmanager.worker.tasks.task import Task

DEBLOAT = "taskmanager.network.memory.buffer-debloat.enabled"

ALLOCATION = AllocationId("allocation")
M = TypeVar("M")

_attempts = itertools.count()

WRITTEN: dict[str, list[Any]] = {}
"""The records written by sinks, by name; in this process, because the worker runs in it."""


class RowsSource(Source[Any]):
    """Emits rows, and then those of assigned splits; ends when there are no more splits, or at once."""

    def __init__(self, rows: Iterable[Any] = (), waits: bool = False, batch: int = 1 << 20) -> None:
        self.rows = list(rows)
        self.waits = waits
        self.batch = batch

    def get_boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def create_enumerator(self, context: SplitEnumeratorContext[Any]) -> SplitEnumerator[Any]:
        raise NotImplementedError

    def restore_enumerator(self, context: SplitEnumeratorContext[Any], state: Any) -> SplitEnumerator[Any]:
        raise NotImplementedError

    def create_reader(self, context: SourceReaderContext) -> SourceReader[Any]:
        return RowsReader(self, context)


class RowsReader(SourceReader[Any]):
    def __init__(self, source: RowsSource, context: SourceReaderContext) -> None:
        self._rows, self._waits, self._batch = list(source.rows), source.waits, source.batch
        self.context = context

    def start(self) -> None:
        self.context.send_split_request()
        READERS.append(self)

    def poll_next(self, max_rows: int) -> Batch | PollStatus:
        if self._rows:
            count = min(max_rows, self._batch)
            taken, self._rows = self._rows[:count], self._rows[count:]
            return RowBatch(taken)
        return PollStatus.NOTHING_AVAILABLE if self._waits else PollStatus.END_OF_INPUT

    def add_splits(self, splits: list[Any]) -> None:
        self._rows += splits

    def notify_no_more_splits(self) -> None:
        self._waits = False

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        return self._rows

    def handle_source_event(self, event: Any) -> None:
        if event == "fail":
            raise OSError("the broker is gone")
        self.context.send_source_event(("echo", event))


READERS: list[RowsReader] = []


class NamedSink(Sink):
    """Writes into `WRITTEN[name]`; closing it is recorded there as well."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create_writer(self, context: RuntimeContext) -> SinkWriter:
        WRITTEN[self._name] = []
        return NamedWriter(self._name)


class NamedWriter(SinkWriter):
    def __init__(self, name: str) -> None:
        self._rows = WRITTEN[name]

    def write(self, batch: Batch) -> None:
        self._rows += batch.rows if isinstance(batch, RowBatch) else record_batch_to_rows(batch.data, t.PICKLED)

    def flush(self, end_of_input: bool) -> None:
        self._rows.append("flushed" if end_of_input else "flushed for a checkpoint")

    def close(self) -> None:
        self._rows.append("closed")


def reading(rows: Iterable[Any] = (), waits: bool = False, batch: int = 1 << 20) -> plan.SourceSpec:
    return plan.SourceSpec(RowsSource(rows, waits, batch))


def writing(name: str) -> plan.SinkSpec:
    return plan.SinkSpec(NamedSink(name))


def written(name: str, kind: type = tuple) -> list[Any]:
    """The records of a kind that the sink of this name has written."""
    return [row for row in WRITTEN.get(name, ()) if isinstance(row, kind)]


def chain(*specs: plan.OperatorSpec, outputs: int = 0, prefix: str = "op") -> bytes:
    """Operators one after another, with stable ids; the last one emits to the task's outputs."""
    last = len(specs) - 1
    tail = tuple(plan.ChainedOutput(output=n) for n in range(outputs))
    operators = tuple(
        plan.ChainedOperator(
            f"{prefix}-{n}", f"{prefix} {n}", spec, t.PICKLED,
            (plan.ChainedOutput(operator=n + 1),) if n < last else tail,
        )
        for n, spec in enumerate(specs)
    )  # fmt: skip
    return to_bytes(plan.Chain(operators))


def edge(
    partitioner: plan.Partitioner | None = None, kind: t.TypeInformation = t.PICKLED, source: str = "", name: str = "0"
) -> bytes:
    return to_bytes(plan.EdgeSpec(partitioner or plan.RebalancePartitioner(), kind, 128, source=source, name=name))


class WorkerRig:
    """A worker, its clock, and every message that it has sent."""

    def __init__(self, network: bool = False, local_state: str = "", **options: str) -> None:
        self.clock = ManualClock(1_000_000)
        self.sent: list[WorkerMessage] = []
        configuration = {
            "execution.buffer-timeout.interval": "0 ms",
            DEBLOAT: "false",  # the tests fill buffers on a clock that stands still
            **options,
        }  # fmt: skip
        start = StartWorker(ALLOCATION, JobId("job"), configuration=configuration, local_state_folder=local_state)
        self.worker = DrivenWorker(start, "127.0.0.1", self.clock, self._received)
        if network:
            self.worker.listen()

    def _received(self, message: WorkerMessage) -> None:
        """As the supervisor receives it: every message has to pass through the pipe."""
        self.sent.append(WORKER_MESSAGE.from_bytes(WORKER_MESSAGE.to_bytes(message)))

    def messages(self, kind: type[M]) -> list[M]:
        """The messages of a kind, in order."""
        return [message for message in self.sent if isinstance(message, kind)]

    @property
    def address(self) -> str:
        return self.worker.address

    def close(self) -> None:
        for attempt_id in list(self.worker.tasks):
            self.cancel(attempt_id)
        self.worker.hang_up()

    def task(
        self, chain: bytes, inputs: Iterable[InputGate] = (), outputs: Iterable[ResultPartition] = ()
    ) -> TaskDeployment:
        number = next(_attempts)
        return TaskDeployment(
            AttemptId(f"attempt-{number}"), JobId("job"), VertexId(f"vertex-{number}"), f"task {number}",
            subtask=0, parallelism=1, max_parallelism=128, attempt=0, chain=chain, inputs=tuple(inputs),
            outputs=tuple(outputs),
        )  # fmt: skip

    def start(
        self, *specs: plan.OperatorSpec, inputs: Iterable[InputGate] = (), outputs: Iterable[ResultPartition] = ()
    ) -> TaskDeployment:
        """Deploys a task of these operators."""
        ends = tuple(outputs)
        task = self.task(chain(*specs, outputs=len(ends)), inputs, ends)
        self.deploy(task)
        return task

    def run(self, *specs: plan.OperatorSpec, turns: int | None = None) -> TaskDeployment:
        """The same, until it ends."""
        task = self.start(*specs)
        self.turn_until(self.ended(task), turns)
        return task

    def deploy(self, *tasks: TaskDeployment) -> None:
        self.post(DeployTasks(ALLOCATION, tasks))

    def cancel(self, *attempt_ids: AttemptId) -> None:
        self.post(CancelTasks(ALLOCATION, attempt_ids))

    def send_event(self, task: TaskDeployment, event: Splits | NoMoreSplits | Custom) -> None:
        """Sends an event of the task's enumerator."""
        self.post(EnumeratorEvent(task.job_id, task.vertex_id, task.subtask, event, ALLOCATION, task.attempt_id))

    def collect(
        self, attempt_id: AttemptId, operator_id: str = "op-1", version: str = "", offset: int = 0
    ) -> CollectResponse:
        """The response to a client's request."""
        request = CollectRequest(JobId("job"), operator_id, version, offset, request_id="q")
        self.post(CollectFromTask(ALLOCATION, attempt_id, request))
        return self.messages(CollectResponse)[-1]

    def running(self, task: TaskDeployment) -> Task:
        """The attempt, while it exists."""
        return self.worker.tasks[task.attempt_id]

    def operator(self, task: TaskDeployment, index: int = 0) -> Any:
        """One of its operators, counted from the head."""
        return self.running(task).chain.operators[index]

    def unread(self, task: TaskDeployment) -> list[Any]:
        """The splits that the task's source has not finished reading."""
        return list(self.operator(task).elements(0)[StateKind.SPLITS])

    def channel(self, number: int) -> LocalInputChannel:
        """A channel between two tasks of this worker."""
        return self.worker.channel(number)

    def post(self, mail: Any) -> None:
        """Puts a mail and has it handled, without the turn that would follow."""
        self.worker.post(mail)

    def turn_until(self, done: Callable[[], bool], turns: int | None = None) -> None:
        """Turns until the condition holds, at most so many turns. Without a number: it depends on other threads."""
        turn_all_until([self], done, turns)

    def turns(self, count: int = 1) -> None:
        for _ in range(count):
            self.worker.turn()

    def updates(self, task: TaskDeployment) -> list[TaskUpdate]:
        return [update for update in self.messages(TaskUpdate) if update.attempt_id == task.attempt_id]

    def states(self, task: TaskDeployment) -> list[str]:
        return [update.state for update in self.updates(task)]

    def state(self, task: TaskDeployment) -> str:
        """The state that was reported last."""
        return self.states(task)[-1]

    def failure(self, task: TaskDeployment) -> Any:
        """The failure that was reported with the last state."""
        return self.updates(task)[-1].failure

    def all_states(self) -> list[tuple[str, str]]:
        return [(update.attempt_id, update.state) for update in self.messages(TaskUpdate)]

    def ended(self, *tasks: TaskDeployment) -> Callable[[], bool]:
        return lambda: all(self.state(task) in ("FINISHED", "FAILED", "CANCELED") for task in tasks)


def turn_all_until(rigs: Sequence[WorkerRig], done: Callable[[], bool], turns: int | None = None) -> None:
    """Turns all workers alternately."""
    end = time.monotonic() + DEADLINE
    for turn in itertools.count():
        if done():
            return
        if turn == turns or time.monotonic() > end:
            raise AssertionError(f"not reached in {turn} turns; states: {[rig.all_states() for rig in rigs]}")
        for rig in rigs:
            rig.worker.turn()


def local_pair(rig: WorkerRig, channel: int, kind: t.TypeInformation = t.PICKLED) -> tuple[ResultPartition, InputGate]:
    """The two ends of a channel inside of one worker."""
    return wire(channel, rig.address, rig.address, kind=kind)


def wire(
    channel: int, producer: str, consumer: str, partitioner: plan.Partitioner | None = None,
    kind: t.TypeInformation = t.PICKLED,
) -> tuple[ResultPartition, InputGate]:  # fmt: skip
    """The two ends of a channel between two workers."""
    spec = edge(partitioner, kind)
    output = OutputChannel(ChannelId(channel), consumer, f"consumer of {channel}")
    gate = InputChannel(ChannelId(channel), producer, f"producer of {channel}", producer_subtask=0)
    return ResultPartition(0, spec, (output,), max_parallelism=128), InputGate(0, spec, (gate,))
