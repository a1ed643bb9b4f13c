"""The slot worker's loop: one thread that runs all tasks of a slot.

Each turn takes the mails that have come (commands, frames, wake-ups), fires what is due, and gives every task one
bounded step; when no task can go on it sleeps on the mailbox. Everything that tasks, channels and operators do
happens on this thread; other threads only put mails into the mailbox.
"""

from __future__ import annotations

import heapq
import logging
import pickle
import queue
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from millstream.core import plan
from millstream.core.batches import Batch
from millstream.core.clock import Clock
from millstream.core.configuration import Configuration
from millstream.core.states import ExecutionState
from millstream.core.types import PICKLED
from millstream.datastream.functions import RuntimeContext
from millstream.proto import dataplane_pb2, dispatcher_pb2
from millstream.proto import taskmanager_pb2 as pb
from millstream.taskmanager.chain import ChainBuilder
from millstream.taskmanager.failures import PeerLostError, describe_failure
from millstream.taskmanager.network.codecs import ElementCodec
from millstream.taskmanager.network.credit import CreditReceiver
from millstream.taskmanager.network.data_plane import DataPlane, FrameArrived, PeerLost
from millstream.taskmanager.network.inputs import (
    InputChannel,
    InputGate,
    LocalInputChannel,
    ProtocolError,
    RemoteInputChannel,
)
from millstream.taskmanager.network.outputs import (
    LocalOutputChannel,
    OutputChannel,
    RemoteOutputChannel,
    ResultPartition,
)
from millstream.taskmanager.operators.source import ReaderContext
from millstream.taskmanager.partitioning import make_router
from millstream.taskmanager.runtime_context import TaskRuntimeContext
from millstream.taskmanager.state.heap import HeapStateBackend
from millstream.taskmanager.task import StepResult, Task

log = logging.getLogger(__name__)


class TaskInterrupted(BaseException):  # not an error: like KeyboardInterrupt, user code must not catch it
    """Raised inside a user function of a task that is being cancelled."""


@dataclass(frozen=True, slots=True)
class WakeUp:
    """A source reader has something."""

    attempt_id: str


Mail = pb.WorkerCommand | FrameArrived | PeerLost | WakeUp


