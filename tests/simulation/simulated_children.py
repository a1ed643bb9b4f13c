"""The child processes of services, in memory: they speak the messages of the pipe, and have no code of users.

They start, crash, hang and are killed as real ones; when their parent dies, they read the end of the pipe and follow.
"""

from __future__ import annotations

import asyncio
import functools
import pickle
from collections.abc import Callable
from typing import assert_never

from inputs import Split
from ledger import Ledger
from msgspec.structs import replace
from simulated_channels import DataPlane
from simulated_sources import EnumeratorContext, SimulatedEnumerator
from simulated_tasks import SimulatedTask
from story import must
from virtual_loop import VirtualProcess
from world import World

from millstream.core.errors import MillstreamError, UnrecoverableError
from millstream.core.jobs.failure_kinds import FailureKind
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.ids import AllocationId, AttemptId, JobId, VertexId
from millstream.core.jobs.states import ExecutionState
from millstream.core.messages import sources as src
from millstream.core.messages import task_manager as tm
from millstream.core.messages.checkpoints import CheckpointNotice, TriggerCheckpoint
from millstream.core.messages.deployment import CancelTasks, DeployTasks, TaskDeployment
from millstream.core.pickling import to_bytes
from millstream.core.processes.job_process import JobProcess, Launcher
from millstream.core.settings.configuration import Configuration
from millstream.core.wire.pipes import ENUMERATORS_COMMAND, ENUMERATORS_MESSAGE, WORKER_COMMAND, WORKER_MESSAGE

_PIPE = 0.0005
_INTERVAL = "execution.checkpointing.interval"
_ENUMERATORS = "millstream.jobmanager.sources.enumerators"


@functools.cache
def _is_longer_than_none(interval: str) -> bool:
    return Configuration({_INTERVAL: interval}).value(_INTERVAL) > 0


class SimulatedChild:
    """A `millstream.core.processes.child.Child`, and the process behind it."""

    def __init__(self, world: World, parent: VirtualProcess, name: str) -> None:
        self.crashed = False
        self.parent = parent
        self.process = world.loop.process(f"{parent.name}/{name}")
        self.world = world
        self._said: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._ended: asyncio.Future[str] = world.loop.create_future()

    # The parent's end

    def send(self, message: bytes) -> None:
        self._later(_PIPE, self._told, message)

    async def receive(self, on_message: Callable[[bytes], None]) -> None:
        while (message := await self._said.get()) is not None:
            on_message(message)

    async def wait(self) -> str:
        return await asyncio.shield(self._ended)

    def kill(self) -> None:
        self.end("was killed by SIGKILL")

    # Its own

    @property
    def is_alive(self) -> bool:
        return not self._ended.done()

    def end(self, how: str, crashed: bool = False) -> None:
        """However it comes about."""
        if self.is_alive:
            self.world.tell(f"{self.process.name} {how}")
            self.world.kill(self.process)
            self.crashed = crashed
            self._said.put_nowait(None)
            self._ended.set_result(f"process {how}")

    def crash(self) -> None:
        self.end("exited with status 1", crashed=True)

    def parent_died(self) -> None:
        self._later(self.world.up_to(0.3), self.end, "follows its parent")

    def _told(self, raw: bytes) -> None:
        raise NotImplementedError

    def _say(self, raw: bytes) -> None:
        self._said.put_nowait(raw)

    def _later(self, delay: float, action: Callable[..., None], *args: object) -> None:
        if self.is_alive:
            self.world.later(self.process, delay, action, *args)

    def _stop(self) -> None:
        if not self.world.mishap(0.05):  # else it has to be killed
            self._later(self.world.up_to(2), self.end, "exited with status 0")


