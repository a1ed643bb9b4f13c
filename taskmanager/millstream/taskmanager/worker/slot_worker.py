"""The slot worker's loop: one thread that runs all tasks of a slot.

Each turn handles the mails that have arrived (commands, frames, wake-ups), fires due timers, and gives every task one
bounded step; when no task can proceed, the loop sleeps until the next mail. All code of tasks, channels and operators
runs on this thread; other threads only put mails into the mailbox.
"""

from __future__ import annotations

import heapq
import logging
import queue
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, assert_never

import msgspec
from msgspec import Struct

from millstream.core.clock import Clock
from millstream.core.jobs.details import Accumulator
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.states import ExecutionState
from millstream.core.logs.failure_texts import cause_line, failure_lines, ordinal
from millstream.core.logs.logs import REPORTED
from millstream.core.logs.origins import Origin, lines_of, thread_is_nobodys
from millstream.core.logs.repeats import Repeats
from millstream.core.messages.checkpoints import CheckpointNotice, TriggerCheckpoint
from millstream.core.messages.deployment import CancelTasks, DeployTasks, TaskDeployment
from millstream.core.messages.inspection import InspectWorker, PlacedOperator, PlacedTask
from millstream.core.messages.results import CollectResponse
from millstream.core.messages.sources import EnumeratorEvent, Stop, WatermarkLimit
from millstream.core.messages.task_manager import (
    CollectFromTask,
    SlotMetrics,
    StartWorker,
    TaskMetricsReport,
    TaskUpdate,
    WorkerCommand,
    WorkerMessage,
    WorkerReady,
)
from millstream.core.metrics.model import encode_groups
from millstream.core.metrics.process_metrics import own_use
from millstream.core.processes.forking import leave_if_forked, loops_start_here
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.execution import (
    CHECKPOINTING_CHECKPOINTS_AFTER_TASKS_FINISH_ENABLED,
    CHECKPOINTING_INCREMENTAL,
    CHECKPOINTING_INTERVAL,
    STATE_RECOVERY_FROM_LOCAL,
)
from millstream.core.settings.options.metrics import METRICS_FETCHER_UPDATE_INTERVAL
from millstream.taskmanager.memory_limit import lifted, limit_memory
from millstream.taskmanager.worker.checkpointing.local_copies import SlotCopies
from millstream.taskmanager.worker.checkpointing.storages import DIRECTORIES, Storages, StorageSizes
from millstream.taskmanager.worker.checkpointing.writer_thread import CheckpointServices, SnapshotWritten
from millstream.taskmanager.worker.checkpointing.writing import warm_up
from millstream.taskmanager.worker.failures import PeerLostError, describe_failure
from millstream.taskmanager.worker.interruption import TaskInterrupted
from millstream.taskmanager.worker.network.channel_table import ChannelTable
from millstream.taskmanager.worker.network.data_plane import DataPlane, FrameArrived, PeerLost
from millstream.taskmanager.worker.network.debloating import FIRST_ROWS
from millstream.taskmanager.worker.network.inputs import ProtocolError
from millstream.taskmanager.worker.tasks.task import OperatorMail, Task
from millstream.taskmanager.worker.tasks.task_factory import TaskFactory, is_debloating
from millstream.taskmanager.worker.tasks.task_pacing import StepResult
from millstream.taskmanager.worker.tasks.task_progress import attempt_metrics

log = logging.getLogger(__name__)


_WRITERS = 4  # snapshots written at the same time: they wait for storage more than for the processor
# seconds for which a task may continue to consume before its producers take their turn: full queues add latency
_DRAIN = 0.005


class WakeUp(Struct, frozen=True):
    """A source reader has records."""

    attempt_id: str


Mail = WorkerCommand | FrameArrived | PeerLost | WakeUp | OperatorMail | SnapshotWritten