class SlotWorker:
    """Runs the tasks of one slot."""

    def __init__(
        self, start: pb.StartWorker, host: str, clock: Clock, send: Callable[[pb.WorkerMessage], None]
    ) -> None:
        self._allocation = start.allocation_id
        self._job_id = start.job_id
        self._raw_configuration = dict(start.configuration)
        self._configuration = Configuration(start.configuration)
        self._clock = clock
        self._host = host
        self._send = send
        self.mailbox: queue.SimpleQueue[Mail] = queue.SimpleQueue()
        self._data_plane = DataPlane(start.job_id, host, self._configuration, self.mailbox.put)
        self._tasks: dict[str, Task] = {}
        self._gates: dict[int, tuple[InputGate, RemoteInputChannel]] = {}
        self._outputs: dict[int, RemoteOutputChannel] = {}
        self._local: dict[int, LocalInputChannel] = {}
        self._early_credit: dict[int, int] = {}
        self._done_channels: set[int] = set()
        self._lost_peers: dict[str, str] = {}
        self._timers: list[tuple[float, str]] = []
        self._stopped = False
        self._metrics_due = 0.0
        self._max_rows = self._configuration.integer("execution.batch.max-rows")
        self._metrics_interval = self._configuration.seconds("metrics.fetcher.update-interval")
        self.current: Task | None = None
        self.cancelling: set[str] = set()

    def run(self) -> None:
        """Until a stop command."""
        self._data_plane.start()
        ready = pb.WorkerReady(allocation_id=self._allocation, data_address=self._data_plane.address)
        self._send(pb.WorkerMessage(ready=ready))
        try:
            while not self._stopped:
                self.turn()
        finally:
            for task in list(self._tasks.values()):
                self._close(task)
            self._data_plane.stop()

    def turn(self) -> None:
        """One turn of the loop; sleeps when there is nothing to do."""
        self._take_mails(None)
        now = self._clock.monotonic()
        worked = False
        for task in list(self._tasks.values()):
            worked |= self._step(task)
        if not worked and not self._stopped:
            self._sleep()
        else:
            self._flush_due(self._clock.monotonic())
        if now >= self._metrics_due:
            self._metrics_due = now + self._metrics_interval
            self._report_metrics()

    def _step(self, task: Task) -> bool:
        if task.state is not ExecutionState.RUNNING:
            return False
        started = self._clock.monotonic()
        self.current = task
        try:
            result = task.step()
        except Exception as error:
            self.current = None
            self._fail(task, error)
            return True
        except TaskInterrupted:
            self.current = None
            self._cancel(task)
            return True
        self.current = None
        task.last_result = result
        task.busy += self._clock.monotonic() - started
        if result is StepResult.ENDED:
            self._end(task)
        return result is StepResult.WORKED or result is StepResult.ENDED

    def _sleep(self) -> None:
        now = self._clock.monotonic()
        due = self._flush_due(now)
        if self._timers and (due is None or self._timers[0][0] < due):
            due = self._timers[0][0]
        if due is None or due > self._metrics_due:
            due = max(self._metrics_due, now + 0.001)
        self._take_mails(max(0.0, due - now))
        slept = self._clock.monotonic() - now
        for task in self._tasks.values():
            if task.last_result is StepResult.BACKPRESSURED:
                task.backpressured += slept
            else:
                task.idle += slept

    def _flush_due(self, now: float) -> float | None:
        next_due: float | None = None
        for task in self._tasks.values():
            for partition in task.partitions:
                due = partition.flush_due(now)
                if due is not None and (next_due is None or due < next_due):
                    next_due = due
        while self._timers and self._timers[0][0] <= now:
            _, attempt_id = heapq.heappop(self._timers)
            if attempt_id in self._tasks:
                self._tasks[attempt_id].wake_up()
                next_due = now
        return next_due

    def _take_mails(self, wait: float | None) -> None:
        get = self.mailbox.get
        try:
            self._handle(get(timeout=wait) if wait is not None else get(block=False))
            while True:
                self._handle(get(block=False))
        except queue.Empty:
            pass

    def _handle(self, mail: Mail) -> None:
        if isinstance(mail, FrameArrived):
            self._handle_frame(mail.peer, mail.frame)
        elif isinstance(mail, WakeUp):
            if mail.attempt_id in self._tasks:
                self._tasks[mail.attempt_id].wake_up()
        elif isinstance(mail, PeerLost):
            self._lose_peer(mail)
        else:
            self._handle_command(mail)

    def _handle_command(self, command: pb.WorkerCommand) -> None:
        match command.WhichOneof("kind"):
            case "deploy":
                for deployment in command.deploy.tasks:
                    self._deploy(deployment)
            case "cancel":
                for attempt_id in command.cancel.attempt_ids:
                    if attempt_id in self._tasks:
                        self._cancel(self._tasks[attempt_id])
            case "coordinator_event":
                self._handle_coordinator_event(command.coordinator_event)
            case "collect":
                self._collect(command.collect)
            case "stop":
                self._stopped = True
            case other:
                log.error("unexpected command %s", other)

    def _handle_frame(self, peer: str, frame: dataplane_pb2.Frame) -> None:
        try:
            match frame.WhichOneof("kind"):
                case "data":
                    data = frame.data
                    entry = self._gates.get(data.channel)
                    if entry is not None and entry[1].peer == peer:
                        entry[0].arrived(entry[1], data)
                    elif data.channel not in self._done_channels:
                        raise ProtocolError(f"data on channel {data.channel}, which this worker does not have")
                case "credit":
                    channel = self._outputs.get(frame.credit.channel)
                    if channel is not None and channel.peer == peer:
                        channel.granted(frame.credit.buffers)
                    elif frame.credit.channel not in self._done_channels:
                        known = self._early_credit.get(frame.credit.channel, 0)
                        self._early_credit[frame.credit.channel] = known + frame.credit.buffers
                case "backlog":
                    entry = self._gates.get(frame.backlog.channel)
                    if entry is not None and not entry[1].ended:
                        entry[0].announced(frame.backlog.channel, frame.backlog.buffers)
                case other:
                    raise ProtocolError(f"a frame of kind {other} has no place here")
        except ProtocolError as error:
            self._data_plane.refuse(peer, str(error))

    def _deploy(self, deployment: pb.TaskDeployment) -> None:
        partitions: list[ResultPartition] = []
        gates: list[InputGate] = []
        task = Task(deployment, gates, partitions, self._max_rows)
        self._tasks[task.attempt_id] = task
        self._update(task, ExecutionState.INITIALIZING)
        self.current = task
        try:
            gates += [self._make_gate(gate) for gate in deployment.inputs]
            partitions += [self._make_partition(task, output) for output in deployment.outputs]
            edge = pickle.loads(deployment.inputs[0].spec) if deployment.inputs else None
            builder = ChainBuilder(
                [partition.emit for partition in partitions],
                edge.type if edge is not None else PICKLED,
                lambda name: self._make_context(task, name),
                lambda context: self._make_reader_context(task, context),
                HeapStateBackend,
                self._max_rows,
            )
            task.attach(builder.build(pickle.loads(deployment.chain)))
            task.open()
        except Exception as error:
            self.current = None
            self._fail(task, error)
            return
        except TaskInterrupted:
            self.current = None
            self._cancel(task)
            return
        self.current = None
        self._update(task, ExecutionState.RUNNING)
        for channel in [c for p in partitions for c in p.remote_channels]:
            early = self._early_credit.pop(channel.channel_id, 0)
            if early:
                channel.granted(early)
        for peer, reason in self._lost_peers.items():
            self._fail_for_peer(task, peer, reason)

    def _make_gate(self, gate: pb.InputGate) -> InputGate:
        spec: plan.EdgeSpec = pickle.loads(gate.spec)
        channels: list[InputChannel] = []
        for channel in gate.channels:
            if channel.producer_address == self._data_plane.address:
                channels.append(self._local_channel(channel.channel_id, channel.producer_name))
            else:
                channels.append(RemoteInputChannel(channel.channel_id, channel.producer_name, channel.producer_address))
        remote = [c for c in channels if isinstance(c, RemoteInputChannel)]
        credit = CreditReceiver(
            [c.channel_id for c in remote],
            self._configuration.integer("taskmanager.network.memory.buffers-per-channel"),
            self._configuration.integer("taskmanager.network.memory.floating-buffers-per-gate"),
        )
        made = InputGate(channels, ElementCodec(spec.type), credit, self._grant)
        for c in remote:
            self._gates[c.channel_id] = (made, c)
            self._data_plane.connect(c.peer)
        return made

    def _local_channel(self, channel_id: int, name: str) -> LocalInputChannel:
        return self._local.setdefault(channel_id, LocalInputChannel(channel_id, name))

    def _grant(self, channel: RemoteInputChannel, buffers: int) -> None:
        frame = dataplane_pb2.Frame(credit=dataplane_pb2.Credit(channel=channel.channel_id, buffers=buffers))
        self._data_plane.send(channel.peer, frame.SerializeToString())

    def _make_partition(self, task: Task, output: pb.ResultPartition) -> ResultPartition:
        spec: plan.EdgeSpec = pickle.loads(output.spec)
        segment = self._configuration.integer("taskmanager.memory.segment-size")
        compressed = self._configuration.string("taskmanager.network.compression.codec") == "LZ4"
        channels: list[OutputChannel] = []
        for c in output.channels:
            if c.consumer_address == self._data_plane.address:
                channels.append(LocalOutputChannel(c.consumer_name, self._local_channel(c.channel_id, "")))
                continue
            remote = RemoteOutputChannel(
                c.channel_id, c.consumer_name, c.consumer_address, ElementCodec(spec.type), segment, compressed,
                self._data_plane.send,
            )  # fmt: skip
            self._outputs[c.channel_id] = remote
            self._data_plane.connect(c.consumer_address)
            channels.append(remote)
        timeout = spec.buffer_timeout
        return ResultPartition(
            make_router(spec, len(channels), task.deployment.subtask, seed=hash(task.attempt_id)),
            channels,
            self._configuration.seconds("execution.buffer-timeout.interval") if timeout is None else timeout,
            self._configuration.integer("taskmanager.network.memory.output-buffers"),
        )

    def _make_context(self, task: Task, name: str) -> RuntimeContext:
        return TaskRuntimeContext(task.deployment, name, self._raw_configuration, task.counters, task.accumulators)

    def _make_reader_context(self, task: Task, context: RuntimeContext) -> ReaderContext:
        attempt_id = task.attempt_id

        def wake_up_in(seconds: float) -> None:
            heapq.heappush(self._timers, (self._clock.monotonic() + seconds, attempt_id))

        self._send_reader_event(task, "registered", None)
        return ReaderContext(
            context,
            lambda kind, event: self._send_reader_event(task, kind, event),
            lambda: self.mailbox.put(WakeUp(attempt_id)),
            wake_up_in,
        )

    def _send_reader_event(self, task: Task, kind: str, event: Any) -> None:
        d = task.deployment
        message = pb.ReaderEvent(job_id=d.job_id, vertex_id=d.vertex_id, subtask=d.subtask)
        match kind:
            case "registered":
                message.registered.SetInParent()
            case "split_request":
                message.split_request = self._host
            case _:
                import cloudpickle

                message.custom = cloudpickle.dumps(event)
        self._send(pb.WorkerMessage(reader_event=message))

    def _handle_coordinator_event(self, event: pb.CoordinatorEvent) -> None:
        task = self._tasks.get(event.attempt_id)
        if task is None or task.source is None or task.state is not ExecutionState.RUNNING:
            return
        self.current = task
        try:
            match event.WhichOneof("kind"):
                case "splits":
                    task.source.add_splits(pickle.loads(event.splits))
                case "no_more_splits":
                    task.source.no_more_splits()
                case "custom":
                    task.source.source_event(pickle.loads(event.custom))
        except Exception as error:
            self._fail(task, error)
        except TaskInterrupted:
            self._cancel(task)
        finally:
            self.current = None
        task.wake_up()

    def _collect(self, command: pb.CollectFromTask) -> None:
        task = self._tasks.get(command.attempt_id)
        collector = task.collector(command.request.operator_id) if task is not None else None
        if collector is None:
            answer = dispatcher_pb2.CollectResponse(
                request_id=command.request.request_id, error="the collecting task is not running"
            )
        else:
            answer = collector.answer(command.request)
        self._send(pb.WorkerMessage(collected=answer))

    def _lose_peer(self, lost: PeerLost) -> None:
        self._lost_peers[lost.peer] = lost.reason
        for task in list(self._tasks.values()):
            self._fail_for_peer(task, lost.peer, lost.reason)

    def _fail_for_peer(self, task: Task, peer: str, reason: str) -> None:
        if task.state is not ExecutionState.RUNNING:
            return
        names = [
            c.name for g in task.gates for c in g.channels
            if isinstance(c, RemoteInputChannel) and c.peer == peer and not c.ended and not _holds_end(c)
        ]  # fmt: skip
        kind = "producer"
        if not names:
            kind = "consumer"
            names = [c.name for p in task.partitions for c in p.remote_channels if c.peer == peer]
        if names:
            others = f" and {len(names) - 1} more" if len(names) > 1 else ""
            self._fail(task, PeerLostError(f"lost the {kind} {names[0]}{others} at {peer}: {reason}"))

    def _end(self, task: Task) -> None:
        errors = self._close(task)
        if errors:
            self._fail(task, errors[0])
        else:
            self._update(task, ExecutionState.FINISHED)
            self._forget(task)

    def _fail(self, task: Task, error: BaseException) -> None:
        if task.attempt_id in self.cancelling:
            self._cancel(task)
            return
        self._close(task)
        task.move_to(ExecutionState.FAILED)
        failure = describe_failure(error, task.deployment, self._clock.now_ms())
        log.info("task %s failed: %s", task.deployment.task_name, failure.exception)
        self._report(task, pb.TaskUpdate(failure=failure))
        self._forget(task)

    def _cancel(self, task: Task) -> None:
        self._close(task)
        task.move_to(ExecutionState.CANCELED)
        self._report(task, pb.TaskUpdate())
        self._forget(task)

    def _close(self, task: Task) -> list[Exception]:
        self.current = task
        try:
            errors = task.close()
        except TaskInterrupted:
            errors = []
        finally:
            self.current = None
        for error in errors:
            log.warning("closing %s: %s", task.deployment.task_name, error)
        return errors

    def _forget(self, task: Task) -> None:
        del self._tasks[task.attempt_id]
        for gate in task.gates:
            for channel in gate.channels:
                self._gates.pop(channel.channel_id, None)
                self._local.pop(channel.channel_id, None)
                self._done_channels.add(channel.channel_id)
        for partition in task.partitions:
            for remote in partition.remote_channels:
                self._outputs.pop(remote.channel_id, None)
                self._done_channels.add(remote.channel_id)

    def _update(self, task: Task, state: ExecutionState) -> None:
        task.move_to(state)
        self._report(task, pb.TaskUpdate())

    def _report(self, task: Task, update: pb.TaskUpdate) -> None:
        update.allocation_id = self._allocation
        update.attempt_id = task.attempt_id
        update.state = task.state
        if task.state.is_terminal:
            update.accumulators.extend(task.accumulated())
            update.metrics.CopyFrom(task.metrics())
        self._send(pb.WorkerMessage(task_update=update))

    def _report_metrics(self) -> None:
        updates = [
            pb.TaskUpdate(allocation_id=self._allocation, attempt_id=t.attempt_id, metrics=t.metrics())
            for t in self._tasks.values()
            if t.state is ExecutionState.RUNNING
        ]
        if updates:
            self._send(pb.WorkerMessage(metrics=pb.TaskMetricsReport(tasks=updates)))


def _holds_end(channel: RemoteInputChannel) -> bool:
    """Whether the channel's last buffer is a signal: the end has arrived and only waits to be taken."""
    from millstream.taskmanager.network.codecs import Codec

    return bool(channel.queue) and channel.queue[-1].codec == Codec.SIGNAL


__all__ = ["Batch", "SlotWorker", "TaskInterrupted", "WakeUp"]