class SimulatedWorker(SimulatedChild):
    """A slot worker."""

    def __init__(self, world: World, parent: VirtualProcess, name: str, data_plane: DataPlane) -> None:
        super().__init__(world, parent, name)
        self.job_id = JobId("")
        self.allocation_id = AllocationId("")
        self.tasks: dict[AttemptId, SimulatedTask] = {}
        self._data_plane = data_plane
        self._checkpoints = False
        self._is_ready = False

    @property
    def running(self) -> list[SimulatedTask]:
        return [task for task in self.tasks.values() if not task.state.is_terminal] if self.is_alive else []

    def end(self, how: str, crashed: bool = False) -> None:
        lost = self.running
        super().end(how, crashed)
        for task in lost:
            self._data_plane.lost(task)

    def _told(self, raw: bytes) -> None:
        match WORKER_COMMAND.from_bytes(raw):
            case tm.StartWorker(allocation_id, job_id, configuration=configuration):
                self.allocation_id, self.job_id = allocation_id, job_id
                self._checkpoints = _is_longer_than_none(configuration.get(_INTERVAL, "0 ms"))
                self._start()
            case DeployTasks(allocation_id, tasks):
                must(self._is_ready, "tasks for a worker that is not ready", self.job_id)
                must(allocation_id == self.allocation_id, "tasks of another slot", self.job_id)
                for deployment in tasks:
                    self._deploy(deployment)
            case CancelTasks(_, attempts):
                for task in self._of(attempts):
                    if not self.world.mishap(0.1):  # else it does not return, and is killed in the end
                        self._later(0.1, task.to, ExecutionState.CANCELED)
            case src.EnumeratorEvent(kind=kind, attempt_id=attempt):
                for task in self._of((attempt,)):
                    task.from_enumerator(kind)
            case TriggerCheckpoint(_, attempts, barrier):
                for task in self._of(attempts):
                    task.triggered(barrier)
            case CheckpointNotice(_, attempts, checkpoint_id, completed):
                for task in self._of(attempts):
                    if completed:
                        task.completed(checkpoint_id)
                    else:
                        task.aborted(checkpoint_id)
            case tm.CollectFromTask():
                pass
            case src.Stop():
                self._stop()
            case never:
                assert_never(never)

    def _of(self, attempts: tuple[AttemptId, ...]) -> list[SimulatedTask]:
        return [self.tasks[attempt] for attempt in attempts if attempt in self.tasks]

    def _start(self) -> None:
        delay = self.world.up_to(1)
        if self.world.mishap(0.03):
            self._later(delay, self.crash)
        elif not self.world.mishap(0.02):  # else it hangs, and is killed
            self._later(delay, self._readied)

    def _readied(self) -> None:
        self._is_ready = True
        self.say(tm.WorkerReady(self.allocation_id, self.process.name))

    def _deploy(self, deployment: TaskDeployment) -> None:
        must(deployment.job_id == self.job_id, "a task of another job", self.job_id, deployment.job_id)
        must(deployment.attempt_id not in self.tasks, "an attempt is deployed twice", self.job_id)
        task = SimulatedTask(deployment, self, self._data_plane, self._checkpoints)
        self.tasks[deployment.attempt_id] = task
        task.start()

    def say(self, message: tm.WorkerMessage) -> None:
        """To the task manager."""
        self._say(WORKER_MESSAGE.to_bytes(message))

    def later(self, delay: float, action: Callable[..., None], *args: object) -> None:
        """Unless it is dead by then."""
        self._later(delay, action, *args)