class SlotWorker:
    """Runs the tasks of one slot."""

    def __init__(self, start: StartWorker, host: str, clock: Clock, send: Callable[[WorkerMessage], None]) -> None:
        loops_start_here()
        options = dict(start.configuration)
        configuration = Configuration(options)
        self._allocation = start.allocation_id
        self._clock = clock
        self._send = send
        self.mailbox: queue.SimpleQueue[Mail] = queue.SimpleQueue()
        self._data_plane = DataPlane(start.job_id, host, configuration, self.mailbox.put)
        self._channels = ChannelTable(FIRST_ROWS if is_debloating(configuration) else 0)
        self._writers = ThreadPoolExecutor(_WRITERS, "snapshots", thread_is_nobodys)
        directories = [configuration.get(option) for option in DIRECTORIES]
        storages = Storages(start.job_id, *directories, sizes=StorageSizes.of(configuration))
        incremental = configuration.get(CHECKPOINTING_INCREMENTAL)
        self._takes_checkpoints = configuration.get(CHECKPOINTING_INTERVAL) > 0
        takes_final = self._takes_checkpoints and configuration.get(
            CHECKPOINTING_CHECKPOINTS_AFTER_TASKS_FINISH_ENABLED
        )
        copies = SlotCopies(start.local_state_folder, configuration.get(STATE_RECOVERY_FROM_LOCAL))
        self._checkpoints = CheckpointServices(
            start.allocation_id, clock, storages, incremental, self._writers.submit, self.mailbox.put, send,
            takes_final, copies,
        )  # fmt: skip
        self._factory = TaskFactory(
            host,
            options,
            self._data_plane,
            self._channels,
            send,
            lambda attempt_id: self.mailbox.put(WakeUp(attempt_id)),
            self._wake_up_in,
            clock,
            storages,
            self.mailbox.put,
        )
        self._tasks: dict[str, Task] = {}
        self._timers: list[tuple[float, str]] = []
        self._stopped = False
        self._metrics_due = 0.0
        self._metrics_interval = configuration.get(METRICS_FETCHER_UPDATE_INTERVAL)
        self._job = Origin(start.job_id, start.job_name)
        self._failures: dict[tuple[str, int], Repeats] = {}
        self.current: Task | None = None
        self.cancelling: set[str] = set()

    @property
    def working_on(self) -> Origin:
        """What the loop is executing: a task, or the job alone between two tasks."""
        current = self.current
        return current.origin if current is not None else self._job

    def run(self, memory: int = 0) -> None:
        """Runs until a stop command. `memory` limits what the tasks may allocate, in bytes."""
        self._data_plane.start()
        limit_memory(memory)
        if self._takes_checkpoints:
            self._writers.submit(warm_up)
        self._send(WorkerReady(self._allocation, self._data_plane.address))
        try:
            while not self._stopped:
                self.turn()
        finally:
            for task in list(self._tasks.values()):
                self._close(task)
            self._writers.shutdown(wait=False, cancel_futures=True)
            self._data_plane.stop()

    def running_tasks(self) -> list[Task]:
        """The tasks that take steps. Called on any thread."""
        return [task for task in list(self._tasks.values()) if task.state is ExecutionState.RUNNING]

    def placed(self, task: Task) -> PlacedTask:
        """Identifies a task with operators for inspections. Called on any thread."""
        about, chain = task.deployment, task.chain.operators
        operators = tuple([PlacedOperator(id(operator), operator.name) for operator in chain])
        return PlacedTask(
            self._allocation, task.attempt_id, about.vertex_id, about.subtask, id(task), about.task_name, operators
        )

    def turn(self) -> None:
        """One turn of the loop; sleeps if there is nothing to do."""
        self._take_mails(None)
        now = self._clock.monotonic()
        worked = False
        for task in reversed(list(self._tasks.values())):
            worked |= self._step(task)
            until = now + _DRAIN
            while task.steps.may_go_on and self._clock.monotonic() < until:
                if not self._step(task):
                    break
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
        steps = task.steps
        steps.pacing.waited_until(self._clock.monotonic(), steps.last_result)
        if not self._in_task(task, steps.step):
            return True
        steps.pacing.worked_until(self._clock.monotonic())
        if steps.last_result is StepResult.ENDED:
            self._end(task)
            return True
        return steps.last_result is StepResult.WORKED

    def _sleep(self) -> None:
        now = self._clock.monotonic()
        due = self._flush_due(now)
        if self._timers and (due is None or self._timers[0][0] < due):
            due = self._timers[0][0]
        if due is None or due > self._metrics_due:
            due = max(self._metrics_due, now + 0.001)
        self._take_mails(max(0.0, due - now))

    def _flush_due(self, now: float) -> float | None:
        next_due: float | None = None
        for task in list(self._tasks.values()):
            if self._in_task(task, partial(task.steps.flush_due, now)):
                due = task.steps.next_flush
                if due is not None and (next_due is None or due < next_due):
                    next_due = due
        while self._timers and self._timers[0][0] <= now:
            _, attempt_id = heapq.heappop(self._timers)
            if attempt_id in self._tasks:
                self._tasks[attempt_id].steps.wake_up()
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
        match mail:
            case FrameArrived():
                try:
                    self._channels.arrived(mail.peer, mail.frame)
                except ProtocolError as error:
                    self._data_plane.refuse(mail.peer, str(error))
            case WakeUp():
                if mail.attempt_id in self._tasks:
                    self._tasks[mail.attempt_id].steps.wake_up()
            case OperatorMail():
                self._deliver(mail)
            case PeerLost():
                self._lose_peer(mail)
            case SnapshotWritten():
                self._snapshot_written(mail)
            case _:
                self._handle_command(mail)

    def _handle_command(self, command: WorkerCommand) -> None:
        match command:
            case DeployTasks(tasks=deployments):
                for deployment in deployments:
                    self._factory.connect(deployment)
                for deployment in deployments:
                    self._deploy(deployment)
            case CancelTasks():
                for attempt_id in command.attempt_ids:
                    if attempt_id in self._tasks:
                        self._cancel(self._tasks[attempt_id])
            case EnumeratorEvent() | WatermarkLimit():
                self._deliver(OperatorMail(command.attempt_id, None, command))
            case CollectFromTask():
                self._collect(command)
            case TriggerCheckpoint():
                self._trigger_checkpoint(command)
            case CheckpointNotice():
                self._notify_of_checkpoint(command)
            case Stop():
                self._stopped = True
            case StartWorker() | InspectWorker():
                log.error("ignored the unexpected command %s", type(command).__name__)
            case _:
                assert_never(command)

    def _deploy(self, deployment: TaskDeployment) -> None:
        task = Task(deployment, self._factory.max_rows, self._factory.max_column_rows, self._checkpoints)
        self._tasks[task.attempt_id] = task
        self._update(task, ExecutionState.INITIALIZING)
        # cancelled since the deployment arrived: do not spend time on restoring it
        if task.attempt_id in self.cancelling:
            self._cancel(task)
            return
        if not self._in_task(task, lambda: self._factory.build(task)):
            return
        self._send(msgspec.structs.replace(self.placed(task), search_path=tuple(sys.path)))
        if not self._in_task(task, task.open):
            return
        self._update(task, ExecutionState.RUNNING)

    def _in_task(self, task: Task, call: Callable[[], object]) -> bool:
        """Runs code of a task; returns whether the task survived."""
        self.current = task
        try:
            call()
        except BaseException as error:  # also an interrupt: one that was not requested is an error of the user
            leave_if_forked(error)
            self._fail(task, error)
            return False
        finally:
            self.current = None
        leave_if_forked()
        return True

    def _wake_up_in(self, attempt_id: str, seconds: float) -> None:
        heapq.heappush(self._timers, (self._clock.monotonic() + seconds, attempt_id))

    def _deliver(self, mail: OperatorMail) -> Any:
        """Delivers a mail to an operator and returns its result, or None if there is no such operator."""
        task = self._tasks.get(mail.attempt_id)
        results: list[Any] = [None]
        if task is not None and task.state is ExecutionState.RUNNING:
            self._in_task(task, lambda: results.append(task.deliver(mail)))
        return results[-1]

    def _collect(self, command: CollectFromTask) -> None:
        request = command.request
        response = self._deliver(OperatorMail(command.attempt_id, request.operator_id, request))
        gone = CollectResponse(request.request_id, error="the collecting task is not running")
        self._send(gone if response is None else response)

    def _trigger_checkpoint(self, command: TriggerCheckpoint) -> None:
        for attempt_id in command.attempt_ids:
            task = self._tasks.get(attempt_id)
            if task is not None and task.state is ExecutionState.RUNNING:
                self._in_task(task, partial(task.checkpoints.trigger, command.barrier))

    def _notify_of_checkpoint(self, notice: CheckpointNotice) -> None:
        for attempt_id in notice.attempt_ids:
            task = self._tasks.get(attempt_id)
            if task is not None and task.state is ExecutionState.RUNNING:
                notify = task.checkpoints.completed if notice.completed else task.checkpoints.aborted
                self._in_task(task, partial(notify, notice.checkpoint_id))

    def _snapshot_written(self, mail: SnapshotWritten) -> None:
        task = self._tasks.get(mail.attempt_id)
        if task is not None:
            self._in_task(task, partial(task.checkpoints.written, mail))
        elif mail.written is not None:
            self._checkpoints.discard(mail.barrier.location, mail.written.new_files)

    def _lose_peer(self, lost: PeerLost) -> None:
        for task in list(self._tasks.values()):
            self._fail_for_peer(task, lost.peer, lost.reason)

    def _fail_for_peer(self, task: Task, peer: str, reason: str) -> None:
        if task.state is not ExecutionState.RUNNING:
            return
        names = [c.name for g in task.gates for c in g.channels if c.peer == peer and not c.has_all]
        kind = "producer"
        if not names:
            kind = "consumer"
            names = [c.name for p in task.partitions for c in p.channels if c.peer == peer]
        if names:
            others = f" and {len(names) - 1} more" if len(names) > 1 else ""
            self._fail(task, PeerLostError(f"lost the {kind} {names[0]}{others} at {peer}: {reason}"))

    def _end(self, task: Task) -> None:
        errors = self._close(task)
        if errors:
            self._fail(task, errors[0])
            return
        accumulators: list[Accumulator] = []
        if self._in_task(task, lambda: accumulators.extend(task.counts.accumulated())):
            task.move_to(ExecutionState.FINISHED)
            self._report(task, accumulators=tuple(accumulators))
            self._forget(task)

    def _fail(self, task: Task, error: BaseException) -> None:
        if task.attempt_id in self.cancelling:
            self._cancel(task)
            return
        with lifted():
            self._close(task)
            task.move_to(ExecutionState.FAILED)
            failure = describe_failure(error, task.deployment, self._clock.now_ms(), task.counts.records_taken)
            with lines_of(task.origin):
                self._log_failure(task, failure)
            self._report(task, failure)
            self._forget(task)

    def _log_failure(self, task: Task, failure: TaskFailure) -> None:
        """Logs the traceback of a new error, and one line if it is repeated; a loop of repetitions is only counted."""
        place, name = (task.deployment.vertex_id, task.deployment.subtask), task.deployment.task_name
        repeats = self._failures.setdefault(place, Repeats())
        if not repeats.is_told(failure.signature or failure.exception, self._clock.monotonic()):
            return
        if repeats.count == 1:
            log.error("task %s failed:\n%s", name, "\n".join(failure_lines(failure)), extra=REPORTED)
        else:
            again = ordinal(repeats.count)
            message = "task %s failed with the same error, %s time: %s"
            log.error(message, name, again, cause_line(failure), extra=REPORTED)

    def _cancel(self, task: Task) -> None:
        self._close(task)
        self._update(task, ExecutionState.CANCELED)
        self._forget(task)

    def _close(self, task: Task) -> list[BaseException]:
        self.current = task
        try:
            errors = task.close()
        except TaskInterrupted as interrupt:
            errors = [] if task.attempt_id in self.cancelling else [interrupt]
        finally:
            self.current = None
        for error in errors:
            with lines_of(task.origin):
                log.warning("failed to close %s: %s", task.deployment.task_name, error)
        return errors

    def _forget(self, task: Task) -> None:
        del self._tasks[task.attempt_id]
        self._channels.forget(task.gates, [c for p in task.partitions for c in p.channels])

    def _update(self, task: Task, state: ExecutionState) -> None:
        task.move_to(state)
        self._report(task)

    def _report(
        self, task: Task, failure: TaskFailure | None = None, accumulators: tuple[Accumulator, ...] = ()
    ) -> None:
        metrics = task.counts.metrics() if task.state.is_terminal else None
        self._send(TaskUpdate(self._allocation, task.attempt_id, task.state, failure, accumulators, metrics))

    def _report_metrics(self) -> None:
        running = [task for task in self._tasks.values() if task.state is ExecutionState.RUNNING]
        reports = tuple([attempt_metrics(task) for task in running])
        if reports:
            self._send(TaskMetricsReport(self._allocation, reports))
        now = self._clock.monotonic()
        groups = [g for task, t in zip(running, reports, strict=True) for g in task.figures.groups(t.metrics, now)]
        use = own_use()
        self._send(SlotMetrics(self._allocation, encode_groups(groups), *msgspec.structs.astuple(use)))