class SimulatedEnumerators(SimulatedChild):
    """The enumerator process of a job: it gives out the splits of its input."""

    def __init__(self, world: World, parent: VirtualProcess, name: str, ledger: Ledger) -> None:
        super().__init__(world, parent, name)
        self.job_id = JobId("")
        self._ledger = ledger
        self._sources: dict[VertexId, tuple[SimulatedEnumerator, EnumeratorContext]] = {}
        self._started: dict[VertexId, src.SourceToEnumerate] = {}

    def _told(self, raw: bytes) -> None:
        match command := ENUMERATORS_COMMAND.from_bytes(raw):
            case src.StartEnumerators(job_id, sources):
                self.job_id = job_id
                for source in sources:
                    self._start(source)
                delay = self.world.up_to(0.5)
                if self.world.mishap(0.03):
                    self._later(delay, self._failed)
                    return
                self._later(delay, self._answer, src.Ready())
            case src.ReaderEvent() if command.vertex_id in self._sources:
                self._reader_event(command)
            case src.ResetSource(vertex_id, state, parallelism):
                source = replace(self._started[vertex_id], state=state, parallelism=parallelism, readers=())
                self._start(source)
                self._answer(src.Ready())
            case src.SnapshotEnumerators(checkpoint_id):
                self._later(0.01, self._snapshot, checkpoint_id)
            case src.ReaderEvent() | CheckpointNotice():
                pass
            case src.Stop():
                self._stop()
            case never:
                assert_never(never)

    def _start(self, source: src.SourceToEnumerate) -> None:
        self._started[source.vertex_id] = source
        context = EnumeratorContext(self.job_id, source, self._answer)
        given = self._ledger.output(self.job_id).given
        splits: list[Split] = pickle.loads(source.state) if source.state else given.whole()
        enumerator = SimulatedEnumerator(context, splits)
        self._sources[source.vertex_id] = enumerator, context
        if source.readers:
            enumerator.take_over(
                {r.subtask: [split for given in r.splits for split in pickle.loads(given)] for r in source.readers}
            )

    def _reader_event(self, event: src.ReaderEvent) -> None:
        """As the product's process passes them on."""
        enumerator, context = self._sources[event.vertex_id]
        match event.kind:
            case src.Registered():
                context.readers.add(event.subtask)
                enumerator.add_reader(event.subtask)
            case src.SplitsReturned(returned):
                context.readers.discard(event.subtask)
                if splits := pickle.loads(returned):
                    enumerator.add_splits_back(splits, event.subtask)
                self._answer(src.Ready())
            case src.SplitRequest(host):
                enumerator.handle_split_request(event.subtask, host)
            case src.Custom():
                raise AssertionError("readers send no such message")

    def _snapshot(self, checkpoint_id: int) -> None:
        """What was assigned before has left before."""
        if self.world.mishap(0.05):
            self._answer(src.EnumeratorsSnapshot(checkpoint_id, error="it cannot be pickled"))
            return
        states = {vertex: to_bytes(e.snapshot_state(checkpoint_id)) for vertex, (e, _) in self._sources.items()}
        self._answer(src.EnumeratorsSnapshot(checkpoint_id, states))

    def _failed(self) -> None:
        self._answer(TaskFailure(self.job_id, exception="ValueError: no such topic", kind=FailureKind.ORDINARY))

    def _answer(self, message: src.EnumeratorsMessage) -> None:
        self._say(ENUMERATORS_MESSAGE.to_bytes(message))


class Children:
    """A `Launcher` for each service, and all the children that live."""

    def __init__(self, world: World, data_plane: DataPlane) -> None:
        self._world = world
        self._data_plane = data_plane
        self._started: list[SimulatedChild] = []
        self._number = 0

    def workers(self) -> list[SimulatedWorker]:
        """Those that live."""
        return [child for child in self.living() if isinstance(child, SimulatedWorker)]

    def enumerators(self) -> list[SimulatedEnumerators]:
        """Those that live."""
        return [child for child in self.living() if isinstance(child, SimulatedEnumerators)]

    def living(self) -> list[SimulatedChild]:
        self._started = [child for child in self._started if child.is_alive]
        return self._started

    def parent_died(self, parent: VirtualProcess) -> None:
        for child in self.living():
            if child.parent is parent:
                child.parent_died()

    def launcher(self, parent: VirtualProcess) -> Launcher:
        """What the service of this process starts its children with."""

        async def launch(
            process: JobProcess,
            configuration: Configuration,
            progress: Callable[[str], None],
            outputs: Callable[[], tuple[int, int] | None] = lambda: None,
        ) -> SimulatedChild:
            progress("making the environment")
            await asyncio.sleep(self._world.up_to(0.5))
            if self._world.mishap(0.02):
                raise MillstreamError("the package index does not respond")
            if self._world.mishap(0.005):
                raise UnrecoverableError("there is no such package")
            self._number += 1
            child: SimulatedChild
            if process.module == _ENUMERATORS:
                name = f"enumerators{self._number}"
                child = SimulatedEnumerators(self._world, parent, name, self._data_plane.ledger)
            else:
                child = SimulatedWorker(self._world, parent, f"worker{self._number}", self._data_plane)
            self._started.append(child)
            return child

        return launch
